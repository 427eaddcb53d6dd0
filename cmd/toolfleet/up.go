package main

import (
	"log/slog"

	"github.com/spf13/cobra"

	"github.com/toolfleet/toolfleet/cmd/internal/attach"
	"github.com/toolfleet/toolfleet/cmd/internal/exit"
	"github.com/toolfleet/toolfleet/cmd/internal/local"
	"github.com/toolfleet/toolfleet/events"
)

func newUp() *cobra.Command {
	var (
		o       local.Options
		file    string
		example bool
		fleet   string
	)
	cmd := &cobra.Command{
		Use:   "up (-f FILE | --example)",
		Short: "Run a whole fleet in this process",
		Long: "Runs NATS with JetStream, a controller and a worker in this process, declares the\n" +
			"servers of a configuration file (the mcpServers shape) and shows what becomes of\n" +
			"them. What the fleet knows is kept in --data and continued by the next start.\n" +
			"Ctrl-C stops everything, servers first.",
		Example: "  toolfleet up --example\n  toolfleet up -f ~/.config/mcp.json",
		Args:    exit.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if o.Fleet, err = (&attach.Flags{Fleet: fleet}).FleetID(); err != nil {
				return err
			}
			switch {
			case (file == "") == !example:
				return exit.Usagef("give either -f FILE or --example")
			case example:
				o.Servers, err = local.Example()
			default:
				o.Servers, err = local.FromFile(file)
			}
			if err != nil {
				return err
			}
			o.Out = cmd.OutOrStdout()
			o.Logger = slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), &slog.HandlerOptions{Level: slog.LevelWarn}))
			return local.Run(cmd.Context(), &o)
		},
	}
	flags := cmd.Flags()
	flags.StringVarP(&file, "file", "f", "", "configuration file with the servers to run")
	flags.BoolVar(&example, "example", false, "run the example server")
	flags.StringVar(&fleet, "fleet", string(events.DefaultFleet), "name of the fleet")
	flags.StringVar(&o.Data, "data", "", "folder for what the fleet knows (default: the fleet's state folder)")
	flags.StringVar(&o.NATS.Listen, "listen", "", "host:port for NATS (default: a free port on 127.0.0.1)")
	flags.TextVar(&o.NATS.Durability, "durability", &o.NATS.Durability,
		"when acknowledged events are on disk: interval (200 ms later) or always (at once, slower)")
	return cmd
}
