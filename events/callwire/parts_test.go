package callwire_test

import (
	"testing"

	"github.com/cockroachdb/errors"
	"github.com/google/go-cmp/cmp"

	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/events/callwire"
)

// assemble does what an owner does with the messages of one call.
func assemble(messages []events.Message) (*callwire.Request, error) {
	r, err := callwire.DecodeRequest(messages[0])
	if err != nil || !r.More {
		return r, err
	}
	a, err := callwire.Assemble(r)
	for _, m := range messages[1:] {
		if !callwire.IsPart(m) {
			return nil, errors.New("a part is taken for a request")
		}
		f, err := callwire.DecodeFrame(m)
		if err != nil {
			return nil, err
		}
		if r, err = a.Add(f); r != nil || err != nil {
			return r, err
		}
	}
	return nil, errors.CombineErrors(err, errors.New("parts are missing"))
}

func TestRequestInParts(t *testing.T) {
	want := &callwire.Request{ID: "c1", Tool: "echo", Actor: "zoe", Arguments: []byte(`{"a":"0123456789"}`)}
	for _, tt := range []struct{ limit, messages int }{{0, 1}, {18, 1}, {17, 2}, {6, 3}, {1, 18}} {
		messages := want.Messages("tf.call.f.s.0.1", tt.limit)
		if len(messages) != tt.messages || callwire.IsPart(messages[0]) {
			t.Errorf("with at most %d bytes there are %d messages, want %d", tt.limit, len(messages), tt.messages)
		}
		got, err := assemble(messages)
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("with at most %d bytes: %v %s", tt.limit, err, diff)
		}
	}
	if got, err := assemble((&callwire.Request{ID: "c1", Tool: "echo"}).Messages("s", 6)); err != nil || got.Arguments != nil {
		t.Errorf("without arguments: %+v, %v", got, err)
	}
}

func TestRequestInWrongParts(t *testing.T) {
	whole := (&callwire.Request{ID: "c1", Tool: "echo", Arguments: []byte(`{"a":"0123456789"}`)}).Messages("s", 6)
	for _, tt := range []struct {
		name     string
		messages []events.Message
		lost     bool
	}{
		{"a part is missing", []events.Message{whole[0], whole[2]}, true},
		{"they are no object", (&callwire.Request{ID: "c1", Tool: "echo", Arguments: []byte(`[0123456789]`)}).Messages("s", 6), false},
		{"the first has none", []events.Message{{Subject: "s", Header: map[string][]string{"tf-call": {"c1"}, "tf-tool": {"x"}, "tf-more": {"1"}}}, whole[1]}, true},
		{"a strange mark", []events.Message{{Subject: "s", Header: map[string][]string{"tf-call": {"c1"}, "tf-tool": {"x"}, "tf-more": {"2"}}}}, false},
	} {
		if _, err := assemble(tt.messages); err == nil || errors.Is(err, callwire.ErrFrameLost) != tt.lost {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
}
