// Command toolfleet runs and uses a fleet of MCP servers.
//
//	toolfleet up            run a whole fleet in this process: NATS, controller, worker
//	toolfleet tools         list the fleet's tools
//	toolfleet call          call a tool
//	toolfleet get servers   show the servers and what became of them
//	toolfleet events        show the fleet's history
//
// Verbs other than up attach to a fleet: see package attach for how they find
// it. What they print with -o json is a contract: see package show.
//
// Exit status: 0 done, 1 failed, 2 wrong usage, 3 not found, 4 timed out, 5 the
// tool itself reported an error.
package main

import (
	"os"

	"github.com/toolfleet/toolfleet/cmd/internal/exit"
	"github.com/toolfleet/toolfleet/cmd/internal/parts"
	"github.com/toolfleet/toolfleet/cmd/internal/show"
)

func main() {
	ctx, stop := parts.Interrupted()
	err := newRoot().ExecuteContext(ctx)
	stop()
	exit.Print(show.Terminal(os.Stderr), "toolfleet", err)
	os.Exit(int(exit.Of(err)))
}
