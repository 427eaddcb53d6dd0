package gateway

import (
	"net/http"
	"testing"

	"go.opentelemetry.io/otel/trace"
)

// What a client says in _meta counts before what its transport says, and nonsense
// is no error.
func TestTraceOfAClient(t *testing.T) {
	const inMeta, inHeader = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "00-11111111111111111111111111111111-2222222222222222-01"
	header := http.Header{"Traceparent": {inHeader}, "Tracestate": {"vendor=1"}}
	for _, tt := range []struct {
		name, meta  string
		header      http.Header
		trace, span string
	}{
		{"nothing", `{}`, nil, "", ""},
		{"_meta", `{"_meta":{"traceparent":"` + inMeta + `","tracestate":"a=1"}}`, header, "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"},
		{"header", `{"_meta":{}}`, header, "11111111111111111111111111111111", "2222222222222222"},
		{"a number", `{"_meta":{"traceparent":7}}`, nil, "", ""},
		{"no traceparent", `{"_meta":{"traceparent":"x"}}`, nil, "", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m, err := decode([]byte(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":` + tt.meta + `}`))
			if err != nil {
				t.Fatal(err)
			}
			a := &asker{message: m, header: tt.header}
			c := trace.SpanContextFromContext(a.traced(t.Context()))
			if got := c.TraceID().String(); c.IsValid() != (tt.trace != "") || c.IsValid() && (got != tt.trace || c.SpanID().String() != tt.span) {
				t.Errorf("got %v", c)
			}
		})
	}
}
