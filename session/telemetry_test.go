package session

import (
	"context"
	"testing"

	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/events/callwire"
	"github.com/toolfleet/toolfleet/otel"
	"github.com/toolfleet/toolfleet/otel/oteltest"
)

// A call is the agent's request, and a message for each time it is sent; the
// message carries its own context.
func TestCallIsTraced(t *testing.T) {
	bubble(t, func(t *testing.T, f *scene, o *owners, s *Session) {
		spans := tracetest.NewSpanRecorder()
		s.tracer = sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans)).Tracer("session")
		f.ready("git", "0", "w", "log")
		var sent events.Trace
		o.set(epoch1, func(_ context.Context, r *callwire.Request) ([]byte, error) {
			sent = r.Trace
			return []byte(fine), nil
		})
		if _, err := s.Call(t.Context(), "git__log", []byte(`{"a":"s3cret"}`), nil); err != nil {
			t.Fatal(err)
		}
		all := spans.Ended()
		if len(all) != 2 {
			t.Fatalf("%d spans", len(all))
		}
		message, asked := all[0], all[1]
		if asked.Name() != "tools/call log" || asked.SpanKind() != trace.SpanKindClient || asked.Parent().IsValid() {
			t.Errorf("the request is %v", asked)
		}
		if message.Name() != "send "+otel.CallTemplate || message.SpanKind() != trace.SpanKindProducer ||
			message.Parent().SpanID() != asked.SpanContext().SpanID() {
			t.Errorf("the message is %v", message)
		}
		if want := "00-" + message.SpanContext().TraceID().String() + "-" + message.SpanContext().SpanID().String() + "-01"; sent.Parent != want {
			t.Errorf("sent with %s, want %s", sent.Parent, want)
		}
		o.set(epoch1, func(context.Context, *callwire.Request) ([]byte, error) {
			return nil, &callwire.Error{Outcome: callwire.Failed, Failure: events.NewFailure(events.RPCError, events.PhaseRun, "s3cret")}
		})
		if _, err := s.Call(t.Context(), "git__log", nil, nil); err == nil {
			t.Fatal("no error")
		}
		for _, x := range spans.Ended()[2:] {
			if x.Status().Code != codes.Error || x.Status().Description != string(events.RPCError) {
				t.Errorf("%s has the status %v", x.Name(), x.Status())
			}
		}
	})
}

// With telemetry off a call costs nothing of it.
func TestCallIsNotTraced(t *testing.T) {
	oteltest.Setenv(t)
	tel, err := otel.Start(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tel.Shutdown(t.Context()) }()
	s := &Session{tracer: otel.Tracer("session"), bus: nobody{}}
	r := &request{server: "git", method: callwire.CallTool, target: "log"}
	c := &call{session: s, request: r}
	run := func(ctx context.Context) ([]byte, error) { return c.sent(ctx, epoch1, &callwire.Request{}, owner{}) }
	ctx := t.Context()
	base := testing.AllocsPerRun(100, func() { _, _ = s.bus.Call(ctx, epoch1, &callwire.Request{}, c.options.heard) })
	if n := testing.AllocsPerRun(100, func() { _, _ = s.traced(ctx, r, run) }); n > base {
		t.Errorf("%v allocations, %v without", n, base)
	}
}

type nobody struct{}

func (nobody) Call(context.Context, string, *callwire.Request, func(*callwire.Frame)) ([]byte, error) {
	return nil, nil
}
