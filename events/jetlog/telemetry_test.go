package jetlog_test

import (
	"testing"
	"testing/synctest"

	"github.com/cockroachdb/errors"
	otelapi "go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/events/eventstest"
	"github.com/toolfleet/toolfleet/events/jetlog"
	"github.com/toolfleet/toolfleet/otel"
)

// record has the process's spans kept for the test.
func record(t *testing.T) *tracetest.SpanRecorder {
	spans := tracetest.NewSpanRecorder()
	otelapi.SetTracerProvider(sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans)))
	t.Cleanup(func() { otelapi.SetTracerProvider(noop.NewTracerProvider()) })
	return spans
}

func parentOf(s sdktrace.ReadOnlySpan) string {
	return "00-" + s.SpanContext().TraceID().String() + "-" + s.SpanContext().SpanID().String() + "-01"
}

const wished = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

// An append is a span below the trace that it was given, and the event has the
// context of the span. That somebody else was first is no error.
func TestAppendIsTraced(t *testing.T) {
	spans := record(t)
	synctest.Test(t, func(t *testing.T) {
		server := eventstest.NewServer(t, nil)
		log := open(t, server.Connect("worker/w"), &jetlog.Options{Writer: "worker/w"})
		chain := events.InstanceChain("s", "0")
		e := events.Event{
			Chain: chain, Body: events.Connecting{Attempt: 2, Generation: 7}, Epoch: 3, Attempt: 2, Correlation: "c",
			Trace: events.Trace{Parent: wished, State: "vendor=1"},
		}
		r, err := log.Append(t.Context(), e, events.Tip{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := log.Append(t.Context(), e, events.Tip{}); !errors.Is(err, events.ErrConflict) {
			t.Fatalf("second append: %v", err)
		}
		var stored events.Record
		for x, err := range log.ReadChain(t.Context(), chain, events.Tip{}) {
			if err != nil {
				t.Fatal(err)
			}
			stored = x
		}
		all := spans.Ended()
		first, second := all[0], all[1]
		if stored.Trace.Parent != parentOf(first) || stored.Trace.State != "vendor=1" || r.Trace != stored.Trace {
			t.Errorf("stored with %v, the span is %s", stored.Trace, parentOf(first))
		}
		if first.Parent().SpanID().String() != "00f067aa0ba902b7" || first.SpanKind() != trace.SpanKindProducer ||
			first.Name() != "send tf.evt.{fleet}.instance.{server}.{instance}" {
			t.Errorf("the span is %v", first)
		}
		want := attribute.NewSet(append(otel.Message("send", "send", "tf.evt.{fleet}.instance.{server}.{instance}"),
			otel.EventID.String(string(r.ID)), otel.EventType.String("connecting"), otel.EventSeq.Int(1),
			otel.ServerName.String("s"), otel.Instance.String("0"), otel.CommandID.String("c"), otel.WorkerID.String("w"),
			otel.ConnectionAttempt.Int(2), otel.ConnectionID.String("s/0/3.2"), otel.Generation.Int(7))...)
		if got := attribute.NewSet(first.Attributes()...); !got.Equals(&want) {
			t.Errorf("attributes %v, want %v", got.Encoded(attribute.DefaultEncoder()), want.Encoded(attribute.DefaultEncoder()))
		}
		if second.Status().Code != codes.Unset {
			t.Errorf("a conflict is an error: %v", second.Status())
		}
	})
}

// A command carries the context of the span that sent it.
func TestCommandIsTraced(t *testing.T) {
	spans := record(t)
	synctest.Test(t, func(t *testing.T) {
		log := open(t, eventstest.NewServer(t, nil).Connect("controller/c"), nil)
		a := events.Address{Worker: "w", Server: "s", Instance: "0"}
		c := &events.Command{Want: events.Stopped, Generation: 5, Incarnation: "i", Epoch: 1, Trace: events.Trace{Parent: wished}}
		if _, err := log.PutCommand(t.Context(), a, c, 0); err != nil {
			t.Fatal(err)
		}
		all, err := log.LastCommands(t.Context())
		if err != nil || len(all) != 1 {
			t.Fatalf("commands %v, %v", all, err)
		}
		s := spans.Ended()[0]
		if got := all[0].Command.Trace.Parent; got != parentOf(s) || s.SpanContext().TraceID().String() != wished[3:35] || s.Name() != "send "+otel.CommandTemplate {
			t.Errorf("sent with %s by %v", got, s)
		}
		if c.Trace.Parent != wished {
			t.Errorf("the caller's command was changed to %v", c.Trace)
		}
	})
}

// With telemetry off, what was given is stored as it is.
func TestTraceIsPassedOn(t *testing.T) {
	otelapi.SetTracerProvider(noop.NewTracerProvider())
	synctest.Test(t, func(t *testing.T) {
		log := open(t, eventstest.NewServer(t, nil).Connect("test"), nil)
		r, err := log.Append(t.Context(), events.Event{
			Chain: events.FleetChain(), Body: events.Frozen{}, Trace: events.Trace{Parent: wished, State: "vendor=1"},
		}, events.Tip{})
		if err != nil || r.Trace.Parent != wished || r.Trace.State != "vendor=1" {
			t.Errorf("stored with %v, %v", r.Trace, err)
		}
	})
}
