package kvview

import (
	"testing"
	"testing/synctest"

	otelapi "go.opentelemetry.io/otel"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/otel"
)

// A history that is folded again is one span, however long it is.
func TestReplayIsOneSpan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		f.someLife(3)
		const parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
		chain := events.InstanceChain("s0", "0")
		for range 40 {
			e := events.Event{Chain: chain, Epoch: 1, Body: events.Failed{}, Trace: events.Trace{Parent: parent}}
			r, err := f.log.Append(t.Context(), e, f.history.Tip(chain))
			if err != nil {
				t.Fatal(err)
			}
			f.history.Apply(r)
		}
		f.projectAll()
		spans := tracetest.NewSpanRecorder()
		otelapi.SetTracerProvider(sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans)))
		defer otelapi.SetTracerProvider(noop.NewTracerProvider())
		if ds, err := Verify(t.Context(), f.log, nil); err != nil || len(ds) > 0 {
			t.Fatalf("%v, %v", ds, err)
		}
		if _, err := Rebuild(t.Context(), f.log, nil); err != nil {
			t.Fatal(err)
		}
		all := spans.Ended()
		if len(all) != 2 || len(spans.Started()) != 2 {
			t.Fatalf("%d spans", len(all))
		}
		for i, name := range []string{otel.SpanVerify, otel.SpanRebuild} {
			s := all[i]
			has := make(map[string]string)
			for _, kv := range s.Attributes() {
				has[string(kv.Key)] = kv.Value.String()
			}
			n := f.history.Seq().String()
			if s.Name() != name || has[string(otel.Replayed)] != n || has[string(otel.LastSeq)] != n || has[string(otel.Replay)] != "true" {
				t.Errorf("%s is %s with %v", name, s.Name(), has)
			}
			if len(s.Links()) != maxReplayLinks {
				t.Errorf("%s has %d links", name, len(s.Links()))
			}
		}
	})
}
