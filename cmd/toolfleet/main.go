// Command toolfleet runs and uses a fleet of MCP servers.
//
//	toolfleet up         run a whole fleet in this process: NATS, controller, worker
//	toolfleet down       stop it
//	toolfleet status     show on one screen how the fleet is
//
//	toolfleet tools      list the fleet's tools
//	toolfleet call       call a tool
//	toolfleet calls      show the calls in flight; cancel ends one
//	toolfleet resources  list the resources that can be read
//	toolfleet read       read one
//	toolfleet prompts    list the prompts
//	toolfleet prompt     get one
//	toolfleet mcp        be one MCP server with all tools of the fleet
//	toolfleet gateway    the same over HTTP
//	toolfleet connect    print what an MCP client has to be told to attach
//	toolfleet token      print the token for HTTP
//
//	toolfleet apply      declare the servers of a file
//	toolfleet start, stop, restart, enable, disable, rm   change servers
//	toolfleet rollback   give a server a definition that it had before
//	toolfleet wait       wait until servers are ready
//
//	toolfleet move, pin                   have a server run on a certain worker
//	toolfleet cordon, drain, uncordon     place nothing on a worker, empty it, use it again
//	toolfleet freeze, unfreeze            leave everything as it is
//
//	toolfleet get        show servers, workers or definitions
//	toolfleet describe   show all there is to know of a server or worker
//	toolfleet logs       show what a server writes to stderr
//	toolfleet watch      show what changes, as it happens
//
//	toolfleet events     show the fleet's history
//	toolfleet why        say why something is as it is, or is not there
//	toolfleet diff       show what is different between two moments
//
//	toolfleet doctor     look for what is wrong
//	toolfleet explain    say what a failure means, and what helps
//	toolfleet verify     prove that the history is whole, and the views what it says
//	toolfleet bundle     pack what is known into one file, without secrets
//	toolfleet rebuild    make the views anew from the history
//
// With --at a position, the verbs tools, get, describe, status and why show what
// was then.
//
// Verbs other than up attach to a fleet: see package attach for how they find
// it. What they print with -o json is a contract: see package show. Only what was
// asked for goes to standard output; progress and notes go to standard error.
//
// A trace that TRACEPARENT names goes on in what a verb causes.
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
