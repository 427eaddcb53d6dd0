// Package web serves a fleet over HTTP: what there is, what happened, and
// requests to change it.
//
// A [Handler] stands on what it is given: the fleet's views, its history, and
// whoever takes requests to the controllers. Its document is openapi.json, which
// it also serves; tests hold the two together.
//
//	GET    /healthz                    the process answers
//	GET    /readyz                     what it stands on answers, too
//	GET    /openapi.json               this interface
//	GET    /v1/servers  /v1/servers/ID
//	GET    /v1/workers
//	GET    /v1/tools                   ?server=ID
//	GET    /v1/events                  ?id=ID &kind=KIND &since=POSITION &limit=N
//	POST   /v1/servers/ID:VERB         start, stop, restart, enable or disable
//	PUT    /v1/servers/ID              declare, if the operator allows it
//	DELETE /v1/servers/ID              withdraw
//	       /mcp  /metrics              handlers of others
//
// # Who may
//
// The guard decides; see package guard. What reads needs the scope read, what
// changes needs change, and neither includes the other. /healthz and /readyz are
// for everyone, under any name, since those who probe have no tokens; they say
// nothing about the fleet. /openapi.json needs no token.
//
// No request makes a worker run a command that the operator has not declared:
// PUT is refused unless [Options].AllowDeclare says otherwise.
//
// # What is read
//
// Lists are arrays of the shapes of package shape, as the command line writes
// them with -o json. The header Toolfleet-Seq says how far the views were. Query
// parameters that are not known are refused, since a misspelt filter would show
// everything.
//
// Events come in the order of the history, beginning with the first one at or
// after since: a sequence, a time or an age. A page has at most limit of them;
// where there may be more, a Link header with rel="next" leads on, also from a
// page that has none because none of many fitted the filters.
//
// With Accept: text/event-stream the events are server-sent, those stored and then
// new ones as they come. The id of each is its sequence, and Last-Event-ID goes on
// exactly after it; it counts more than since. Ids without an event say how far a
// filtered stream is. A client that does not read for 10 s loses its stream, and one
// whose token is taken back within 15 s. There are at most 64 streams, of which one
// principal has at most 16.
//
// # What is changed
//
// A change is answered with 202 and {"seq": N}, the event that it caused, once it
// is written down; that it is made can be seen in the views. ?reason= is kept in
// the history with the name of the token. The header Idempotency-Key makes a
// request safe to repeat: it becomes the request's id, see package request.
//
// # Errors
//
// Every error is a problem of RFC 9457 with the members code, for programs,
// detail, and, if one is known, hint: the way out. See [Problem].
package web
