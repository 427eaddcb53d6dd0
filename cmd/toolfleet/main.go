// Command toolfleet runs and uses a fleet of MCP servers.
//
//	toolfleet up         run a whole fleet in this process: NATS, controller, worker
//	toolfleet down       stop it
//	toolfleet status     show on one screen how the fleet is
//
//	toolfleet tools      list the fleet's tools
//	toolfleet call       call a tool
//	toolfleet mcp        be one MCP server with all tools of the fleet
//
//	toolfleet apply      declare the servers of a file
//	toolfleet start, stop, restart, enable, disable, rm   change servers
//	toolfleet wait       wait until servers are ready
//
//	toolfleet get        show servers, workers or definitions
//	toolfleet describe   show all there is to know of a server or worker
//	toolfleet events     show the fleet's history
//	toolfleet logs       show what a server writes to stderr
//	toolfleet watch      show what changes, as it happens
//
//	toolfleet doctor     look for what is wrong
//	toolfleet explain    say what a failure means, and what helps
//	toolfleet rebuild    make the views anew from the history
//
// Verbs other than up attach to a fleet: see package attach for how they find
// it. What they print with -o json is a contract: see package show. Only what was
// asked for goes to standard output; progress and notes go to standard error.
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
