package otel

import (
	"context"
	"crypto/rand"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// spanIDKey is the context's key for the id of the next span.
type spanIDKey struct{}

// WithSpanID returns ctx with the id of the one span that is started under it. What
// is told of the past, and may be told again by whoever cannot know that it was,
// has an id made from what it tells: a back end keeps it once.
func WithSpanID(ctx context.Context, id trace.SpanID) context.Context {
	return context.WithValue(ctx, spanIDKey{}, id)
}

// ids makes random ids, except where a context has one.
type ids struct{}

var _ sdktrace.IDGenerator = ids{}

// NewIDs returns the ids of a span that begins a trace.
func (g ids) NewIDs(ctx context.Context) (t trace.TraceID, s trace.SpanID) {
	_, _ = rand.Read(t[:]) // never fails
	return t, g.NewSpanID(ctx, t)
}

// NewSpanID returns the id of a span.
func (ids) NewSpanID(ctx context.Context, _ trace.TraceID) (s trace.SpanID) {
	if s, ok := ctx.Value(spanIDKey{}).(trace.SpanID); ok && s.IsValid() {
		return s
	}
	_, _ = rand.Read(s[:]) // never fails
	return s
}
