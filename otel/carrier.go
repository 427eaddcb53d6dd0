package otel

import (
	"context"
	"maps"
	"slices"
	"strings"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

const (
	traceParent = "traceparent"
	traceState  = "tracestate"
)

// Inject returns the trace context of ctx as text, both empty if it has none.
func Inject(ctx context.Context) (parent, state string) {
	if !trace.SpanContextFromContext(ctx).IsValid() {
		return "", ""
	}
	var p pair
	propagation.TraceContext{}.Inject(ctx, &p)
	return p.parent, p.state
}

// Extract returns ctx with that trace context as its remote parent, or ctx itself
// if parent is no traceparent.
func Extract(ctx context.Context, parent, state string) context.Context {
	if parent == "" {
		return ctx
	}
	return propagation.TraceContext{}.Extract(ctx, &pair{parent, state})
}

// InjectHeader writes the trace context of ctx into the header of a message and
// removes the one that was there: whoever passes a message on is its new parent.
func InjectHeader(ctx context.Context, h Header) {
	parent, state := Inject(ctx)
	h.Set(traceParent, parent)
	h.Set(traceState, state)
}

// ExtractHeader returns ctx with the trace context in the header of a message.
func ExtractHeader(ctx context.Context, h Header) context.Context {
	return Extract(ctx, h.Get(traceParent), h.Get(traceState))
}

// pair is a trace context as text.
type pair struct{ parent, state string }

func (p *pair) Get(key string) string {
	switch key {
	case traceParent:
		return p.parent
	case traceState:
		return p.state
	default:
		return ""
	}
}

func (p *pair) Set(key, value string) {
	switch key {
	case traceParent:
		p.parent = value
	case traceState:
		p.state = value
	}
}

func (*pair) Keys() []string { return []string{traceParent, traceState} }

// Header is the header of a NATS message as a carrier of trace context: a
// nats.Header converts to it. Names in NATS are case-sensitive and those in the
// wild are not spelled alike, so it writes lower case and reads any.
type Header map[string][]string

// Get returns the header of that name, several values joined by commas: that is
// one tracestate, and no valid traceparent, as the specification has it.
func (h Header) Get(name string) string {
	if v, ok := h[strings.ToLower(name)]; ok {
		return strings.Join(v, ",")
	}
	found, ok := "", false
	for key := range h {
		// The least spelling, so that the answer does not depend on map order.
		if strings.EqualFold(key, name) && (!ok || key < found) {
			found, ok = key, true
		}
	}
	return strings.Join(h[found], ",")
}

// Keys returns the names of all headers, in order.
func (h Header) Keys() []string { return slices.Sorted(maps.Keys(h)) }

// Set replaces the header of that name, however it is spelled; "" removes it.
func (h Header) Set(name, value string) {
	for key := range h {
		if strings.EqualFold(key, name) {
			delete(h, key)
		}
	}
	if value != "" {
		h[strings.ToLower(name)] = []string{value}
	}
}
