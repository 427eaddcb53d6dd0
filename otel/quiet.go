package otel

import (
	"context"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/embedded"
	"go.opentelemetry.io/otel/trace/noop"
)

// quietProvider is the tracer provider of a process whose traces are off. Unlike
// the API's own, it does not make a new context for every span.
type quietProvider struct{ embedded.TracerProvider }

func (quietProvider) Tracer(string, ...trace.TracerOption) trace.Tracer { return quietTracer{} }

type quietTracer struct{ embedded.Tracer }

// Start returns ctx and the span that records nothing and stands for the span
// context of ctx, if any.
func (quietTracer) Start(ctx context.Context, name string, o ...trace.SpanStartOption) (context.Context, trace.Span) {
	span := trace.SpanFromContext(ctx)
	if span.IsRecording() { // unreachable unless a library has an SDK of its own
		return noop.Tracer{}.Start(ctx, name, o...)
	}
	return ctx, span
}

// following is a provider whose tracers take the decision of the parent, that a
// trace is not sampled, for the end of the matter: the parent's context is what is
// passed on. The SDK would make a span with an id of its own each time, which
// nobody gets to see.
type following struct{ trace.TracerProvider }

func (p following) Tracer(name string, o ...trace.TracerOption) trace.Tracer {
	return follower{Tracer: p.TracerProvider.Tracer(name, o...)}
}

type follower struct{ trace.Tracer }

func (f follower) Start(ctx context.Context, name string, o ...trace.SpanStartOption) (context.Context, trace.Span) {
	span := trace.SpanFromContext(ctx)
	if c := span.SpanContext(); c.IsValid() && !c.IsSampled() {
		if config := trace.NewSpanStartConfig(o...); !config.NewRoot() {
			return ctx, span
		}
	}
	return f.Tracer.Start(ctx, name, o...) //nolint:spancheck // Who asked for it ends it.
}

// Records says whether a tracer's spans can be recorded at all. Where they
// cannot, names and options of spans need not be built.
func Records(t trace.Tracer) bool {
	switch t.(type) {
	case nil, quietTracer, noop.Tracer:
		return false
	default:
		return true
	}
}

// StartChild starts a span below that of ctx, with the same provider. Where ctx
// has none that records it returns ctx and a span that records nothing: what is
// only interesting as a part of something is left out with the whole.
func StartChild(ctx context.Context, name string, kind trace.SpanKind, attributes ...attribute.KeyValue) (context.Context, trace.Span) {
	parent := trace.SpanFromContext(ctx)
	if !parent.IsRecording() {
		return ctx, noop.Span{}
	}
	t := parent.TracerProvider().Tracer(modulePath)
	return t.Start(ctx, name, trace.WithSpanKind(kind), trace.WithAttributes(attributes...)) //nolint:spancheck // Who asked for it ends it.
}

// Link returns a link to a trace context, as it was written down, for the options
// of a span; false if it is none.
func Link(kind, parent, state string) (trace.Link, bool) {
	version, rest, _ := strings.Cut(parent, "-")
	ids, flags, _ := strings.Cut(rest, "-")
	span, flags, _ := strings.Cut(flags, "-")
	var c trace.SpanContextConfig
	var err1, err2 error
	c.TraceID, err1 = trace.TraceIDFromHex(ids)
	c.SpanID, err2 = trace.SpanIDFromHex(span)
	if version != "00" || err1 != nil || err2 != nil {
		return trace.Link{}, false
	}
	if flags == "01" {
		c.TraceFlags = trace.FlagsSampled
	}
	c.TraceState, _ = trace.ParseTraceState(state) // what is none is left out
	c.Remote = true
	return trace.Link{SpanContext: trace.NewSpanContext(c), Attributes: []attribute.KeyValue{LinkKind.String(kind)}}, true
}
