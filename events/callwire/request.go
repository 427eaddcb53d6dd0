package callwire

import (
	"math"
	"strconv"
	"time"

	"github.com/cockroachdb/errors"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/toolfleet/toolfleet/events"
)

const (
	// MaxID bounds the id of a call, in bytes: it is repeated in every frame.
	MaxID = events.MaxIDLength
	// MaxText bounds the tool's name and the actor, in bytes: they are shown and
	// traced.
	MaxText = 1 << 10
)

// Request asks the owner of an instance to call one tool, once.
type Request struct {
	// ID is the caller's; it names the call in frames and controls.
	ID string
	// Tool is the tool's name, as the server has it.
	Tool string
	// Arguments are a JSON object, or nil for none. They are passed on as they
	// are.
	Arguments jsontext.Value
	// Timeout is how long the caller waits; 0 is without limit. It travels in
	// milliseconds, rounded up.
	Timeout time.Duration
	// Trace is the context of the call.
	Trace events.Trace
	// Actor is who calls.
	Actor string
}

// Encode returns the request as a message. A negative Timeout, which has passed,
// becomes the shortest one.
func (r *Request) Encode(subject string) events.Message {
	h := make(header, 6)
	h.set(headerCall, r.ID)
	h.set(headerTool, r.Tool)
	if r.Timeout != 0 {
		ms := r.Timeout / time.Millisecond
		if r.Timeout%time.Millisecond > 0 {
			ms++
		}
		h.set(headerTimeout, strconv.FormatInt(max(int64(ms), 1), 10))
	}
	h.set(headerActor, r.Actor)
	h.set(headerTraceParent, r.Trace.Parent)
	h.set(headerTraceState, r.Trace.State)
	return events.Message{Subject: subject, Header: h, Data: r.Arguments}
}

// DecodeRequest is the inverse of [Request.Encode]. It refuses arguments that
// are no JSON object, have a member twice or are not valid Unicode: two readers
// could understand them differently.
func DecodeRequest(m events.Message) (*Request, error) {
	r, err := decodeRequest(m.Header, m.Data)
	if err != nil {
		return nil, errors.Wrap(err, "decode call")
	}
	return r, nil
}

func decodeRequest(h header, data []byte) (*Request, error) {
	r := &Request{Trace: events.Trace{Parent: h.get(headerTraceParent), State: h.get(headerTraceState)}}
	var err error
	if r.ID, err = h.need(headerCall, MaxID); err != nil {
		return nil, err
	}
	if r.Tool, err = h.need(headerTool, MaxText); err != nil {
		return nil, err
	}
	if r.Actor, err = h.text(headerActor, MaxText); err != nil {
		return nil, err
	}
	if h.get(headerTimeout) != "" {
		ms, err := h.number(headerTimeout, math.MaxInt64/uint64(time.Millisecond))
		if err != nil {
			return nil, err
		}
		r.Timeout = time.Duration(ms) * time.Millisecond
	}
	if len(data) > 0 {
		r.Arguments = data
		if r.Arguments.Kind() != '{' || !r.Arguments.IsValid() {
			return nil, errors.New("the arguments are no JSON object")
		}
	}
	return r, nil
}
