package callwire

import (
	"math"
	"strconv"
	"time"
	"unicode/utf8"

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
	// maxMethod bounds the name of a method, in bytes.
	maxMethod = 64
)

// The methods that an owner passes on to its server.
const (
	CallTool     = "tools/call"
	ReadResource = "resources/read"
	GetPrompt    = "prompts/get"
	Complete     = "completion/complete"
)

// Request asks the owner of an instance to call one tool, or to make another
// request of its server, once.
type Request struct {
	// ID is the caller's; it names the call in frames and controls.
	ID string
	// Method is that of MCP. A decoded [CallTool] is "", the default.
	Method string
	// Tool is the tool's name, as the server has it. Of other methods it is what
	// they are about, for people and traces alone: a URI, the name of a prompt, or
	// "". Then it is cut at [MaxText] on its way.
	Tool string
	// Arguments are those of the tool, or the parameters of another method: a JSON
	// object, or nil for none. They are passed on as they are.
	Arguments jsontext.Value
	// More says that Arguments are only the first part; see [Assembly].
	More bool
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
	if r.CallsTool() {
		h.set(headerTool, r.Tool)
	} else {
		h.set(headerMethod, r.Method)
		h.set(headerTool, cut(r.Tool, MaxText))
	}
	if r.Timeout != 0 {
		ms := r.Timeout / time.Millisecond
		if r.Timeout%time.Millisecond > 0 {
			ms++
		}
		h.set(headerTimeout, strconv.FormatInt(max(int64(ms), 1), 10))
	}
	if r.More {
		h.set(headerMore, "1")
	}
	h.set(headerActor, r.Actor)
	h.set(headerTraceParent, r.Trace.Parent)
	h.set(headerTraceState, r.Trace.State)
	return events.Message{Subject: subject, Header: h, Data: r.Arguments}
}

// CallsTool says whether the method is [CallTool].
func (r *Request) CallsTool() bool { return r.Method == "" || r.Method == CallTool }

// cut returns at most limit bytes of a text, without half a character at its end.
func cut(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	for limit > 0 && !utf8.RuneStart(text[limit]) {
		limit--
	}
	return text[:limit]
}

// DecodeRequest is the inverse of [Request.Encode]. It refuses arguments that
// are no JSON object, have a member twice or are not valid Unicode: two readers
// could understand them differently. A method that this build does not know is no
// error.
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
	if r.Method, err = h.text(headerMethod, maxMethod); err != nil {
		return nil, err
	}
	if r.Method == CallTool {
		r.Method = ""
	}
	if r.Tool, err = h.text(headerTool, MaxText); err != nil {
		return nil, err
	}
	if r.Tool == "" && r.CallsTool() {
		return nil, errors.Newf("%s is missing", headerTool)
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
	}
	if more := h.get(headerMore); more != "" {
		if r.More = more == "1"; !r.More {
			return nil, errors.Newf("%s is not 1", headerMore)
		}
		return r, nil
	}
	return r, checkArguments(r.Arguments)
}

func checkArguments(v jsontext.Value) error {
	if len(v) > 0 && (v.Kind() != '{' || !v.IsValid()) {
		return errors.New("the arguments are no JSON object")
	}
	return nil
}
