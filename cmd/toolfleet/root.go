package main

import (
	"context"
	"os"

	"github.com/spf13/cobra"

	"github.com/toolfleet/toolfleet/cmd/internal/build"
	"github.com/toolfleet/toolfleet/cmd/internal/exit"
	"github.com/toolfleet/toolfleet/otel"
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

		PersistentPreRun: func(cmd *cobra.Command, _ []string) { cmd.SetContext(traced(cmd)) },
	}
	root.SetVersionTemplate("toolfleet {{.Version}}\n")
	root.SetFlagErrorFunc(exit.FlagError)
	for _, g := range []struct {
		title    string
		commands []*cobra.Command
	}{
		{"Run a fleet on this host:", []*cobra.Command{newUp(), newDown()}},
		{"Use tools:", []*cobra.Command{newTools(), newCall(), newCalls(), newCancel(), newResources(), newRead(), newPrompts(), newPrompt(), newMCP(), newGateway(), newConnect(), newToken()}},
		{"Change servers:", append([]*cobra.Command{newApply(), newRollback()}, newChanges()...)},
		{"Change where servers run:", []*cobra.Command{newMove(), newPin(), newCordon(), newDrain(), newUncordon(), newFreeze(), newUnfreeze()}},
		{"See what is:", []*cobra.Command{newStatus(), newGet(), newDescribe(), newLogs(), newWatch(), newWait()}},
		{"See what happened:", []*cobra.Command{newEvents(), newWhy(), newDiff()}},
		{"Look for what is wrong:", []*cobra.Command{newDoctor(), newAlive(), newExplain(), newVerify(), newBundle(), newRebuild()}},
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

// traced returns the command's context as part of the trace that its caller named
// in TRACEPARENT. What goes on for long is no part of one.
func traced(cmd *cobra.Command) context.Context {
	switch cmd.Name() {
	case "up", "mcp", "gateway", "watch":
		return cmd.Context()
	default:
		return otel.Extract(cmd.Context(), os.Getenv("TRACEPARENT"), os.Getenv("TRACESTATE"))
	}
}
