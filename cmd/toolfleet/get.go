package main

import (
	"github.com/spf13/cobra"

	"github.com/toolfleet/toolfleet/cmd/internal/exit"
)

func newGet() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "get",
		Short: "Show what the fleet has",
		Args:  exit.NoArguments,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newGetServers())
	return cmd
}
