package main

import (
	"context"
	"io"

	"github.com/cockroachdb/errors"
	"github.com/spf13/cobra"

	"github.com/toolfleet/toolfleet/cmd/internal/build"
	"github.com/toolfleet/toolfleet/cmd/internal/exit"
	"github.com/toolfleet/toolfleet/projections"
	"github.com/toolfleet/toolfleet/session"
	"github.com/toolfleet/toolfleet/session/gateway"
)

func newMCP() *cobra.Command {
	var (
		o     sessionFlags
		names schemeFlag
	)
	cmd := &cobra.Command{
		Use:   "mcp",
		Short: "Be one MCP server with all tools of the fleet, on standard input and output",
		Long: "Speaks MCP on standard input and output, for an MCP client that starts its servers\n" +
			"itself: it sees the fleet as one server, whose lists of tools, resources and prompts\n" +
			"stay current. Ends with the input. The fleet goes on.",
		Example: `  {"mcpServers": {"fleet": {"command": "toolfleet", "args": ["mcp"]}}}`,
		Args:    exit.NoArguments,
		RunE:    func(cmd *cobra.Command, _ []string) error { return o.serve(cmd, projections.Scheme(names)) },
	}
	o.register(cmd.Flags())
	names.register(cmd.Flags())
	return cmd
}

// serve serves the one client. Its first list waits for servers, not its greeting.
func (o *sessionFlags) serve(cmd *cobra.Command, names projections.Scheme) error {
	ctx, stop := context.WithCancel(cmd.Context())
	defer stop()
	f, err := attachTo(ctx, &o.Flags)
	if err != nil {
		return err
	}
	defer f.close()
	s, err := session.Open(ctx, f.nc, &session.Options{Fleet: f.id, Project: o.project, Scheme: names})
	if err != nil {
		return errors.Wrap(err, "open a session")
	}
	defer s.Close()
	g := gateway.New(s, &gateway.Options{Version: build.Version(), StartupWait: o.listWait()})
	ran := make(chan error, 1)
	go func() { ran <- g.Run(ctx) }()
	err = g.ServeStdio(ctx, io.NopCloser(cmd.InOrStdin()), cmd.OutOrStdout())
	stop()
	return errors.Join(err, <-ran)
}
