// Package session gives an agent what a fleet offers: sorted lists of tools,
// resources and prompts that stay current, and requests that find the current
// owner of a server.
//
// # Tools
//
// A session sees the fleet's servers and those of its project, and uses one
// instance of each: it keeps to it while that one works, and prefers one on its
// own host. The list is sorted by name, so an unchanged set is the same list. A
// server's tools are replaced as a whole: no list ever lacks the tools of a server
// because another one changed.
//
// A tool is live while its server is ready and its list is the one of this
// connection. While the server connects, or is expected back, its tools stay
// listed as deferred or stale: with the schemas last listed for the same
// definition, and callable. See [projections.ToolsState].
//
// Tools are named by a [projections.Scheme]. With [projections.OnCollision] a name
// depends on what all servers list, those too whose tools are deferred or stale:
// when it changes, that is a change of the list. A call by the qualified name of a
// tool finds it, too, unless that is what another server calls a tool. A tool
// whose name the host has reserved has its qualified one, and [Status] names it.
//
// A list may be limited. It then has the first tools in the order of their names,
// and [Status] tells how many there are, and how many of each server are left out.
// The limit is for whoever reads the list: what is left out can be called.
//
// # Resources and prompts
//
// Resources, templates of resources and prompts are listed by their servers as
// tools are, and have the same states. A server is ready without them: they are
// listed shortly after the tools, and [Session.Unlisted] tells of which servers
// that is still to come. What a server does not list any more, or never had, is an
// empty list and no failure.
//
// A resource is identified by server and URI, since several servers may have one
// URI, and is read from the server that the caller names, listed or not:
// templates stand for more than is listed. Prompts are named by the scheme, apart
// from tools, and their required arguments are checked before anything is sent.
// What a server says of its own use is [Session.Instructions].
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
// [Session.Changes] is level, not edge: a signal says that [Session.Tools],
// [Session.Resources], [Session.Templates] or [Session.Prompts] returns something
// else than before, that a limit leaves out others, or that a server failed or
// works again; several changes may be one signal, and what is returned is the
// newest. What was returned never changes. [Session.Status] is of one moment:
// lists, servers and position belong together.
//
// [Session.Sync] carries the changes into a registry of the host's own, between
// two steps of its agent.
//
// # Outcomes
//
// A call has a result, as the server sent it, or one of the outcomes
// [ErrUnknownTool], [ErrInvalidArguments], [ErrNotExecuted],
// [ErrUnknownOutcome], [ErrFailed] and [ErrCancelled]. See [Session.Call]. So have
// [Session.Read], [Session.Prompt] and [Session.Complete], which change nothing
// and are therefore sent again, once, when the outcome is unknown.
//
// # Permissions
//
// A session needs those of a [kvview.Reader] and of a [jetlog.Guest]: it reads
// the bucket of views and long lists, and calls. It creates nothing: a
// fleet that no controller has begun has no views ([kvview.ErrNoViews]).
//
// # Concurrency
//
// Everything may be called by many goroutines. After [Session.Close] the list
// stays what it was, calls are refused and waits end.
package session
