package main

import (
	"context"
	"log/slog"

	"github.com/spf13/cobra"

	"github.com/toolfleet/toolfleet/cmd/internal/exit"
	"github.com/toolfleet/toolfleet/cmd/internal/parts"
	"github.com/toolfleet/toolfleet/cmd/internal/supervise"
	"github.com/toolfleet/toolfleet/projections"
	"github.com/toolfleet/toolfleet/session"
)

// gatewayCommand is the command gateway with its flags.
type gatewayCommand struct {
	sessionFlags
	http  parts.HTTPOptions
	names schemeFlag
	data  string
}

func newGateway() *cobra.Command {
	var g gatewayCommand
	cmd := &cobra.Command{
		Use:   "gateway",
		Short: "Be one MCP server with all tools of the fleet, over HTTP",
		Long: "Serves MCP over HTTP at /mcp, for agents on a host that reaches no more of the fleet\n" +
			"than NATS, until Ctrl-C. The controllers and toolfleet up serve the same, so it is\n" +
			"not needed beside one of them. Agents need a token with the scope call: toolfleet\n" +
			"token prints one. /healthz and /readyz say how it is.",
		Example: "  toolfleet gateway -s nats://nats.example.org:4222\n  toolfleet token --scope call",
		Args:    exit.NoArguments,
		RunE:    func(cmd *cobra.Command, _ []string) error { return g.run(cmd) },
	}
	g.register(cmd.Flags())
	g.http.Register(cmd.Flags(), false)
	g.names.register(cmd.Flags())
	cmd.Flags().StringVar(&g.data, "data", "", "`folder` for the tokens (default: the fleet's state folder)")
	return cmd
}

func (g *gatewayCommand) run(cmd *cobra.Command) error {
	ctx := cmd.Context()
	if g.http.Addr == parts.NoHTTP {
		return exit.Usagef("--http off: a gateway is nothing without HTTP")
	}
	id, err := g.FleetID()
	if err != nil {
		return err
	}
	h := &parts.Host{Data: g.data, Logger: parts.NewLogger(cmd.ErrOrStderr(), slog.LevelInfo)}
	if err := h.Complete(id); err != nil {
		return err
	}
	stop, err := parts.Telemetry(ctx, "toolfleet-gateway", h)
	if err != nil {
		return err
	}
	defer stop()
	serving, err := parts.ListenHTTP(ctx, &g.http, h)
	if err != nil {
		return err
	}
	defer serving.Close()
	f, err := attachTo(ctx, &g.Flags)
	if err != nil {
		return err
	}
	f.sayWhenLost(cmd)
	h.Logger.Info("serving agents over HTTP", "url", serving.URL+"/mcp")
	connection := supervise.Part{Name: "connection to NATS", Run: func(ctx context.Context) error {
		<-ctx.Done()
		f.close()
		return nil
	}}
	return supervise.Run(ctx, 0, connection, serving.Agents(f.nc, &parts.AgentOptions{
		Options: session.Options{Fleet: f.id, Project: g.project, Scheme: projections.Scheme(g.names)}, ListWait: g.listWait(),
	}))
}
