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
// # Desired state
//
// Only the last command of an address counts, and acting on one twice does no
// harm. Stopped wins over every timer and every completion. A command of the
// same epoch reconnects a running instance once if it asks for a restart, or if
// its definition connects to something else than the running one; any other
// change of the definition's chain leaves the connection alone, but has a parked
// instance tried again. Commands for another incarnation are ignored.
//
// # Failure
//
// Without a restart policy object, a server is tried again after 0, 0.5, 1, 2
// and 4 s and then parked; the count starts anew when it was ready for 30 s. A
// remote server that has worked before is then probed after 15 s, doubling to
// 5 min. A restart policy object governs alone. A failure that trying again
// cannot mend parks at once.
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
// scrubbed of the values that were resolved for it before it enters an event.
//
// # What is not promised
//
// A list of tools that fails, the first or a later one, ends its connection.
// Servers of type sse are refused. No proxy of the worker's environment is used.
//
// Children are killed with their process group; a descendant that made a group
// or session of its own is not found. A killed worker leaves its children to
// the end of their stdin.
package worker
