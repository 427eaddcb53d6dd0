// Package gateway serves a fleet as one MCP server, over stdio and streamable
// HTTP.
//
// A [Gateway] stands on one session: its clients see the session's tools,
// resources and prompts, and reach servers through it. It never knows which server
// is where.
//
// # Protocol
//
// The revisions are those of [Revisions]. Each request says by itself of which it
// is, so that clients of all of them share one URL, or take turns on one input:
//
//   - 2026-07-28 has neither sessions nor a greeting. A request says in _meta what
//     it is, and a result says that it is complete. There are server/discover and
//     subscriptions/listen.
//   - The earlier ones begin with initialize, which agrees on the client's revision
//     if it is one of them, otherwise on the newest of them. There are ping and
//     logging/setLevel, and a stream for what belongs to no request.
//
// Both have tools/list and tools/call, resources/list, resources/templates/list and
// resources/read, prompts/list and prompts/get, and completion/complete; lists are
// paged, in the order of names or URIs. Batches are refused, every other method is
// unknown, nobody can subscribe to one resource, and nothing is asked of clients.
//
// The protocol is written here instead of being left to the MCP library, whose
// server decodes tools and results into types of its own and so drops unknown
// members of a tool and keywords of its schema, and changes large numbers. What
// passes through is never decoded:
//
//   - A tool, resource, template or prompt is the definition that the server sent,
//     byte for byte, but for its name or URI, and for a description where it has
//     none: some clients refuse a tool or prompt without.
//   - A result is what the server sent. A line break between its members, which
//     would end the message, is a space. Where 2026-07-28 wants members that the
//     server has not sent (resultType, and ttlMs and cacheScope of what was read),
//     they come first: such a result is complete, and may not be kept.
//   - Progress is what the server sent, with the client's token.
//
// # Lists
//
// A first list waits, at most [Options].StartupWait, for servers that are starting,
// have not failed so far, and whose tools nobody knows: with a session the first of
// each client, otherwise each list, but no server is waited for longer than that in
// all. A first page that lacks servers names them in its _meta as
// "toolfleet/missing", and the instructions of initialize and server/discover name
// those that are starting or do not work at that moment.
//
// list_changed is sent, for each kind of list by itself, when what a client can see
// has changed: names or definitions, but not where a server is. Changes within 250
// ms are one. A client with a session but without a stream is told when it opens
// one, if its last list is old by then; whoever uses subscriptions/listen should
// list after that is acknowledged. A whole list may be taken for fresh for 250 ms,
// one that lacks servers not at all.
//
// # Resources
//
// A resource keeps its server's URI. Of several servers that list one URI the first
// in the order of their ids has it, the others' are listed as
//
//	toolfleet://<server>/<URI, percent-encoded>
//
// which reads that URI of that server whether it is listed or not. Any other URI is
// read of the servers with a template that matches, in the order of their ids,
// until one does not refuse. {name} in a template matches within a segment, any
// other expression anything. A template that several servers have is listed once.
//
// # Calls
//
// An unknown tool or prompt, arguments that are no object, and in 2026-07-28 a
// resource that no server has are the JSON-RPC error -32602; in earlier revisions
// the last is -32002. Every other outcome of tools/call without a result is a
// result with isError for the model to read, see [session.AsResult]. Of what else
// is asked the server's own error is the answer, or -32603. A request that the
// client cancels has no answer; one that was aborted by another is the error
// -32800. Log messages of servers are passed on from the level that the client has
// set, "info" at first; in 2026-07-28 only to requests that name one.
//
// A client has at most 256 requests in flight, those over HTTP without a session
// are together at most 4096; those of them that listen are counted apart, also at
// most 4096 and of one principal 1024. More are the error -31429, or 503.
//
// # Stdio
//
// [Gateway.ServeStdio] reads a message per line. At the end of the input, requests
// in flight have two seconds to end.
//
// # HTTP
//
// The gateway is an [http.Handler] for one URL: POST sends a message; with a session
// GET opens its stream and DELETE ends it. A POST is answered with JSON, or with a
// stream once there is a notification or a second has passed; streams have a comment
// every 15 s. Streams cannot be resumed, so an answer whose POST is gone would reach
// nobody: the end of a POST cancels its request.
//
// Refused are, in this order:
//
//   - whom [Options].Guard refuses, see package guard; a principal that may read but
//     not call is refused calls of tools (403, -31403)
//   - another method than these, or than POST with 2026-07-28: 405
//   - a POST that is not application/json: 415, is too long: 413, or for which there
//     is no room: 503. What was sent of the requests that are not over has 64 MiB in
//     all, half of that for one principal.
//   - headers that do not say what a request of 2026-07-28 says (-32020), a
//     revision that is none of [Revisions] (-32022), a request that does not say
//     what it must (-32602): 400; and a method that 2026-07-28 does not have: 404
//   - a session that does not exist, or is another principal's: 404, in the same
//     words. A cancellation reaches requests of its own session only; one without a
//     session is accepted (202) and reaches none.
//   - a session above the limit, if something is in flight in all others: 503
//
// A session ends when nothing of it was in flight for [Options].Idle; an open stream
// is. Earlier ends, for one above the limit, the session that was idle for the
// longest time, of the same principal if it has such. The stream of GET and that
// of subscriptions/listen end within 15 s when the guard would refuse their client.
// A client that does not read its stream for 10 s, or lets 256 messages or 4 MiB
// wait, loses the stream; nobody waits for it. Limits on connections, headers and
// idle connections are those of the [http.Server].
package gateway
