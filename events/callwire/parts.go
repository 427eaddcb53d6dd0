package callwire

import (
	"github.com/cockroachdb/errors"

	"github.com/toolfleet/toolfleet/events"
)

// Arguments is a part of a request's arguments. It is a [FrameKind] that the
// caller sends.
const Arguments FrameKind = "arguments"

// Messages returns the request as one message or, where its arguments have more
// than limit bytes, as several that have to be sent in this order; see
// [Assembly]. With a limit below 1 it is one.
func (r *Request) Messages(subject string, limit int) []events.Message {
	parts := Split(Arguments, r.ID, 0, r.Arguments, limit)
	first := *r
	first.Arguments, first.More = parts[0].Data, parts[0].More
	all := []events.Message{first.Encode(subject)}
	for _, p := range parts[1:] {
		all = append(all, p.Encode(subject))
	}
	return all
}

// IsPart says whether a message at a call subject is a further part of a request,
// a [Frame], and not a request.
func IsPart(m events.Message) bool { return header(m.Header).get(headerFrame) == string(Arguments) }

// Assembly puts a request together whose arguments came in parts. It is for one
// goroutine.
type Assembly struct {
	request *Request
	joiner  Joiner
}

// Assemble begins with the first part, a request that has More.
func Assemble(first *Request) (*Assembly, error) {
	a := &Assembly{request: first}
	_, err := a.joiner.Add(&Frame{Kind: Arguments, Call: first.ID, More: true, Data: first.Arguments})
	return a, errors.Wrap(err, "decode call")
}

// Add takes the next part. It returns the whole request, or nil if parts are
// missing. Errors are those of a [Joiner], and of arguments that are refused in
// one message as well.
func (a *Assembly) Add(part *Frame) (*Request, error) {
	whole, err := a.joiner.Add(part)
	if whole == nil || err != nil {
		return nil, errors.Wrap(err, "decode call")
	}
	r := *a.request
	r.Arguments, r.More = whole.Data, false
	return &r, errors.Wrap(checkArguments(r.Arguments), "decode call")
}
