package otel_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"

	collogs "go.opentelemetry.io/proto/otlp/collector/logs/v1"
	colmetrics "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	coltraces "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// sink is a collector that takes OTLP over HTTP and remembers what came.
type sink struct {
	*httptest.Server

	mu       sync.Mutex
	requests int               // guarded by mu
	spans    []*tracepb.Span   // guarded by mu
	metrics  []string          // guarded by mu; names
	logs     []string          // guarded by mu; bodies
	resource map[string]string // guarded by mu; of the last span
}

func newSink(t *testing.T) *sink {
	s := new(sink)
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/traces", take(s, t, func(r *coltraces.ExportTraceServiceRequest) {
		for _, rs := range r.ResourceSpans {
			s.resource = attributes(rs.Resource.Attributes)
			for _, ss := range rs.ScopeSpans {
				s.spans = append(s.spans, ss.Spans...)
			}
		}
	}))
	mux.HandleFunc("POST /v1/metrics", take(s, t, func(r *colmetrics.ExportMetricsServiceRequest) {
		for _, rm := range r.ResourceMetrics {
			for _, sm := range rm.ScopeMetrics {
				for _, m := range sm.Metrics {
					s.metrics = append(s.metrics, m.Name)
				}
			}
		}
	}))
	mux.HandleFunc("POST /v1/logs", take(s, t, func(r *collogs.ExportLogsServiceRequest) {
		for _, rl := range r.ResourceLogs {
			for _, sl := range rl.ScopeLogs {
				for _, l := range sl.LogRecords {
					s.logs = append(s.logs, l.Body.GetStringValue())
				}
			}
		}
	}))
	s.Server = httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s
}

// take decodes a request and hands it to keep, under the sink's lock.
func take[M any, P interface {
	*M
	proto.Message
}](s *sink, t *testing.T, keep func(P)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Errorf("read %s: %v", r.URL.Path, err)
		}
		m := P(new(M))
		if err := proto.Unmarshal(body, m); err != nil {
			t.Errorf("decode %s: %v", r.URL.Path, err)
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.requests++
		keep(m)
		w.Header().Set("Content-Type", "application/x-protobuf")
	}
}

// names returns the names of the spans that came, in order.
func (s *sink) names() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	names := make([]string, len(s.spans))
	for i, span := range s.spans {
		names[i] = span.Name
	}
	return names
}

func attributes(kvs []*commonpb.KeyValue) map[string]string {
	m := make(map[string]string, len(kvs))
	for _, kv := range kvs {
		m[kv.Key] = kv.Value.GetStringValue()
	}
	return m
}

// setenv clears every OTEL_ variable and sets those given, for the test; "" is
// none.
func setenv(t *testing.T, variables ...string) {
	for _, kv := range os.Environ() {
		if name, _, _ := strings.Cut(kv, "="); strings.HasPrefix(name, "OTEL_") {
			t.Setenv(name, "")
		}
	}
	for _, kv := range variables {
		if name, value, ok := strings.Cut(kv, "="); ok {
			t.Setenv(name, value)
		}
	}
}
