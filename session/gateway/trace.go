package gateway

import (
	"context"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/toolfleet/toolfleet/otel"
)

// traced returns the context of a request as part of the trace that its client
// named: in _meta or else, over HTTP, in the header. What is none is left out, and
// is no error.
func (a *asker) traced(ctx context.Context) context.Context {
	if parent := text(a.message.meta.Parent); parent != "" {
		return otel.Extract(ctx, parent, text(a.message.meta.State))
	}
	return otel.Extract(ctx, a.header.Get("Traceparent"), a.header.Get("Tracestate"))
}

// text returns a JSON string, or "" for anything else.
func text(v jsontext.Value) (s string) {
	if v.Kind() == '"' {
		_ = json.Unmarshal(v, &s) // it was valid when the message was read
	}
	return s
}
