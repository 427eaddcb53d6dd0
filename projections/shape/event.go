package shape

import (
	"strings"
	"time"

	"github.com/cockroachdb/errors"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/toolfleet/toolfleet/events"
)

// Event is an event.
type Event struct {
	Seq   events.Seq  `json:"seq"`
	Time  time.Time   `json:"time"`
	Kind  events.Kind `json:"kind"`
	Chain string      `json:"chain"`
	// Worker that wrote it, or whose chain it is; empty for a controller's.
	Worker      events.WorkerID  `json:"worker"`
	Epoch       events.Epoch     `json:"epoch"`
	Attempt     int              `json:"attempt"`
	Actor       string           `json:"actor"`
	Reason      string           `json:"reason"`
	Cause       string           `json:"cause"`
	Correlation events.RequestID `json:"correlation"`
	ID          events.EventID   `json:"id"`
	Source      string           `json:"source"`
	Traceparent string           `json:"traceparent"`
	// Link is the event's hash, Prev that of the one before it in its chain.
	Prev events.Link    `json:"prev"`
	Link events.Link    `json:"link"`
	Body jsontext.Value `json:"body"`
}

// Undecodable is the kind of a message that is no event.
const Undecodable events.Kind = "undecodable"

// NewEvent returns the shape of an event. Its error is that of a body that
// cannot be written, which no log has.
func NewEvent(r *events.Record) (Event, error) {
	e := Event{
		Seq: r.Seq, Time: r.Time, Kind: r.Kind(), Chain: r.Chain.String(), Worker: WriterOf(r),
		Epoch: r.Epoch, Attempt: r.Attempt, Actor: r.Actor, Reason: r.Reason, Cause: r.Cause,
		Correlation: r.Correlation, ID: r.ID, Source: r.Source, Traceparent: r.Trace.Parent,
		Prev: r.Prev, Link: r.Link, Body: r.Data,
	}
	var err error
	switch b := r.Body.(type) {
	case events.Undecodable:
		e.Kind = Undecodable
		e.Body, err = json.Marshal(map[string]string{"reason": b.Reason})
	default:
		if e.Body == nil { // not read from a log
			e.Body, err = json.Marshal(b, json.Deterministic(true))
		}
	}
	return e, errors.Wrapf(err, "write event %d", r.Seq)
}

// WriterOf returns the worker that an event is of: the one that wrote it, or
// whose chain it is; empty for a controller's.
func WriterOf(r *events.Record) events.WorkerID {
	if w := r.Chain.Worker(); w != "" {
		return w
	}
	_, writer, _ := strings.Cut(r.Source, "/worker/")
	return events.WorkerID(writer)
}
