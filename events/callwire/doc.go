// Package callwire says what a call of a server looks like on the bus: the
// request, the frames that answer it and the controls that go along with it.
//
// It is pure: it makes and reads messages and knows no connection. Nothing here
// is stored, and nothing is sent twice.
//
// # A call
//
// The caller publishes one request to the call subject of an instance's owner
// (see [events.CallSubject]), with a reply subject of its own:
//
//	tf-call       id of the call, chosen by the caller
//	tf-method     the MCP method, see below; absent: tools/call
//	tf-tool       the tool's name, as the server has it
//	tf-timeout    decimal; milliseconds that the caller waits; absent: no limit
//	tf-actor      who calls
//	traceparent   W3C trace context of the call, if any
//	tracestate    likewise
//
// The body is the arguments as raw JSON, an object, or empty. Arguments that do not
// fit into one message are cut by [Request.Messages]: the request has the first part
// and tf-more, and is followed at once, at the same subject and with the same reply
// subject, by frames of the kind arguments, whose tf-seq counts from 1. An [Assembly]
// puts them together.
//
// The owner answers with frames to the reply subject:
//
//	tf-frame      accepted, progress, log, keepalive, result or error
//	tf-call       id of the call
//	tf-seq        decimal; 0 for the first frame of the call, then one more each
//	tf-more       1 if the body goes on in the next frame, else absent
//
// The last is result, whose body is the raw JSON of the MCP result, or error,
// whose body is an [Error]. The first is accepted, unless another one came
// within [AcceptWithin]. A body that does not fit into
// one message is cut by [Split] and put together by a [Joiner]; its parts follow
// each other immediately. A reader ignores kinds that it does not know, but
// counts them.
//
// The caller controls the call by messages to [ControlSubject]:
//
//	tf-frame      cancel or keepalive
//	tf-call       id of the call
//
// # Other methods
//
// resources/read, prompts/get and completion/complete are called in the same way.
// Then tf-tool is what the call is about, for people and traces, and may be absent;
// the body is the raw JSON of the method's params, an object. The result is raw
// likewise. A method that the owner does not know, or that needs a capability that
// its server has not declared, is answered as [NotExecuted].
//
// # Calls in flight
//
// A worker answers requests about the calls that its instances are at, at
// [events.CallsSubject], in the same form: the tool [ListCalls] has a [CallsResult],
// the tool [CancelCall] takes a [CancelRequest] and has a [CancelResult].
//
// # Logs
//
// A worker answers requests for the logs of its instances at [events.LogsSubject],
// in the same form: the tool is [LogsTool], the arguments are a [LogsRequest], the
// bodies of log frames hold lines ([DecodeLogLines]), and the result is a
// [LogsResult].
//
// # Text
//
// Text in tf-call, tf-tool and tf-actor is percent-encoded as in events (see
// [events.EscapeHeader]).
//
// # Silence
//
// Both sides send a keepalive every [KeepAliveEvery]. A caller that has heard
// nothing for [SilenceLimit] takes the outcome as [Unknown]; an owner that has
// heard nothing for as long cancels the call. NATS delivers a frame at most once:
// a gap in tf-seq means that one was lost, and then what the result would have
// been is unknown too ([ErrFrameLost]).
package callwire

import "time"

const (
	// KeepAliveEvery is how often both sides of a call say that they are there.
	KeepAliveEvery = 15 * time.Second
	// SilenceLimit is how long a side waits for the other: two keepalives may be
	// late or lost.
	SilenceLimit = 40 * time.Second
	// AcceptWithin is how soon the caller hears that the owner is at the call: most
	// calls are over by then.
	AcceptWithin = 20 * time.Millisecond
)
