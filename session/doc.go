// Package session gives an agent the tools of a fleet: a sorted list that stays
// current, and calls that find the current owner of a server.
//
// # Tools
//
// A session sees the fleet's servers and those of its project, and uses one
// instance of each: it keeps to it while that one works, and prefers one on its
// own host. Tools are named by a [projections.Scheme]; the list is sorted by
// name, so an unchanged set is the same list. A server's tools are replaced as a
// whole: no list ever lacks the tools of a server because another one changed.
//
// A tool is live while its server is ready and its list is the one of this
// connection. While the server connects, or is expected back, its tools stay
// listed as deferred or stale: with the names and schemas last listed for the
// same definition, and callable. See [projections.ToolsState].
//
// # Opening
//
// [Open] reads the fleet's views once and watches them from then on. It costs
// the size of the fleet, not of its history. Sessions of one process on one
// connection share one watch. All sessions share the fleet's connections to its
// servers; closing one closes none of those.
//
// Open waits for servers that are starting: 250 ms for all of them, then, if it
// was asked to, longer for those whose tools nobody knows yet. It never fails
// because of a server. Servers that are ready then have live tools, those that
// failed have their failure in [Session.Status], and those that are still
// starting have deferred tools, or none and no error: they arrive as a change.
// [Session.WaitReady] waits for all servers, or for named ones.
//
// # Changes
//
// [Session.Changes] is level, not edge: a signal says that [Session.Tools]
// returns something else than before, or that a server failed or works again;
// several changes may be one signal, and what is returned is the newest. What
// was returned never changes. [Session.Status] is of one moment: tools, servers
// and position belong together.
//
// [Session.Sync] carries the changes into a registry of the host's own, between
// two steps of its agent.
//
// # Outcomes
//
// A call has a result, as the server sent it, or one of the outcomes
// [ErrUnknownTool], [ErrInvalidArguments], [ErrNotExecuted],
// [ErrUnknownOutcome], [ErrFailed] and [ErrCancelled]. See [Session.Call].
//
// # Permissions
//
// A session needs those of a [kvview.Reader] and of a [jetlog.Guest]: it reads
// the bucket of views and long lists of tools, and calls. It creates nothing: a
// fleet that no controller has begun has no views ([kvview.ErrNoViews]).
//
// # Concurrency
//
// Everything may be called by many goroutines. After [Session.Close] the list
// stays what it was, calls are refused and waits end.
package session
