package callwire

import (
	"github.com/cockroachdb/errors"

	"github.com/toolfleet/toolfleet/events"
)

// ControlKind says what a caller wants of a call; see also [KeepAlive].
type ControlKind string

// Cancel asks the owner to end the call. Its answer still comes.
const Cancel ControlKind = "cancel"

// Control is one message of the caller to the owner.
type Control struct {
	Kind ControlKind
	// Call is the id of the request.
	Call string
}

// ControlSubject is where controls of the calls to a subject go.
func ControlSubject(call string) string { return call + ".ctl" }

// Encode returns the control as a message.
func (c *Control) Encode(subject string) events.Message {
	h := make(header, 2)
	h.set(headerFrame, string(c.Kind))
	h.set(headerCall, c.Call)
	return events.Message{Subject: subject, Header: h}
}

// DecodeControl is the inverse of [Control.Encode]. A kind that this build does
// not know is no error.
func DecodeControl(m events.Message) (*Control, error) {
	h := header(m.Header)
	kind, err := h.need(headerFrame, maxKind)
	if err != nil {
		return nil, errors.Wrap(err, "decode control")
	}
	call, err := h.need(headerCall, MaxID)
	if err != nil {
		return nil, errors.Wrap(err, "decode control")
	}
	return &Control{Kind: ControlKind(kind), Call: call}, nil
}
