// Command controller is a fleet's control plane: it answers requests, plans
// while it leads, and writes the views.
//
//	controller --server nats://nats:4222 --fleet default
//
// Any number of controllers may run, each with an id and a data folder of its
// own. One leads; when it stops another one does at once, and when it dies,
// within about 20 s. It declares workers lost whose leases ended; what they ran
// is given to others. Each also serves HTTP: agents at /mcp, and what package
// controller/web describes.
//
// It finds the NATS servers as toolfleet does. Exit status: 0 stopped by a
// signal, 1 failed, 2 wrong usage, 4 NATS not reached in time.
package main

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/toolfleet/toolfleet/cmd/internal/build"
	"github.com/toolfleet/toolfleet/cmd/internal/exit"
	"github.com/toolfleet/toolfleet/cmd/internal/parts"
	"github.com/toolfleet/toolfleet/cmd/internal/show"
)

func main() {
	ctx, stop := parts.Interrupted()
	err := newCommand().ExecuteContext(ctx)
	stop()
	exit.Print(show.Terminal(os.Stderr), "controller", err)
	os.Exit(int(exit.Of(err)))
}

func newCommand() *cobra.Command {
	d := &parts.Daemon{Role: "controller", HTTP: &parts.HTTPOptions{}}
	cmd := &cobra.Command{
		Use:   "controller",
		Short: "Decide what a fleet of MCP servers runs where",
		Long: "Answers requests about a fleet's MCP servers, decides which worker runs what, and\n" +
			"writes the views that sessions and commands read.\n\n" +
			"Any number of controllers may run, each with an --id and a --data folder of its\n" +
			"own. All of them answer; one leads. When it stops another one leads at once, and\n" +
			"when it dies, within about 20 s; the same folder's next process takes over at\n" +
			"once. A worker whose lease ended is declared lost, and what it ran is given to\n" +
			"others.\n\n" +
			"It serves HTTP, to who has a token (toolfleet token prints it): agents at /mcp, and\n" +
			"/v1/servers, workers, tools and events; /openapi.json describes all of it.",
		Version:       build.Version(),
		Args:          exit.NoArguments,
		SilenceErrors: true,
		SilenceUsage:  true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			d.Stderr = cmd.ErrOrStderr()
			return d.Run(cmd.Context(), parts.ControlPlane)
		},
	}
	cmd.SetFlagErrorFunc(exit.FlagError)
	d.Register(cmd.Flags())
	d.HTTP.Register(cmd.Flags(), true)
	return cmd
}
