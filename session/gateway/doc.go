// Package gateway serves a fleet as one MCP server, over stdio and streamable
// HTTP.
//
// A [Gateway] stands on one session: its clients see the session's tools, under
// the session's names, and call through it. It never knows which server is where.
//
// # Protocol
//
// The revisions are those of [Revisions]: initialize agrees on the client's if it
// is one of them, otherwise on the newest. There are ping, tools/list (paged, in
// the order of names), tools/call with progress and cancellation,
// logging/setLevel, and notifications/tools/list_changed. Batches are refused,
// every other method is unknown, and nothing is asked of clients.
//
// The protocol is written here instead of being left to the MCP library, whose
// server decodes tools and results into types of its own and so drops unknown
// members of a tool and keywords of its schema, and changes large numbers. What
// passes through is never decoded:
//
//   - A tool is the definition that the server sent, byte for byte, but for its
//     name.
//   - A result is what the server sent. A line break between its members, which
//     would end the message, is a space.
//   - Progress is what the server sent, with the client's token.
//
// # Lists
//
// A client's first tools/list waits, at most [Options].StartupWait, for servers
// that are starting, have not failed so far, and whose tools nobody knows. A first
// page that lacks servers names them in its _meta as "toolfleet/missing", and the
// instructions of initialize name those that are starting or do not work at that
// moment.
//
// list_changed is sent when what a client can see has changed: names or
// definitions, but not where a server is. Changes within 250 ms are one. A client
// without a stream is told when it opens one, if its last list is old by then.
//
// # Calls
//
// An unknown tool, or arguments that are no object, are the JSON-RPC error
// -32602. Every other outcome without a result is a result with isError for the
// model to read, see [session.AsResult]. A call that the client cancels has no
// answer; one that was aborted by another is the error -32800. Log messages of
// servers are passed on from the level that the client set, "info" at first.
//
// A client has at most 256 requests in flight.
//
// # Stdio
//
// [Gateway.ServeStdio] reads a message per line. At the end of the input, requests
// in flight have two seconds to end.
//
// # HTTP
//
// The gateway is an [http.Handler] for one URL: POST sends a message, GET opens
// the stream for list_changed, DELETE ends the client's session. A POST is
// answered with JSON, or with a stream once there is progress or 15 s have passed;
// streams have a comment every 15 s. Streams cannot be resumed, so an answer whose
// POST is gone would reach nobody: the end of a POST cancels its call.
//
// Refused are, in this order:
//
//   - a Host or Origin that is neither loopback nor listed, or a cross-site request
//     of a browser: 403. There are no CORS headers.
//   - a request without one of the tokens: 401. Without any token in the options
//     all are, unless they say Open.
//   - a POST that is not application/json: 415, or is too long: 413
//   - a revision in MCP-Protocol-Version that is none of [Revisions]: 400
//   - a session that does not exist, or is another principal's: 404, in the same
//     words. A cancellation reaches calls of its own session only.
//   - a session above the limit: 503
//
// A session ends when nothing of it was in flight for [Options].Idle. A client
// that does not read its stream for 10 s, or lets 256 messages or 4 MiB wait,
// loses the stream; nobody waits for it. Limits on connections, headers and idle
// connections are those of the [http.Server].
package gateway
