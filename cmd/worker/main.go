// Command worker is a host's daemon: it owns the MCP servers that controllers
// assign to it.
//
//	worker --server nats://nats:4222 --fleet default --id host-a --label zone=eu
//
// It finds the NATS servers as toolfleet does. Servers with secrets run here
// only if the host's folder holds the fleet's identity. Exit status: 0 stopped
// by a signal, 1 failed, 2 wrong usage, 4 NATS not reached in time.
package main

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/toolfleet/toolfleet/cmd/internal/build"
	"github.com/toolfleet/toolfleet/cmd/internal/exit"
	"github.com/toolfleet/toolfleet/cmd/internal/parts"
	"github.com/toolfleet/toolfleet/cmd/internal/show"
	"github.com/toolfleet/toolfleet/cmd/internal/supervise"
	"github.com/toolfleet/toolfleet/events/jetlog"
)

func main() {
	ctx, stop := parts.Interrupted()
	err := newCommand().ExecuteContext(ctx)
	stop()
	exit.Print(show.Terminal(os.Stderr), "worker", err)
	os.Exit(int(exit.Of(err)))
}

func newCommand() *cobra.Command {
	d := &parts.Daemon{Role: "worker"}
	var o parts.WorkerOptions
	cmd := &cobra.Command{
		Use:           "worker",
		Short:         "Run MCP servers of a fleet on this host",
		Version:       build.Version(),
		Args:          exit.NoArguments,
		SilenceErrors: true,
		SilenceUsage:  true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			d.Stderr = cmd.ErrOrStderr()
			return d.Run(cmd.Context(), func(log *jetlog.Log, h *parts.Host) []supervise.Part {
				return []supervise.Part{parts.Worker(log, h, &o)}
			})
		},
	}
	cmd.SetFlagErrorFunc(exit.FlagError)
	d.Register(cmd.Flags())
	cmd.Flags().StringToStringVar(&o.Labels, "label", nil, "label of this worker, as key=value; may be repeated")
	return cmd
}
