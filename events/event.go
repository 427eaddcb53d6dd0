package events

import (
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// Event is one thing that happened, or was decided, in a chain. All that a
// reader needs for routing is here; Body says the rest.
type Event struct {
	Chain Chain
	Body  Body

	// ID, Source and Time are set by the log where they are empty. Source is
	// toolfleet/<fleet>/<who wrote it>; Time is in UTC, to the nanosecond.
	ID     EventID
	Source string
	Time   time.Time

	// Epoch of the owner that says it; 0 on chains that have no owner.
	Epoch Epoch
	// Attempt is the number of the connection attempt, from 1, or 0.
	Attempt int
	// Cause is the id of the event or command that led to this one, or "".
	Cause string
	// Correlation is the request's id, chosen by the caller, or "".
	Correlation RequestID
	// Actor is who asked: a NATS user, a token's name, os-user@host, or
	// "system:plan". With Cause, Correlation and Reason it may be any text, within
	// [MaxHeaderSize].
	Actor string
	// Reason is the actor's own words, if any.
	Reason string
	// Trace is the context of the event's creation.
	Trace Trace
	// Prev is the link to the chain's previous event; the log sets it.
	Prev Link

	// Data is the body as it was stored, with members that this build does not
	// know; nil in an event that has not been stored yet. That of an
	// [Undecodable] need not be JSON.
	Data jsontext.Value
	// Extra holds headers of the format, by name, that this build does not know;
	// nil if there are none.
	Extra map[string]string
}

// Kind returns the kind of the event's body; see [KindOf].
func (e *Event) Kind() Kind { return KindOf(e.Body) }

// Trace is a W3C trace context as text, or empty.
type Trace struct {
	Parent string // traceparent
	State  string // tracestate
}

// Link is the hash that ties an event to its predecessor, in lower-case hex; ""
// stands before a chain's first event.
type Link string

// Tip is the last event of a chain as a reader knows it: what an append states
// to have seen. The zero Tip is that of an empty chain.
type Tip struct {
	Seq  Seq  `json:"seq"`
	Link Link `json:"link,omitzero"`
}

// Record is an event with its place in the history.
type Record struct {
	Event
	// Seq is the event's position in the fleet's stream.
	Seq Seq
	// Link is that of this event: what the next one of the chain has as Prev.
	Link Link
}

// Tip returns the record as the tip of its chain.
func (r *Record) Tip() Tip { return Tip{Seq: r.Seq, Link: r.Link} }
