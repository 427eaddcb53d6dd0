package jetlog_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/errors"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/nats-io/nats.go"

	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/events/callwire"
	"github.com/toolfleet/toolfleet/events/eventstest"
)

const payload = 1 << 20

// Arguments that do not fit into one message arrive whole, or the call is not
// executed.
func TestCallWithLargeArguments(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newSwitchboard(t, &eventstest.ServerOptions{MaxPayload: payload})
		var got jsontext.Value
		b.serve(t, func(_ context.Context, r *callwire.Request, _ func(callwire.FrameKind, []byte)) ([]byte, error) {
			got = r.Arguments
			return []byte("{}"), nil
		})
		call := func(arguments string) error {
			got = nil
			_, err := b.caller.Call(t.Context(), callSubject, &callwire.Request{Tool: "echo", Arguments: jsontext.Value(arguments)}, nil)
			return err
		}
		for _, n := range []int{payload, 5 * payload} {
			arguments := fmt.Sprintf(`{"a":"%0*d"}`, n, 7)
			if err := call(arguments); err != nil || string(got) != arguments {
				t.Errorf("of %d bytes %d came: %v", len(arguments), len(got), err)
			}
		}
		for _, arguments := range []string{
			`{"a":"` + strings.Repeat("x", 2*payload),
			`{"a":"` + strings.Repeat("x", callwire.MaxResult) + `"}`,
		} {
			if err := call(arguments); outcome(err) != callwire.NotExecuted || got != nil {
				t.Errorf("of %d bytes %d came: %v", len(arguments), len(got), err)
			}
		}
	})
}

// rawCall sends messages of a request and returns what is answered.
func rawCall(t *testing.T, nc *nats.Conn, messages ...events.Message) *nats.Subscription {
	t.Helper()
	answers, err := nc.SubscribeSync(nats.NewInbox())
	if err != nil {
		t.Fatal(err)
	}
	rawParts(t, nc, answers.Subject, messages...)
	return answers
}

// rawParts sends messages of a request that is answered to a subject.
func rawParts(t *testing.T, nc *nats.Conn, reply string, messages ...events.Message) {
	t.Helper()
	for _, m := range messages {
		if err := nc.PublishMsg(&nats.Msg{Subject: m.Subject, Reply: reply, Header: m.Header, Data: m.Data}); err != nil {
			t.Fatal(err)
		}
	}
}

// refusal waits for an answer that says why the call was not executed.
func refusal(t *testing.T, answers *nats.Subscription) string {
	t.Helper()
	m, err := answers.NextMsg(time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	f, err := callwire.DecodeFrame(events.Message{Subject: m.Subject, Header: m.Header, Data: m.Data})
	if err != nil || f.Kind != callwire.Failure {
		t.Fatalf("answered with %+v, %v", f, err)
	}
	e, err := callwire.DecodeError(f.Data)
	if err != nil || e.Outcome != callwire.NotExecuted {
		t.Errorf("answered with %v, %v", e, err)
	}
	return e.Failure.Message
}

func TestCallWithMissingParts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newSwitchboard(t, nil)
		executed := 0
		b.serve(t, func(context.Context, *callwire.Request, func(callwire.FrameKind, []byte)) ([]byte, error) {
			executed++
			return []byte("{}"), nil
		})
		parts := func(id string) []events.Message {
			r := callwire.Request{ID: id, Tool: "echo", Arguments: []byte(`{"a":"0123456789"}`)}
			return r.Messages(callSubject, 6)
		}
		nc := b.caller.Conn()
		lost := parts("lost")
		if why := refusal(t, rawCall(t, nc, lost[0], lost[2])); !strings.Contains(why, "frame 2 came instead of 1") {
			t.Errorf("a lost part: %s", why)
		}
		began := time.Now()
		if why := refusal(t, rawCall(t, nc, parts("late")[:2]...)); !strings.Contains(why, "did not all come within 10s") || time.Since(began) != 10*time.Second {
			t.Errorf("a late part, after %s: %s", time.Since(began), why)
		}
		waiting := make([]*nats.Subscription, 5)
		for i := range waiting {
			waiting[i] = rawCall(t, nc, parts(fmt.Sprint(i))[0])
		}
		if why := refusal(t, waiting[4]); !strings.Contains(why, "4 requests that do not fit") {
			t.Errorf("too many at once: %s", why)
		}
		if why := refusal(t, rawCall(t, nc, parts("1")[0])); !strings.Contains(why, "4 requests") {
			t.Errorf("the same again: %s", why)
		}
		// Of a stranger who knows the id.
		rawCall(t, nc, parts("0")[1:]...)
		synctest.Wait()
		if executed != 0 {
			t.Errorf("a stranger's parts made %d calls whole", executed)
		}
		rawParts(t, nc, waiting[0].Subject, parts("0")[1:]...)
		if m, err := waiting[0].NextMsg(time.Second); err != nil || m.Header.Get("tf-frame") != string(callwire.Result) {
			t.Errorf("the one that is complete: %+v, %v", m, err)
		}
		// A stranger's parts, and those of a call that is over, are no calls.
		rawCall(t, nc, parts("0")[1:]...)
		rawCall(t, nc, parts("unknown")[1:]...)
		synctest.Wait()
		if executed != 1 {
			t.Errorf("%d calls were executed, want 1", executed)
		}
		if why := refusal(t, waiting[1]); !strings.Contains(why, "did not all come") {
			t.Errorf("the one that is not: %s", why)
		}
	})
}

// At the end of the owner nobody waits for the rest.
func TestCallWithPartsAtTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newSwitchboard(t, nil)
		ctx, cancel := context.WithCancel(t.Context())
		served := make(chan error, 1)
		go func() {
			served <- b.owner.ServeCalls(ctx, callSubject, func(context.Context, *callwire.Request, func(callwire.FrameKind, []byte)) ([]byte, error) {
				return nil, errors.New("unreachable")
			})
		}()
		synctest.Wait()
		r := callwire.Request{ID: "x", Tool: "echo", Arguments: []byte(`{"a":"0123456789"}`)}
		answers := rawCall(t, b.caller.Conn(), r.Messages(callSubject, 6)[0])
		synctest.Wait()
		cancel()
		if why := refusal(t, answers); !strings.Contains(why, "stopping") {
			t.Errorf("refused with %s", why)
		}
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
}
