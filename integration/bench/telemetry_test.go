//go:build bench

package bench

import (
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/toolfleet/toolfleet/otel"
	"github.com/toolfleet/toolfleet/otel/oteltest"
	"github.com/toolfleet/toolfleet/session"
)

// TestBenchTelemetryOff measures what a call does for telemetry that is off: what
// session and worker ask it, once for each time that they do, against the time of
// a call.
func TestBenchTelemetryOff(t *testing.T) {
	const rounds, calls = 12, 4000
	oteltest.Setenv(t)
	telemetry, err := otel.Start(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = telemetry.Shutdown(t.Context()) }() // nothing is to be sent
	u := startUp(t, stdioServers(t, 1))
	s := openSession(t, u.connect())
	awaitTools(t, s, 20)
	tracer, ctx := otel.Tracer("session"), t.Context()
	asked := func() {
		if otel.Records(tracer) || otel.Measuring() { // session.traced, worker.witness
			t.Error("telemetry is on")
		}
		of, span := otel.StartChild(ctx, "send", trace.SpanKindProducer) // session.sent
		_ = span.IsRecording()
		_, _ = otel.Inject(of)                               // what the message carries
		_ = trace.SpanContextFromContext(of)                 // worker.witness
		_ = otel.Extract(of, "", "")                         //
		_, _ = otel.Inject(of)                               // what _meta carries
		if otel.Records(tracer) || !(time.Time{}).IsZero() { // worker.end
			t.Error("telemetry is on")
		}
	}
	var share []float64
	for range rounds {
		const n = 2_000_000
		each := 1 / rate(n, func() {
			for range n {
				asked()
			}
		})
		call := 1 / throughput(16, calls, echo(t, s))
		share = append(share, each/call)
		t.Logf("%.1f ns of a call's %.1f µs", each*1e9, call*1e6)
	}
	mean, high := upper(share)
	verdict(t, high < 0.02, "telemetry off: %.4f %% of a call, at most %.4f %% (n = %d, 99 %%; below 2 %%)", 100*mean, 100*high, rounds)
}

// TestBenchTelemetryOn compares calls with a tenth of them traced, and everything
// measured, to calls without telemetry.
func TestBenchTelemetryOn(t *testing.T) {
	// Many short slices, so that what else the machine does falls on both alike.
	const rounds, calls = 160, 500
	var bytes atomic.Int64
	sink := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		n, _ := io.Copy(io.Discard, r.Body) // what does not come is not counted
		bytes.Add(n)
	}))
	defer sink.Close()

	oteltest.Setenv(t)
	off := startUp(t, stdioServers(t, 1))
	without := openSession(t, off.connect())
	awaitTools(t, without, 20)

	oteltest.Setenv(t, "OTEL_EXPORTER_OTLP_ENDPOINT="+sink.URL, "OTEL_TRACES_SAMPLER_ARG=0.1")
	telemetry, err := otel.Start(t.Context(), &otel.Options{Brief: true}) // as an agent's process has it
	if err != nil {
		t.Fatal(err)
	}
	on := startUp(t, stdioServers(t, 1))
	with := openSession(t, on.connect())
	awaitTools(t, with, 20)

	var traced, plain float64 // seconds
	a, b := echo(t, with), echo(t, without)
	throughput(16, 4000, a)
	throughput(16, 4000, b)
	for i := range rounds {
		if i%2 == 0 { // neither has the machine always after the other
			traced += calls / throughput(16, calls, a)
			plain += calls / throughput(16, calls, b)
		} else {
			plain += calls / throughput(16, calls, b)
			traced += calls / throughput(16, calls, a)
		}
	}
	t.Logf("16 callers: %.0f/s traced, %.0f/s not", rounds*calls/traced, rounds*calls/plain)
	if err := telemetry.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	if bytes.Load() == 0 {
		t.Error("nothing was sent")
	}
	share := plain / traced
	verdict(t, share >= 0.95, "telemetry on, a tenth of the calls traced: %.3f of the calls without (at least 0.95)", share)
}

func echo(t *testing.T, s *session.Session) func() {
	return func() {
		r, err := s.Call(t.Context(), "s0__echo_7", []byte(`{"text":"hello"}`), nil)
		if err != nil || r.IsError {
			t.Errorf("%v, %v", r, err)
		}
	}
}

// upper returns the mean, and what the true one is below with a certainty of 99 %
// (Student's t, for eleven degrees of freedom: one side).
func upper(x []float64) (mean, high float64) {
	for _, v := range x {
		mean += v / float64(len(x))
	}
	var squares float64
	for _, v := range x {
		squares += (v - mean) * (v - mean)
	}
	return mean, mean + 2.718*math.Sqrt(squares/float64(len(x)-1)/float64(len(x)))
}
