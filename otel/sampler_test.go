package otel_test

import (
	"strconv"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/trace"

	"github.com/toolfleet/toolfleet/otel"
	"github.com/toolfleet/toolfleet/otel/oteltest"
)

// Of calls a share is sampled, of everything else all; parents decide for their
// children.
func TestLifecycleIsAlwaysSampled(t *testing.T) {
	s := oteltest.NewSink(t)
	oteltest.Setenv(t, "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT="+s.URL+"/v1/traces", "OTEL_TRACES_SAMPLER_ARG=0.1")
	tel := start(t, nil)
	tracer := otel.Tracer("worker")
	const n = 1000
	for i := range n {
		for _, name := range []string{"tools/call echo", "resources/read", otel.SpanReconnect} {
			ctx, span := tracer.Start(t.Context(), name)
			_, child := tracer.Start(ctx, "send "+strconv.Itoa(i))
			if child.SpanContext().IsSampled() != span.SpanContext().IsSampled() {
				t.Fatal("a child is sampled and its parent is not, or the other way round")
			}
			if !span.SpanContext().IsSampled() && child.SpanContext().SpanID() != span.SpanContext().SpanID() {
				t.Fatal("a child that nobody sees has a span of its own")
			}
			child.End()
			span.End()
		}
		_, apart := tracer.Start(otel.Extract(t.Context(), strings.TrimSuffix(arrived, "01")+"00", ""), "loss", trace.WithNewRoot())
		apart.End()
	}
	shutdown(t, tel)
	count := make(map[string]int)
	for _, name := range names(s) {
		count[strings.Fields(name)[0]]++
	}
	if count[strings.Fields(otel.SpanReconnect)[0]] != n || count["loss"] != n {
		t.Errorf("of %d restarts and losses came %d and %d", n, count["reconnect"], count["loss"])
	}
	for _, name := range []string{"tools/call", "resources/read"} {
		if got := count[name]; got < 50 || got > 150 {
			t.Errorf("of %d %s came %d, want a tenth", n, name, got)
		}
	}
}

func TestShareOfCalls(t *testing.T) {
	for _, share := range []string{"much", "1.5", "-1"} {
		oteltest.Setenv(t, "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=http://127.0.0.1:1", "OTEL_TRACES_SAMPLER_ARG="+share)
		if _, err := otel.Start(t.Context(), nil); err == nil || !strings.Contains(err.Error(), "OTEL_TRACES_SAMPLER_ARG") {
			t.Errorf("%s: %v", share, err)
		}
	}
}

// What is told twice under the same id is the same span.
func TestSpanID(t *testing.T) {
	s := oteltest.NewSink(t)
	oteltest.Setenv(t, "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT="+s.URL+"/v1/traces")
	tel := start(t, nil)
	ctx := otel.Extract(t.Context(), arrived, "")
	for range 2 {
		_, span := otel.Tracer("controller").Start(otel.WithSpanID(ctx, trace.SpanID{1, 2, 3}), otel.SpanConverge)
		span.End()
	}
	_, random := otel.Tracer("controller").Start(ctx, "random")
	random.End()
	shutdown(t, tel)
	spans := s.Spans()
	if spans[0].ID != "0102030000000000" || spans[1].ID != spans[0].ID || spans[2].ID == spans[0].ID || spans[0].Trace != spans[1].Trace {
		t.Errorf("spans %+v", spans)
	}
}

// A queue that is full counts what it drops.
func TestDroppedSpansAreCounted(t *testing.T) {
	s := oteltest.NewSink(t)
	s.Hold.Lock()
	oteltest.Setenv(t, "OTEL_EXPORTER_OTLP_ENDPOINT="+s.URL, "OTEL_BSP_MAX_QUEUE_SIZE=100", "OTEL_LOGS_EXPORTER=none")
	tel := start(t, nil)
	const n = 1000
	for range n {
		_, span := otel.Tracer("worker").Start(t.Context(), "connect")
		span.End()
	}
	s.Hold.Unlock()
	shutdown(t, tel)
	dropped := -1
	for _, p := range s.Points() {
		if p.Metric == "toolfleet.telemetry.spans.dropped" {
			dropped = int(p.Value)
		}
	}
	if came := len(s.Spans()); dropped <= 0 || came+dropped != n {
		t.Errorf("of %d spans came %d, and %d were counted as dropped", n, came, dropped)
	}
}

func TestLink(t *testing.T) {
	l, ok := otel.Link(otel.LinkCause, arrived, "vendor=1")
	if !ok || l.SpanContext.TraceID().String() != "4bf92f3577b34da6a3ce929d0e0e4736" || l.SpanContext.SpanID().String() != "00f067aa0ba902b7" ||
		!l.SpanContext.IsSampled() || l.SpanContext.TraceState().String() != "vendor=1" {
		t.Errorf("got %v, %v", l, ok)
	}
	for _, parent := range []string{
		"", "x", "00", "01" + arrived[2:], "00-zzf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
		"00-00000000000000000000000000000000-00f067aa0ba902b7-01", "00-4bf92f3577b34da6a3ce929d0e0e4736-x-01",
	} {
		if l, ok := otel.Link(otel.LinkCause, parent, ""); ok {
			t.Errorf("%q is linked to as %v", parent, l)
		}
	}
}
