package controller

import (
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	otelapi "go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/toolfleet/toolfleet/controller/request"
	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/otel"
	"github.com/toolfleet/toolfleet/otel/oteltest"
)

// A request is a span, and what it causes is below it. That one is refused is no
// fault.
func TestRequestsAreTraced(t *testing.T) {
	spans := tracetest.NewSpanRecorder()
	otelapi.SetTracerProvider(sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans)))
	defer otelapi.SetTracerProvider(noop.NewTracerProvider())
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		c := f.control("a", "folder-a")
		f.leading(0)
		const parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
		ctx := otel.Extract(t.Context(), parent, "")
		d := events.Definition{Command: "x"}
		if _, err := c.handle(ctx, &request.Request{Verb: request.Declare, Server: "s", Definition: &d, ID: "1"}); err != nil {
			t.Fatal(err)
		}
		if _, err := c.handle(ctx, &request.Request{Verb: request.Stop, Server: "nobody's", ID: "2"}); err == nil {
			t.Fatal("a server that is not there was stopped")
		}
		synctest.Wait()
		var granted, refused, caused sdktrace.ReadOnlySpan
		for _, s := range spans.Ended() {
			switch {
			case s.Name() == "declare mcp-server":
				granted = s
			case s.Name() == "stop mcp-server":
				refused = s
			case strings.HasPrefix(s.Name(), "send tf.evt.{fleet}.server"):
				caused = s
			}
		}
		if granted == nil || granted.SpanKind() != trace.SpanKindServer || granted.Parent().SpanID().String() != "00f067aa0ba902b7" {
			t.Fatalf("the request is %v", granted)
		}
		if caused == nil || caused.Parent().SpanID() != granted.SpanContext().SpanID() {
			t.Errorf("the event is %v", caused)
		}
		if refused == nil || refused.Status().Code != codes.Unset {
			t.Errorf("the refusal is %v", refused)
		}
		for _, kv := range refused.Attributes() {
			if strings.Contains(kv.Value.String(), "nobody") {
				t.Errorf("what is no id is an attribute: %v", kv)
			}
		}
	})
}

// What rules for alerts need is told when it is asked for, by the controller that
// leads.
func TestGauges(t *testing.T) {
	oteltest.Setenv(t)
	tel, err := otel.Start(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tel.Shutdown(t.Context()) }()
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		c := f.control("a", "folder-a")
		f.leading(0)
		f.declare(c, "s", placed("x", events.Placement{Labels: map[string]string{"zone": "nowhere"}}))
		f.declare(c, "off", events.Definition{Command: "x", Disabled: true})
		<-time.After(2 * tickEvery)
		scrape := func() string {
			w := httptest.NewRecorder()
			otel.MetricsHandler().ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), "GET", "/metrics", nil))
			return w.Body.String()
		}
		got := scrape()
		for _, want := range []string{
			"toolfleet_leader 1\n",
			`toolfleet_server_status{toolfleet_server_name="s",toolfleet_state="deferred"} 1`,
			`toolfleet_servers{toolfleet_state="deferred"} 1`, `toolfleet_servers{toolfleet_state="disabled"} 1`,
			`toolfleet_servers{toolfleet_state="parked"} 0`,
			`toolfleet_instances_waiting{toolfleet_server_name="s"} 1`,
			`toolfleet_tools{toolfleet_server_name="s"} 0`,
			`toolfleet_workers{toolfleet_state="joined"} 0`,
			`toolfleet_projection_lag{toolfleet_projection="controller"} 0`,
			`toolfleet_projection_lag_time_seconds{toolfleet_projection="controller"} 0`,
			"toolfleet_history_bytes ", "toolfleet_history_limit_bytes ", "toolfleet_history_events 3\n",
			"toolfleet_commands_pending 0\n",
		} {
			if !strings.Contains(got, want) {
				t.Errorf("no %s", want)
			}
		}
		if t.Failed() {
			t.Log(got)
		}
		c.stop()
		if got := scrape(); strings.Contains(got, "toolfleet_leader") {
			t.Errorf("a controller that is gone tells:\n%s", got)
		}
	})
}
