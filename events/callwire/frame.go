package callwire

import (
	"math"
	"strconv"

	"github.com/cockroachdb/errors"

	"github.com/toolfleet/toolfleet/events"
)

// FrameKind says what a frame is.
type FrameKind string

// The kinds of frame.
const (
	// Accepted is the first frame: the owner is at the call.
	Accepted FrameKind = "accepted"
	// Progress holds the parameters of an MCP progress notification.
	Progress FrameKind = "progress"
	// Log holds the parameters of an MCP log notification, or lines of a log.
	Log FrameKind = "log"
	// Result ends the call with the raw JSON of its MCP result.
	Result FrameKind = "result"
	// Failure ends the call with an [Error].
	Failure FrameKind = "error"
)

// KeepAlive only says that the sender is there. It is a [FrameKind] and a
// [ControlKind].
const KeepAlive = "keepalive"

// Last says whether a frame of the kind ends its call.
func (k FrameKind) Last() bool { return k == Result || k == Failure }

// Frame is one message of the owner to the caller.
type Frame struct {
	Kind FrameKind
	// Call is the id of the request.
	Call string
	// Seq counts the call's frames from 0; a gap is a lost frame.
	Seq int
	// More says that the body goes on in the next frame.
	More bool
	Data []byte
}

// maxKind bounds the name of a kind, in bytes.
const maxKind = 32

// Encode returns the frame as a message.
func (f *Frame) Encode(subject string) events.Message {
	h := make(header, 4)
	h.set(headerFrame, string(f.Kind))
	h.set(headerCall, f.Call)
	h.set(headerSeq, strconv.Itoa(f.Seq))
	if f.More {
		h.set(headerMore, "1")
	}
	return events.Message{Subject: subject, Header: h, Data: f.Data}
}

// DecodeFrame is the inverse of [Frame.Encode]. The frame shares the message's
// memory. A kind that this build does not know is no error.
func DecodeFrame(m events.Message) (*Frame, error) {
	f, err := decodeFrame(m.Header, m.Data)
	if err != nil {
		return nil, errors.Wrap(err, "decode frame")
	}
	return f, nil
}

func decodeFrame(h header, data []byte) (*Frame, error) {
	kind, err := h.need(headerFrame, maxKind)
	if err != nil {
		return nil, err
	}
	call, err := h.need(headerCall, MaxID)
	if err != nil {
		return nil, err
	}
	seq, err := h.number(headerSeq, math.MaxInt32)
	if err != nil {
		return nil, err
	}
	more := h.get(headerMore)
	if more != "" && more != "1" {
		return nil, errors.Newf("%s is not 1", headerMore)
	}
	return &Frame{Kind: FrameKind(kind), Call: call, Seq: int(seq), More: more != "", Data: data}, nil
}
