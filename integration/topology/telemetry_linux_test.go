//go:build topology

package topology

import (
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"

	metrics "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	traces "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	resource "go.opentelemetry.io/proto/otlp/resource/v1"
	"google.golang.org/protobuf/proto"
)

// telemetry stands where the collector does, and notes who sends what.
type telemetry struct {
	mu   sync.Mutex // guards seen
	seen map[string]int
}

// newTelemetry listens at the collector's address.
func newTelemetry(t *testing.T, l *lan) *telemetry {
	t.Helper()
	x := &telemetry{seen: make(map[string]int)}
	listener, err := net.Listen("tcp", l.address("collector")+":4318")
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{Handler: x}
	go func() { _ = s.Serve(listener) }() // until it is closed
	t.Cleanup(func() { _ = s.Close() })   // it is not asked any more
	return x
}

// ServeHTTP takes an export. Its answer without a body is an empty message.
func (x *telemetry) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	data, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "application/x-protobuf")
	for _, who := range senders(r.URL.Path, data) {
		x.note(strings.TrimPrefix(r.URL.Path, "/v1/") + " of " + who)
	}
}

// senders returns the services that an export is about.
func senders(path string, data []byte) (names []string) {
	var all []*resource.Resource
	switch path {
	case "/v1/traces":
		var m traces.ExportTraceServiceRequest
		_ = proto.Unmarshal(data, &m) // what cannot be read is about nobody
		for _, x := range m.GetResourceSpans() {
			all = append(all, x.GetResource())
		}
	case "/v1/metrics":
		var m metrics.ExportMetricsServiceRequest
		_ = proto.Unmarshal(data, &m) // likewise
		for _, x := range m.GetResourceMetrics() {
			all = append(all, x.GetResource())
		}
	}
	for _, r := range all {
		for _, a := range r.GetAttributes() {
			if a.GetKey() == "service.name" {
				names = append(names, a.GetValue().GetStringValue())
			}
		}
	}
	return names
}

func (x *telemetry) note(what string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.seen[what]++
}

// check fails unless all of that was sent.
func (x *telemetry) check(t *testing.T, want ...string) {
	t.Helper()
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, what := range want {
		if x.seen[what] == 0 {
			t.Errorf("the collector got no %s, but %v", what, x.seen)
		}
	}
}
