package main

import (
	"github.com/spf13/cobra"

	"github.com/toolfleet/toolfleet/cmd/internal/build"
	"github.com/toolfleet/toolfleet/cmd/internal/exit"
)

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:           "toolfleet",
		Short:         "A fleet of MCP servers, shared by agents on many hosts",
		Version:       build.Version(),
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          exit.NoArguments,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetVersionTemplate("toolfleet {{.Version}}\n")
	root.SetFlagErrorFunc(exit.FlagError)
	for _, g := range []struct {
		title    string
		commands []*cobra.Command
	}{
		{"Run a fleet on this host:", []*cobra.Command{newUp(), newDown()}},
		{"Use tools:", []*cobra.Command{newTools(), newCall(), newMCP()}},
		{"Change servers:", append([]*cobra.Command{newApply()}, newChanges()...)},
		{"See what is:", []*cobra.Command{newStatus(), newGet(), newDescribe(), newEvents(), newLogs(), newWatch(), newWait()}},
		{"Look for what is wrong:", []*cobra.Command{newDoctor(), newExplain(), newRebuild()}},
	} {
		root.AddGroup(&cobra.Group{ID: g.title, Title: g.title})
		for _, c := range g.commands {
			c.GroupID = g.title
			root.AddCommand(c)
		}
	}
	root.AddCommand(newVersion(), newExampleServer())
	return root
}
