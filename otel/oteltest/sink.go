// Package oteltest receives telemetry in tests: spans, measurements and log
// records as they are on the wire.
package oteltest

import (
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	collogs "go.opentelemetry.io/proto/otlp/collector/logs/v1"
	colmetrics "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	coltraces "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	metricspb "go.opentelemetry.io/proto/otlp/metrics/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// Sink is a collector that takes OTLP over HTTP and remembers what came.
type Sink struct {
	*httptest.Server

	// Hold, while it is locked, keeps every request waiting.
	Hold sync.Mutex

	mu       sync.Mutex
	requests int               // guarded by mu
	spans    []Span            // guarded by mu
	points   []Point           // guarded by mu
	records  []Record          // guarded by mu
	resource map[string]string // guarded by mu; of the last span
}

// Span is a span as it came.
type Span struct {
	Service, Scope string
	Name           string
	// Kind is "internal", "server", "client", "producer" or "consumer".
	Kind string
	// Trace, ID and Parent are in hex; Parent is "" for a root.
	Trace, ID, Parent string
	Start, End        time.Time
	Attributes        map[string]string
	Links             []Link
	// Failed says that the status is an error, Status is its description.
	Failed bool
	Status string
}

// Link is a link of a span.
type Link struct {
	Trace, ID  string
	Attributes map[string]string
}

// TraceParent returns the span's context in the form of W3C, for a sampled span.
func (s *Span) TraceParent() string { return "00-" + s.Trace + "-" + s.ID + "-01" }

// TraceParent returns the context that is linked to, as [Span.TraceParent] does.
func (l *Link) TraceParent() string { return "00-" + l.Trace + "-" + l.ID + "-01" }

// Point is one measurement of an instrument.
type Point struct {
	Metric     string
	Attributes map[string]string
	// Value is that of a gauge or counter, or how many a histogram has.
	Value float64
}

// Record is a log record.
type Record struct {
	Event, Body, Severity string
	Trace, Span           string
	Attributes            map[string]string
}

// NewSink starts a sink for the test.
func NewSink(t testing.TB) *Sink {
	s := new(Sink)
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/traces", take(s, t, s.takeSpans))
	mux.HandleFunc("POST /v1/metrics", take(s, t, s.takePoints))
	mux.HandleFunc("POST /v1/logs", take(s, t, s.takeRecords))
	s.Server = httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s
}

// take decodes a request and hands it to keep, under the sink's lock.
func take[M any, P interface {
	*M
	proto.Message
}](s *Sink, t testing.TB, keep func(P)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return // the process was killed in the middle of it
		}
		m := P(new(M))
		if err := proto.Unmarshal(body, m); err != nil {
			t.Errorf("decode %s: %v", r.URL.Path, err)
		}
		s.Hold.Lock()
		defer s.Hold.Unlock()
		s.mu.Lock()
		defer s.mu.Unlock()
		s.requests++
		keep(m)
		w.Header().Set("Content-Type", "application/x-protobuf")
	}
}

func (s *Sink) takeSpans(r *coltraces.ExportTraceServiceRequest) {
	for _, rs := range r.ResourceSpans {
		s.resource = attributes(rs.Resource.Attributes)
		for _, ss := range rs.ScopeSpans {
			for _, x := range ss.Spans {
				s.spans = append(s.spans, newSpan(s.resource["service.name"], ss.Scope.GetName(), x))
			}
		}
	}
}

func newSpan(service, scope string, x *tracepb.Span) Span {
	n := Span{
		Service: service, Scope: scope, Name: x.Name,
		Kind:  strings.ToLower(strings.TrimPrefix(x.Kind.String(), "SPAN_KIND_")),
		Trace: hex.EncodeToString(x.TraceId), ID: hex.EncodeToString(x.SpanId), Parent: hex.EncodeToString(x.ParentSpanId),
		Start: time.Unix(0, int64(x.StartTimeUnixNano)), End: time.Unix(0, int64(x.EndTimeUnixNano)),
		Attributes: attributes(x.Attributes),
		Failed:     x.Status.GetCode() == tracepb.Status_STATUS_CODE_ERROR, Status: x.Status.GetMessage(),
	}
	for _, l := range x.Links {
		n.Links = append(n.Links, Link{hex.EncodeToString(l.TraceId), hex.EncodeToString(l.SpanId), attributes(l.Attributes)})
	}
	return n
}

func (s *Sink) takePoints(r *colmetrics.ExportMetricsServiceRequest) {
	for _, rm := range r.ResourceMetrics {
		for _, sm := range rm.ScopeMetrics {
			for _, m := range sm.Metrics {
				s.points = append(s.points, newPoints(m)...)
			}
		}
	}
}

func newPoints(m *metricspb.Metric) (all []Point) {
	numbers := append(m.GetGauge().GetDataPoints(), m.GetSum().GetDataPoints()...)
	for _, p := range numbers {
		all = append(all, Point{m.Name, attributes(p.Attributes), p.GetAsDouble() + float64(p.GetAsInt())})
	}
	for _, p := range m.GetHistogram().GetDataPoints() {
		all = append(all, Point{m.Name, attributes(p.Attributes), float64(p.Count)})
	}
	return all
}

func (s *Sink) takeRecords(r *collogs.ExportLogsServiceRequest) {
	for _, rl := range r.ResourceLogs {
		for _, sl := range rl.ScopeLogs {
			for _, l := range sl.LogRecords {
				s.records = append(s.records, Record{
					Event: l.EventName, Body: l.Body.GetStringValue(), Severity: l.SeverityText,
					Trace: hex.EncodeToString(l.TraceId), Span: hex.EncodeToString(l.SpanId),
					Attributes: attributes(l.Attributes),
				})
			}
		}
	}
}

// Requests returns how many requests came.
func (s *Sink) Requests() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.requests
}

// Resource returns the attributes of the process that sent the last span.
func (s *Sink) Resource() map[string]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.resource
}

// Spans returns the spans that came so far.
func (s *Sink) Spans() []Span {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.spans)
}

// Points returns the measurements that came so far.
func (s *Sink) Points() []Point {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.points)
}

// Records returns the log records that came so far.
func (s *Sink) Records() []Record {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.records)
}

func attributes(all []*commonpb.KeyValue) map[string]string {
	m := make(map[string]string, len(all))
	for _, kv := range all {
		m[kv.Key] = text(kv.Value)
	}
	return m
}

func text(v *commonpb.AnyValue) string {
	switch x := v.GetValue().(type) {
	case *commonpb.AnyValue_StringValue:
		return x.StringValue
	case *commonpb.AnyValue_IntValue:
		return strconv.FormatInt(x.IntValue, 10)
	case *commonpb.AnyValue_DoubleValue:
		return strconv.FormatFloat(x.DoubleValue, 'g', -1, 64)
	case *commonpb.AnyValue_BoolValue:
		return strconv.FormatBool(x.BoolValue)
	default:
		return v.String()
	}
}

// Setenv clears every OTEL_ variable and sets those given, as NAME=value, for the
// test; "" is none.
func Setenv(t testing.TB, variables ...string) {
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
