package otel_test

import (
	"context"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/toolfleet/toolfleet/otel"
	"github.com/toolfleet/toolfleet/otel/oteltest"
)

// scrape returns what a GET of /metrics answers.
func scrape(t *testing.T) string {
	t.Helper()
	w := httptest.NewRecorder()
	otel.MetricsHandler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	if w.Code != 200 {
		t.Fatalf("status %d: %s", w.Code, w.Body)
	}
	return w.Body.String()
}

// Metrics can be had without any variable; until somebody wants them nothing is
// worked out for them.
func TestMetricsWithoutVariables(t *testing.T) {
	oteltest.Setenv(t)
	tel := start(t, &otel.Options{Service: "toolfleet-controller", Instance: "c1"})
	defer shutdown(t, tel)
	worked := 0
	reasons := otel.NewSets(func(reason string) []attribute.KeyValue {
		worked++
		return []attribute.KeyValue{otel.ErrorType.String(reason)}
	}, func(string) string { return "" })
	m := otel.Meter("worker")
	restarts := otel.NewCount(m, "toolfleet.restarts", "{restart}", "Restarts.", reasons)
	connects := otel.NewSeconds(m, "toolfleet.connect.duration", "Connects.", otel.ConnectBuckets, reasons)
	gauge, err := m.Int64ObservableGauge("toolfleet.history.bytes", metric.WithUnit("By"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		o.ObserveInt64(gauge, 42)
		return nil
	}, gauge); err != nil {
		t.Fatal(err)
	}
	restarts.Add(t.Context(), 1, "exited")
	if otel.Measuring() || worked != 0 {
		t.Error("something is measured that nobody asked for")
	}
	if got := scrape(t); !strings.Contains(got, "toolfleet_history_bytes 42\n") || strings.Contains(got, "toolfleet_restarts") {
		t.Errorf("first answer:\n%s", got)
	}
	restarts.Add(t.Context(), 2, "exited")
	connects.Measure(t.Context(), time.Second, "")
	got := scrape(t)
	for _, want := range []string{
		`toolfleet_restarts_total{error_type="exited"} 2`, `toolfleet_connect_duration_seconds_count{error_type=""} 1`,
		`toolfleet_connect_duration_seconds_bucket{error_type="",le="1"} 1`, `service_name="toolfleet-controller"`,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %s in\n%s", want, got)
		}
	}
	if strings.Contains(got, "otel_scope") {
		t.Errorf("labels of scopes:\n%s", got)
	}
}

func TestMetricsDisabled(t *testing.T) {
	oteltest.Setenv(t, "OTEL_SDK_DISABLED=true")
	start(t, nil)
	if got := scrape(t); got != "" || otel.Measuring() {
		t.Errorf("got %q", got)
	}
}

// Above the limit of sets, what comes is counted as the rest.
func TestSetsAreBounded(t *testing.T) {
	oteltest.Setenv(t)
	start(t, nil)
	scrape(t)
	sets := otel.NewSets(func(n int) []attribute.KeyValue { return []attribute.KeyValue{attribute.Int("n", n)} },
		func(int) int { return -1 })
	c := otel.NewCount(otel.Meter("test"), "test.sets", "{set}", "", sets)
	for i := range 10_000 {
		c.Add(t.Context(), 1, i)
	}
	got := scrape(t)
	if n := strings.Count(got, "test_sets_total{"); n != 1001 || !strings.Contains(got, `test_sets_total{n="-1"} 9000`) {
		t.Errorf("%d sets, and no rest of 9,000", n)
	}
	if strings.Contains(got, "overflow") {
		t.Error("the SDK has thrown sets together")
	}
}

// A command sends traces at most, and leaves its standard output alone.
func TestBrief(t *testing.T) {
	s := oteltest.NewSink(t)
	oteltest.Setenv(t)
	shutdown(t, start(t, nil)) // whatever ran before
	oteltest.Setenv(t, "OTEL_EXPORTER_OTLP_ENDPOINT="+s.URL)
	tel := start(t, &otel.Options{Brief: true})
	report(t.Context(), t)
	shutdown(t, tel)
	if len(s.Spans()) != 1 || len(s.Points())+len(s.Records()) > 0 {
		t.Errorf("spans %v, metrics %v, logs %v", names(s), metrics(s), bodies(s))
	}
	oteltest.Setenv(t, "OTEL_TRACES_EXPORTER=console")
	shutdown(t, start(t, &otel.Options{Brief: true}))
	if otel.Records(otel.Tracer("session")) {
		t.Error("spans are written to standard output")
	}
	whole := start(t, nil)
	start(t, &otel.Options{Brief: true})
	if !otel.Records(otel.Tracer("session")) {
		t.Error("a command turned the telemetry of its process off")
	}
	shutdown(t, whole)
}
