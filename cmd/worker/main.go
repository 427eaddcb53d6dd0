// Command worker is a host's daemon: it owns the MCP servers that controllers
// assign to it.
//
//	worker --server nats://nats:4222 --fleet default --id host-a --label zone=eu
//
// It finds the NATS servers as toolfleet does. Servers with secrets run here
// only if the host's folder holds the fleet's identity.
//
// At SIGTERM or an interrupt it hands over: it says that it is to leave, goes on
// until others have taken what they can, and ends; --drain bounds that. A second
// signal ends it at once.
//
// An id is one worker's: while it lives, another one of that id is refused.
//
// Exit status: 0 stopped by a signal, 1 failed, 2 wrong usage, 4 NATS not reached
// in time.
package main

import (
	"os"
	"time"

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
			if err := parts.CheckLabels(o.Labels); err != nil {
				return err
			}
			if o.Handover < 0 {
				return exit.Usagef("--drain: use a duration such as 30s, or 0 to stop at once")
			}
			return d.Run(cmd.Context(), func(log *jetlog.Log, h *parts.Host) []supervise.Part {
				return []supervise.Part{parts.Worker(log, h, &o)}
			})
		},
	}
	cmd.SetFlagErrorFunc(exit.FlagError)
	d.Register(cmd.Flags())
	cmd.Flags().StringToStringVar(&o.Labels, "label", nil, "label of this host, as `name=value`; may be repeated. os, arch and hostname are found out")
	cmd.Flags().DurationVar(&o.Handover, "drain", 30*time.Second, "how long to go on, when it is to stop, with what nobody has taken over yet; 0 is not at all")
	return cmd
}
