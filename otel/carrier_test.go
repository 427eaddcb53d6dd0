package otel_test

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel/propagation"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/toolfleet/toolfleet/otel"
)

var _ propagation.TextMapCarrier = otel.Header{}

// recorder returns a tracer and where its ended spans go.
func recorder(t *testing.T) (trace.Tracer, *tracetest.InMemoryExporter) {
	e := tracetest.NewInMemoryExporter()
	p := sdktrace.NewTracerProvider(sdktrace.WithSyncer(e))
	t.Cleanup(func() {
		if err := p.Shutdown(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	return p.Tracer("test"), e
}

// TestHop sends a context over a message in both forms; the span on the other
// side must be the child of the one on this side.
func TestHop(t *testing.T) {
	for name, hop := range map[string]func(context.Context) context.Context{
		"text": func(ctx context.Context) context.Context {
			parent, state := otel.Inject(ctx)
			return otel.Extract(t.Context(), parent, state)
		},
		"header": func(ctx context.Context) context.Context {
			h := otel.Header{}
			otel.InjectHeader(ctx, h)
			return otel.ExtractHeader(t.Context(), h)
		},
	} {
		t.Run(name, func(t *testing.T) {
			tracer, e := recorder(t)
			ctx := otel.Extract(t.Context(), arrived, "vendor=1")
			ctx, sent := tracer.Start(ctx, "send")
			_, received := tracer.Start(hop(ctx), "receive")
			received.End()
			sent.End()

			spans := e.GetSpans()
			child, parent := spans[0], spans[1]
			if child.Parent.SpanID() != parent.SpanContext.SpanID() || !child.Parent.IsRemote() {
				t.Errorf("the parent of receive is %v, want %v", child.Parent, parent.SpanContext)
			}
			if got := child.SpanContext.TraceID().String(); got != "4bf92f3577b34da6a3ce929d0e0e4736" {
				t.Errorf("trace id %s", got)
			}
			if got := child.SpanContext.TraceState().String(); got != "vendor=1" {
				t.Errorf("trace state %q", got)
			}
		})
	}
}

func TestExtractRefuses(t *testing.T) {
	for name, h := range map[string]otel.Header{
		"nothing":       {},
		"nil":           nil,
		"no value":      {"traceparent": nil},
		"not hex":       {"traceparent": {"00-zzf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"}},
		"zero trace":    {"traceparent": {"00-00000000000000000000000000000000-00f067aa0ba902b7-01"}},
		"two parents":   {"traceparent": {arrived, arrived}},
		"state only":    {"tracestate": {"vendor=1"}},
		"another's key": {"x-traceparent": {arrived}},
	} {
		t.Run(name, func(t *testing.T) {
			ctx := t.Context()
			if got := otel.ExtractHeader(ctx, h); got != ctx {
				t.Errorf("a context with %v", trace.SpanContextFromContext(got))
			}
		})
	}
}

func TestExtractReadsAnySpelling(t *testing.T) {
	for _, h := range []otel.Header{
		{"Traceparent": {arrived}, "Tracestate": {"a=1", "b=2"}},
		{"TRACEPARENT": {arrived}, "traceState": {"a=1,b=2"}},
		{"traceparent": {arrived}, "Traceparent": {"another"}, "tracestate": {"a=1,b=2"}},
	} {
		sc := trace.SpanContextFromContext(otel.ExtractHeader(t.Context(), h))
		if sc.SpanID().String() != "00f067aa0ba902b7" || sc.TraceState().String() != "a=1,b=2" {
			t.Errorf("%v: %v", h, sc)
		}
	}
}

func TestInjectHeaderReplaces(t *testing.T) {
	old := func() otel.Header {
		return otel.Header{"Traceparent": {"old"}, "TRACESTATE": {"old=1"}, "tf-call": {"7"}}
	}
	h := old()
	otel.InjectHeader(otel.Extract(t.Context(), arrived, ""), h)
	if diff := cmp.Diff(otel.Header{"traceparent": {arrived}, "tf-call": {"7"}}, h); diff != "" {
		t.Errorf("with a context (-want +got):\n%s", diff)
	}
	h = old()
	otel.InjectHeader(t.Context(), h)
	if diff := cmp.Diff(otel.Header{"tf-call": {"7"}}, h); diff != "" {
		t.Errorf("without a context (-want +got):\n%s", diff)
	}
}

func TestHeader(t *testing.T) {
	h := otel.Header{"B": {"1"}, "b": {"2"}, "A": {"3"}}
	if got := h.Get("B"); got != "2" {
		t.Errorf("Get of a name in two spellings = %q, want that of the lower case", got)
	}
	for range 20 { // map order
		if got := (otel.Header{"Aa": {"2"}, "AA": {"1"}, "aA": {"3"}}).Get("aa"); got != "1" {
			t.Fatalf("Get of a name in other spellings = %q, want that of the least", got)
		}
	}
	if diff := cmp.Diff([]string{"A", "B", "b"}, h.Keys()); diff != "" {
		t.Errorf("Keys (-want +got):\n%s", diff)
	}
	h.Set("B", "4")
	if diff := cmp.Diff(otel.Header{"b": {"4"}, "A": {"3"}}, h); diff != "" {
		t.Errorf("after Set (-want +got):\n%s", diff)
	}
}
