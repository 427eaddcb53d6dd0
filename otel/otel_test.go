package otel_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	otelapi "go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/log"
	"go.opentelemetry.io/otel/trace"

	"github.com/toolfleet/toolfleet/otel"
	"github.com/toolfleet/toolfleet/otel/oteltest"
)

const arrived = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

func start(t *testing.T, o *otel.Options) *otel.Telemetry {
	t.Helper()
	tel, err := otel.Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return tel
}

func shutdown(t *testing.T, tel *otel.Telemetry) {
	t.Helper()
	if err := tel.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// names returns the names of the spans that came, in order.
func names(s *oteltest.Sink) []string {
	var all []string
	for _, span := range s.Spans() {
		all = append(all, span.Name)
	}
	return all
}

// metrics returns the names of the metrics that came.
func metrics(s *oteltest.Sink) []string {
	var all []string
	for _, p := range s.Points() {
		all = append(all, p.Metric)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// bodies returns what the log records that came say.
func bodies(s *oteltest.Sink) []string {
	var all []string
	for _, r := range s.Records() {
		all = append(all, r.Body)
	}
	return all
}

// report says something over every signal.
func report(ctx context.Context, t *testing.T) {
	t.Helper()
	_, span := otel.Tracer("worker").Start(ctx, "connect")
	span.End()
	counter, err := otel.Meter("worker").Int64Counter("toolfleet.restarts")
	if err != nil {
		t.Fatal(err)
	}
	counter.Add(ctx, 1)
	var r log.Record
	r.SetBody(attribute.StringValue("the server is connected"))
	otelapi.Logger("worker").Emit(ctx, r)
}

func TestAllSignalsReachTheEndpoint(t *testing.T) {
	s := oteltest.NewSink(t)
	oteltest.Setenv(t, "OTEL_EXPORTER_OTLP_ENDPOINT="+s.URL)
	tel := start(t, &otel.Options{Service: "toolfleet-worker", Version: "1.2.3", Instance: "i-1"})
	report(t.Context(), t)
	shutdown(t, tel)

	if diff := cmp.Diff([]string{"connect"}, names(s)); diff != "" {
		t.Errorf("spans (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"toolfleet.restarts", "toolfleet.telemetry.spans.dropped"}, metrics(s)); diff != "" {
		t.Errorf("metrics (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"the server is connected"}, bodies(s)); diff != "" {
		t.Errorf("logs (-want +got):\n%s", diff)
	}
	for name, want := range map[string]string{
		"service.name": "toolfleet-worker", "service.version": "1.2.3", "service.instance.id": "i-1",
		"telemetry.sdk.language": "go",
	} {
		if got := s.Resource()[name]; got != want {
			t.Errorf("resource has %s = %q, want %q", name, got, want)
		}
	}
	if _, ok := s.Resource()["process.pid"]; !ok {
		t.Error("resource has no process.pid")
	}
	for name := range s.Resource() {
		if strings.HasPrefix(name, "process.command") || name == "process.owner" {
			t.Errorf("resource has %s, which may hold secrets", name)
		}
	}
}

func TestEnvironmentHasTheLastWordOnNames(t *testing.T) {
	s := oteltest.NewSink(t)
	oteltest.Setenv(t, "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT="+s.URL+"/v1/traces",
		"OTEL_SERVICE_NAME=mine", "OTEL_RESOURCE_ATTRIBUTES=service.instance.id=left,deployment.environment.name=test")
	tel := start(t, &otel.Options{Service: "toolfleet-worker"})
	report(t.Context(), t)
	shutdown(t, tel)
	for name, want := range map[string]string{
		"service.name": "mine", "service.instance.id": "left", "deployment.environment.name": "test",
	} {
		if got := s.Resource()[name]; got != want {
			t.Errorf("resource has %s = %q, want %q", name, got, want)
		}
	}
	if len(s.Points())+len(s.Records()) > 0 {
		t.Errorf("only traces have an endpoint, but metrics %q and logs %q came", metrics(s), bodies(s))
	}
}

func TestOff(t *testing.T) {
	s := oteltest.NewSink(t)
	endpoint := "OTEL_EXPORTER_OTLP_ENDPOINT=" + s.URL
	for name, env := range map[string][]string{
		"nothing named": nil,
		"none":          {endpoint, "OTEL_TRACES_EXPORTER=none", "OTEL_METRICS_EXPORTER=none", "OTEL_LOGS_EXPORTER=none"},
		"disabled":      {endpoint, "OTEL_SDK_DISABLED=True"},
	} {
		t.Run(name, func(t *testing.T) {
			oteltest.Setenv(t, env...)
			// The bubble fails the test if a goroutine is left in it: there is no
			// Shutdown here.
			synctest.Test(t, func(t *testing.T) {
				start(t, nil)
				report(t.Context(), t)
				if n := offAllocs(t); n != 0 {
					t.Errorf("a span, a count and two hops allocate %v times", n)
				}
			})
		})
	}
	if s.Requests() != 0 {
		t.Errorf("%d requests were sent", s.Requests())
	}
}

// offAllocs returns the allocations of what a quiet process does for each event.
func offAllocs(t *testing.T) float64 {
	tracer := otel.Tracer("worker")
	reasons := otel.NewSets(func(reason string) []attribute.KeyValue {
		return []attribute.KeyValue{otel.ErrorType.String(reason)}
	}, func(string) string { return "_OTHER" })
	counter := otel.NewCount(otel.Meter("worker"), "toolfleet.restarts", "{restart}", "", reasons)
	took := otel.NewSeconds(otel.Meter("worker"), "toolfleet.connect.duration", "", otel.ConnectBuckets, reasons)
	return testing.AllocsPerRun(100, func() {
		ctx, span := tracer.Start(t.Context(), "connect")
		if span.IsRecording() {
			span.SetAttributes(attribute.String("toolfleet.server.name", "github"))
		}
		counter.Add(ctx, 1, "timeout")
		took.Measure(ctx, time.Second, "timeout")
		otel.Emit(ctx, "worker", "toolfleet.server.connected", otel.Info, "connected")
		parent, state := otel.Inject(ctx)
		otel.Extract(ctx, parent, state)
		span.End()
	})
}

func TestOffPassesTheContextOn(t *testing.T) {
	oteltest.Setenv(t)
	start(t, nil)
	ctx := otel.Extract(t.Context(), arrived, "vendor=1")
	ctx, span := otel.Tracer("worker").Start(ctx, "connect")
	defer span.End()
	if parent, state := otel.Inject(ctx); parent != arrived || state != "vendor=1" {
		t.Errorf("passed on %q, %q", parent, state)
	}
}

func TestSampling(t *testing.T) {
	for _, tt := range []struct {
		name, env, parent string
		want              int
	}{
		{"own root", "", "", 1},
		{"parent sampled", "", arrived, 1},
		{"parent not sampled", "", strings.TrimSuffix(arrived, "01") + "00", 0},
		{"asked for none", "OTEL_TRACES_SAMPLER=always_off", "", 0},
		{"asked for none but the parent's", "OTEL_TRACES_SAMPLER=parentbased_always_off", arrived, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := oteltest.NewSink(t)
			oteltest.Setenv(t, "OTEL_EXPORTER_OTLP_ENDPOINT="+s.URL, tt.env)
			tel := start(t, nil)
			report(otel.Extract(t.Context(), tt.parent, ""), t)
			shutdown(t, tel)
			if got := len(names(s)); got != tt.want {
				t.Errorf("%d spans came, want %d", got, tt.want)
			}
		})
	}
}

func TestImpossibleSettingsAreErrors(t *testing.T) {
	for _, env := range []string{
		"OTEL_TRACES_EXPORTER=paper", "OTEL_METRICS_EXPORTER=paper", "OTEL_LOGS_EXPORTER=paper",
		"OTEL_EXPORTER_OTLP_PROTOCOL=pigeon", "OTEL_RESOURCE_ATTRIBUTES=no-value",
	} {
		t.Run(env, func(t *testing.T) {
			oteltest.Setenv(t, "OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:1", env)
			_, err := otel.Start(t.Context(), &otel.Options{Flush: time.Millisecond})
			name, _, _ := strings.Cut(env, "=")
			if name == "OTEL_EXPORTER_OTLP_PROTOCOL" {
				name = "OTEL_EXPORTER_OTLP_"
			}
			if err == nil || !strings.Contains(err.Error(), name) {
				t.Errorf("Start = %v, want an error that names %s", err, name)
			}
		})
	}
}

// TestShutdownHasOneLimitForAll has a collector that takes requests and never
// answers: all three signals wait at the same time, and then let go.
func TestShutdownHasOneLimitForAll(t *testing.T) {
	const flush = 400 * time.Millisecond
	paths := make(chan string, 3)
	cut := make(chan string, 3)
	dead := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		// Until the body is read, the server cannot see that the client went.
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			t.Errorf("read %s: %v", r.URL.Path, err)
		}
		paths <- r.URL.Path
		<-r.Context().Done()
		cut <- r.URL.Path
	}))
	defer dead.Close()
	defer dead.CloseClientConnections()
	oteltest.Setenv(t, "OTEL_EXPORTER_OTLP_ENDPOINT="+dead.URL)
	tel := start(t, &otel.Options{Flush: flush})
	report(t.Context(), t)

	ended, end := context.WithCancel(t.Context())
	end() // as the signal that stops a process does
	began := time.Now()
	err := tel.Shutdown(ended)
	took := time.Since(began)

	if took < flush || took >= 3*flush {
		t.Errorf("Shutdown took %v, want the limit of %v, not one for each signal", took, flush)
	}
	for _, want := range []string{"send the last traces", "send the last metrics", "send the last logs"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v does not say %q", err, want)
		}
	}
	for _, requests := range []chan string{paths, cut} {
		var got []string
		for range 3 {
			select {
			case path := <-requests:
				got = append(got, path)
			case <-time.After(5 * time.Second): // half of the exporters' own limit
			}
		}
		slices.Sort(got)
		if diff := cmp.Diff([]string{"/v1/logs", "/v1/metrics", "/v1/traces"}, got); diff != "" {
			t.Errorf("requests (-want +got):\n%s", diff)
		}
	}
	if err := tel.Shutdown(ended); err != nil {
		t.Errorf("second Shutdown = %v", err)
	}
}

// TestBurst ends more spans at once than the SDK's own queue takes.
func TestBurst(t *testing.T) {
	const n = 16_000
	for _, tt := range []struct {
		name, env string
		all       bool
	}{
		{"ours", "", true},
		{"asked for", "OTEL_BSP_MAX_QUEUE_SIZE=512", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := oteltest.NewSink(t)
			s.Hold.Lock() // no request is answered until the burst is over
			oteltest.Setenv(t, "OTEL_EXPORTER_OTLP_ENDPOINT="+s.URL, tt.env)
			tel := start(t, &otel.Options{Flush: time.Minute})
			for i := range n {
				_, span := otel.Tracer("worker").Start(t.Context(), strconv.Itoa(i), trace.WithNewRoot())
				span.End()
			}
			s.Hold.Unlock()
			shutdown(t, tel)
			if got := len(names(s)); (got == n) != tt.all {
				t.Errorf("%d of %d spans came", got, n)
			}
		})
	}
}
