package worker

import (
	"context"
	"fmt"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/events/callwire"
	"github.com/toolfleet/toolfleet/otel"
	"github.com/toolfleet/toolfleet/otel/oteltest"
)

// teller is a story in a test, with what came of it.
type teller struct {
	*testing.T
	story
	spans *tracetest.SpanRecorder
	at    time.Time
}

func newTeller(t *testing.T, f *history) *teller {
	spans := tracetest.NewSpanRecorder()
	p := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans))
	h := &host{options: Options{ID: testWorker, Tracer: p.Tracer("worker")}}
	a := events.Address{Worker: testWorker, Server: "s", Instance: "0"}
	x := &teller{T: t, story: newStory(h, a, f), spans: spans, at: time.Unix(1000, 0)}
	t.Cleanup(func() {
		x.close()
		if n := len(spans.Started()) - len(spans.Ended()); n != 0 {
			t.Errorf("%d spans were not ended", n)
		}
	})
	return x
}

const cmdTrace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

// says tells of events in one step; each is stored at once, with the trace that it
// was given.
func (x *teller) says(attempt int, bodies ...events.Body) (stored []events.Trace) {
	for _, b := range bodies {
		x.at = x.at.Add(time.Second)
		t := x.tell(&Append{Ref: Ref{Epoch: 1, Generation: 7, Attempt: attempt}, Body: b}, x.at)
		x.wrote(&events.Event{Body: b, Trace: t, Time: x.at})
		stored = append(stored, t)
	}
	return stored
}

// commanded takes a command that leads to those events.
func (x *teller) commanded(attempt int, bodies ...events.Body) []events.Trace {
	defer x.take(x.Context(), &events.Command{Want: events.Running, Definition: &events.Definition{Command: "x"}, Trace: events.Trace{Parent: cmdTrace}})()
	return x.says(attempt, bodies...)
}

// ended returns the ended spans of that name.
func (x *teller) ended(name string) (all []sdktrace.ReadOnlySpan) {
	for _, s := range x.spans.Ended() {
		if s.Name() == name {
			all = append(all, s)
		}
	}
	return all
}

// kinds returns what the links of a span are for, and the contexts that they lead
// to.
func kinds(s sdktrace.ReadOnlySpan) (all []string) {
	for _, l := range s.Links() {
		all = append(all, l.Attributes[0].Value.AsString()+" "+l.SpanContext.SpanID().String())
	}
	slices.Sort(all)
	return all
}

func spanOf(t events.Trace) string { return t.Parent[36:52] }

func failed(code events.Code) events.Failed {
	return events.Failed{Failure: events.Failure{Code: code}}
}

// The first attempt of a command that fails, the restart that follows, the loss of
// what came of that, and a stop that somebody asked for.
func TestStory(t *testing.T) {
	x := newTeller(t, &history{})
	first := x.commanded(1, events.Connecting{Attempt: 1})
	x.says(1, failed(events.StartupCrash), events.RestartScheduled{DelayMs: 500})
	if s := x.ended(otel.SpanConnect); len(s) != 1 || s[0].Status().Code != codes.Error || s[0].SpanContext().TraceID().String() != cmdTrace[3:35] {
		t.Fatalf("the first attempt is %v", s)
	}
	x.says(2, events.Connecting{Attempt: 2}, events.Connected{}, events.ToolsListed{}, events.Restarted{})
	again := x.ended(otel.SpanReconnect)
	if len(again) != 1 || again[0].Parent().IsValid() || again[0].Status().Code == codes.Error {
		t.Fatalf("the restart is %v", again)
	}
	want := []string{"cause " + spanOf(first[0]), "desired-state 00f067aa0ba902b7", "previous-attempt " + spanOf(first[0])}
	if got := kinds(again[0]); !slices.Equal(got, want) {
		t.Errorf("its links are %v, want %v", got, want)
	}
	x.says(2, events.Degraded{})
	if s := x.ended(otel.SpanChange); len(s) != 1 || s[0].Parent().IsValid() || len(s[0].Links()) != 1 {
		t.Errorf("the change is %v", s)
	}
	x.says(2, failed(events.Exited), events.Connecting{Attempt: 3}, events.ToolsListed{})
	if s := x.ended(otel.SpanConnectionLost); len(s) != 1 || s[0].Parent().IsValid() || s[0].Status().Code != codes.Error {
		t.Errorf("the loss is %v", s)
	}
	x.commanded(3, events.Stopping{}, events.HasStopped{})
	stop := x.ended(otel.SpanDisconnect)
	if len(stop) != 1 || stop[0].Status().Code != codes.Unset || stop[0].SpanContext().TraceID().String() != cmdTrace[3:35] {
		t.Errorf("the stop is %v", stop)
	}
}

// A failure that is stored only after the next attempt has begun is linked to it
// all the same.
func TestStoryOfAHastyRestart(t *testing.T) {
	x := newTeller(t, &history{})
	x.commanded(1, events.Connecting{Attempt: 1}, events.ToolsListed{})
	f := failed(events.Exited)
	told := x.tell(&Append{Ref: Ref{Attempt: 1}, Body: f}, x.at)
	x.tell(&Append{Ref: Ref{Attempt: 2}, Body: events.Connecting{Attempt: 2}}, x.at)
	x.wrote(&events.Event{Body: f, Trace: told})
	x.says(2, events.ToolsListed{})
	if s := x.ended(otel.SpanReconnect); len(s) != 1 || !slices.Contains(kinds(s[0]), "cause "+spanOf(told)) {
		t.Errorf("the restart is %v", s)
	}
}

// A new owner goes on where the chain ends: after a loss it reconnects, after a
// hand-over it connects.
func TestStoryOfAnotherOwner(t *testing.T) {
	const tried, lost = "00-11111111111111111111111111111111-1111111111111111-01", "00-22222222222222222222222222222222-2222222222222222-01"
	x := newTeller(t, &history{broke: breakage{events.LeaseLost, events.Trace{Parent: lost}}, tried: events.Trace{Parent: tried}})
	x.commanded(1, events.Connecting{Attempt: 1}, events.ToolsListed{})
	want := []string{"cause 2222222222222222", "desired-state 00f067aa0ba902b7", "previous-attempt 1111111111111111"}
	if s := x.ended(otel.SpanReconnect); len(s) != 1 || !slices.Equal(kinds(s[0]), want) {
		t.Errorf("after a loss: %v", s)
	}
	x = newTeller(t, &history{tried: events.Trace{Parent: tried}})
	x.commanded(1, events.Connecting{Attempt: 1}, events.Stopping{}, events.HasStopped{})
	s := x.ended(otel.SpanConnect)
	if len(s) != 1 || s[0].Status().Code != codes.Unset || len(s[0].Links()) > 0 {
		t.Errorf("after a hand-over: %v", s)
	}
}

// What is asked for after a failure belongs to who asked.
func TestStoryOfACommandAfterAFailure(t *testing.T) {
	x := newTeller(t, &history{})
	x.commanded(1, events.Connecting{Attempt: 1})
	x.says(1, failed(events.StartupCrash), events.Parked{})
	x.commanded(2, events.Connecting{Attempt: 2})
	x.says(2, events.ToolsListed{})
	if a, b := x.ended(otel.SpanConnect), x.ended(otel.SpanReconnect); len(a) != 2 || len(b) != 0 {
		t.Errorf("%d connects and %d reconnects", len(a), len(b))
	}
}

// A fold knows what a successor has to link to.
func TestFoldKeepsWhatBroke(t *testing.T) {
	rec := func(b events.Body, trace string) *events.Record {
		return &events.Record{Event: events.Event{Body: b, Epoch: 1, Trace: events.Trace{Parent: trace}}}
	}
	var h history
	for _, x := range []struct {
		r    *events.Record
		want breakage
	}{
		{rec(events.Assigned{Epoch: 1}, "a"), breakage{}},
		{rec(events.Connecting{Attempt: 1}, "b"), breakage{}},
		{rec(failed(events.Exited), "c"), breakage{events.Exited, events.Trace{Parent: "c"}}},
		{rec(events.ToolsListed{}, "d"), breakage{}},
		{rec(events.AuthRequired{}, "e"), breakage{events.AuthenticationNeeded, events.Trace{Parent: "e"}}},
		{rec(events.Stopping{}, "f"), breakage{}},
		{rec(events.Lost{}, "g"), breakage{events.LeaseLost, events.Trace{Parent: "g"}}},
	} {
		h = h.evolve(x.r)
		if h.broke != x.want {
			t.Errorf("after %s: %v, want %v", x.r.Kind(), h.broke, x.want)
		}
	}
	if h.tried.Parent != "b" {
		t.Errorf("the last attempt was told with %q", h.tried.Parent)
	}
}

// testDesk is a desk whose calls are told of.
func testDesk() *desk {
	d := &desk{
		conn: &conn{hello: &hello{revision: "2025-11-25"}}, definition: &events.Definition{Command: "x"},
		host: &host{options: Options{Tracer: otel.Tracer("worker")}, meters: newMeters()},
	}
	return d
}

// With telemetry off, a call costs nothing of it.
func TestCallsAreNotTold(t *testing.T) {
	oteltest.Setenv(t)
	tel, err := otel.Start(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tel.Shutdown(t.Context()) }()
	d, x := testDesk(), &exchange{result: []byte(`{"content":[]}`)}
	r := &callwire.Request{ID: "1", Tool: "echo"}
	ctx := t.Context()
	if n := testing.AllocsPerRun(100, func() {
		of, w := d.witness(ctx, r)
		w.end(of, x, nil)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// 200 servers of 50 tools each stay below what the SDK counts apart.
func TestCardinality(t *testing.T) {
	oteltest.Setenv(t)
	tel, err := otel.Start(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tel.Shutdown(t.Context()) }()
	metrics := func() string {
		w := httptest.NewRecorder()
		otel.MetricsHandler().ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), "GET", "/metrics", nil))
		return w.Body.String()
	}
	metrics()
	d := testDesk()
	for server := range 200 {
		for tool := range 50 {
			for _, e := range []*callwire.Error{nil, {RPCCode: server}, {Failure: events.Failure{Code: events.CallTimeout}}} {
				ctx, w := d.witness(context.WithoutCancel(t.Context()), &callwire.Request{Tool: fmt.Sprintf("tool_%d_%d", server, tool)})
				w.end(ctx, &exchange{}, e)
			}
		}
	}
	got := metrics()
	n := strings.Count(got, "mcp_client_operation_duration_seconds_count{")
	if n < 100 || n >= 2000 || strings.Contains(got, "otel_metric_overflow") {
		t.Errorf("%d sets of attributes", n)
	}
	total := 0
	for line := range strings.Lines(got) {
		if strings.HasPrefix(line, "mcp_client_operation_duration_seconds_count{") {
			var n int
			if _, err := fmt.Sscan(line[strings.LastIndexByte(line, ' ')+1:], &n); err != nil {
				t.Fatal(err)
			}
			total += n
		}
	}
	if total != 30_000 {
		t.Errorf("%d calls were counted", total)
	}
}

func TestToolErrors(t *testing.T) {
	for result, want := range map[string]bool{
		`{"isError":true}`: true, `{"isError":false}`: false, `{"content":[{"text":"\"isError\":true"}]}`: false, `{"isError": true`: false, ``: false,
	} {
		if got := isToolError([]byte(result)); got != want {
			t.Errorf("%s: %v", result, got)
		}
	}
}
