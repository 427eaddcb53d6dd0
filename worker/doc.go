// Package worker runs a fleet's MCP servers on one host: it follows the commands
// addressed to it, owns the connections, and writes down what happens to them.
//
// # Order
//
// [Run] first appends joined to the worker's chain. Each instance is then one
// goroutine around a pure function, [Step], which takes what happened
// ([Input]) and returns what to do ([Effect]). Effects run outside it and come
// back as inputs. An input about an attempt names it ([Ref]: epoch, generation
// and number) and is dropped when it is not the current one, so a late
// completion changes nothing.
//
// Connecting is appended, and the append acknowledged, before anything is
// spawned or dialled. An owner that was replaced cannot make that append, so it
// cannot spawn either. When an append finds that the chain has another owner,
// the instance closes its connection and writes nothing more.
//
// A connection is one attempt and never used again. The next attempt begins
// after nothing of the former one is left: no process of its group, no request.
// The instance is ready when the append of its first complete tool list is
// acknowledged; calls are served from then on.
//
// # Lists
//
// Resources (with templates) and prompts are listed when the instance is ready, if
// the server has declared them, page by page like tools, and each of the three
// again when the server announces a change: at most one list of a kind is being
// made and one more waits. A list is appended if it is not the last one of the chain.
// So is the first of a connection, since it says that the items are those of this
// one; but not where there are no resources, or prompts, and were none.
//
// Resources and prompts that cannot be listed fail nothing and are logged: at first
// there are none, later they stay what they were. Resources do not need templates.
// An item that agents would refuse is left out and named in the event; so is a
// resource or prompt that holds a secret of the definition.
//
// # Calls
//
// The instance's calls are answered at [events.CallSubject]: tools/call,
// resources/read, prompts/get and completion/complete, with raw JSON both ways. At
// [events.CallsSubject] the worker tells which of them are in flight and cancels
// them, as package callwire says.
//
// # Desired state
//
// Only the last command of an address counts, and acting on one twice does no
// harm. Stopped wins over every timer and every completion. A command of the
// same epoch reconnects a running instance once if it asks for a restart, or if
// its definition connects to something else than the running one; any other
// change of the definition's chain leaves the connection alone, but has a parked
// instance tried again. Commands for another incarnation are ignored.
//
// While the last command is frozen, an attempt that comes due by itself, after a
// failure or as a probe, is not made; a command that is not frozen makes up for it.
// What a command asks for is done all the same.
//
// # Failure
//
// Without a restart policy object, a server is tried again after 0, 0.5, 1, 2
// and 4 s and then parked; the count starts anew when it was ready for 30 s. A
// remote server that has worked before is then probed after 15 s, doubling to
// 5 min. A restart policy object governs alone. A failure that trying again
// cannot mend parks at once.
//
// A ready server of which nothing was heard for healthCheckIntervalMs is asked for
// a sign of life: by ping, then by the first page of its tools, which a server that
// ignores or does not know ping answers (in the stateless revision both are
// server/discover). Whatever it sends is a sign of life, errors and progress too;
// of HTTP answers those below status 500 are, and those with a JSON-RPC error. One
// that leaves both questions unanswered, each for an interval, has failed
// (ping_timeout). Nothing is asked and nothing counts while a call is in flight,
// for as long as the limit of a call, and an interval, after the server was last
// heard; without such a limit, while any call is in flight.
//
// While the worker's lease is over nothing is spawned and whatever runs is
// killed (lease_lost); it is started again, in the same epoch and spread over
// some seconds, if the lease comes back. An outage of the log does not stop
// what runs; events wait, in order, and whatever needs an acknowledged
// connecting waits with them.
//
// # Secrets
//
// Definitions arrive unresolved. Variables and secrets are resolved right
// before each connect, go into the child's environment, arguments or headers
// and nowhere else: whatever text comes back from a server is cut, cleaned and
// scrubbed of the values that were resolved for it before it enters an event or a
// log. So are those parts of such a value, of 8 bytes or more, that are no words:
// the token in "Bearer TOKEN" or in a script. A part that is made of letters as
// words are is not known from a word.
//
// # Logs
//
// What a server writes to stderr and sends as MCP log messages goes, line by line,
// into <[Options].Logs>/<server>.<instance>.log, of at most 1 MiB, after which the
// file becomes .log.1; mode 0600. A line is a JSON object: time, epoch, attempt,
// stream (stderr, mcp, or worker for what the worker adds) and text, of at most
// 4 KiB. 500 lines at once and 100 a second are kept; what comes faster is dropped
// and counted, and nobody ever waits for the disk. Files that were not written to
// for 30 days are removed when the worker starts.
//
// The worker answers requests for them, also for instances that it no longer runs:
// see package callwire.
//
// # Processes
//
// Children are started by [Parts].Spawner. With a [keeper.Keeper] no descendant of
// a server outlives its connection, and none outlives the worker or its lease:
// not when the worker is killed, nor when it stands still. When the keeper itself
// dies, each of its children is a failure (killed) and is restarted under another
// one. Without a keeper children are ended with their process group, and a worker
// that is killed leaves them to the end of their stdin.
//
// A server inherits from the worker what it needs to find programs and files, to
// write text and to reach the network (PATH, HOME, LC_*, proxies, certificates
// and the like), and nothing else.
//
// # What is not promised
//
// A list of tools that fails, the first or a later one, ends its connection.
// Servers of type sse are refused. The worker's own connections to remote servers
// use no proxy of its environment.
package worker
