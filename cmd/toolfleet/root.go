package main

import (
	"github.com/spf13/cobra"

	"github.com/toolfleet/toolfleet/cmd/internal/exit"
)

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:           "toolfleet",
		Short:         "A fleet of MCP servers, shared by agents on many hosts",
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          exit.NoArguments,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.CompletionOptions.HiddenDefaultCmd = true
	root.SetFlagErrorFunc(exit.FlagError)
	root.AddCommand(newUp(), newTools(), newCall(), newGet(), newEvents(), newVersion(), newExampleServer())
	return root
}
