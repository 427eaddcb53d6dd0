// Package telemetry tests what a fleet of real processes tells an OpenTelemetry
// back end.
package telemetry

import (
	"strings"
	"syscall"
	"testing"

	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/otel"
	"github.com/toolfleet/toolfleet/otel/oteltest"
	"github.com/toolfleet/toolfleet/session"
)

const (
	sendServer   = "send tf.evt.{fleet}.server.{server}"
	sendInstance = "send tf.evt.{fleet}.instance.{server}.{instance}"
	sendCommand  = "send " + otel.CommandTemplate
)

// wish is the trace that the command line is told of, and which everything that
// follows from it belongs to.
const (
	wishTrace = "4bf92f3577b34da6a3ce929d0e0e4736"
	wish      = "00-" + wishTrace + "-00f067aa0ba902b7-01"
	another   = "00-11111111111111111111111111111111-00f067aa0ba902b7-01"
)

// TestTraces follows one server from its declaration over a call, a crash and the
// restart to its stop.
func TestTraces(t *testing.T) {
	r := newRig(t)
	r.controller(t.TempDir())
	r.worker(t.TempDir())
	r.apply(wish, "weather", "0s")

	wished := r.event("weather", events.KindDeclared, 0)
	connecting := r.event("weather", events.KindConnecting, wished.Seq)
	listed := r.event("weather", events.KindToolsListed, connecting.Seq)
	r.convergence(&wished, &listed)
	r.call()
	failed := r.crash(&connecting, listed.Seq)
	stopped := r.stop("weather", failed.Seq)
	r.records(&wished, &failed, &stopped)
	r.metrics()
	r.words()
}

// convergence asserts T1: from the request to the tools of a real child.
func (r *rig) convergence(wished, listed *events.Record) {
	r.Helper()
	request := r.span("request", func(s *oteltest.Span) bool { return s.Name == "declare mcp-server" })
	if request.Kind != "server" || request.Trace != wishTrace || request.Parent != "00f067aa0ba902b7" {
		r.Errorf("the request is %+v", request)
	}
	r.same(&request, map[string]string{"toolfleet.server.name": "weather", "toolfleet.command.id": string(wished.Correlation)})

	declared := r.below(&request, sendServer, "producer")
	if declared.TraceParent() != wished.Trace.Parent {
		r.Errorf("the event was stored with %s, the span that made it is %s", wished.Trace.Parent, declared.TraceParent())
	}
	r.same(&declared, map[string]string{
		"toolfleet.event.id": string(wished.ID), "toolfleet.event.type": "declared", "toolfleet.event.seq": wished.Seq.String(),
		"messaging.system": "nats", "messaging.operation.name": "send",
		"messaging.destination.template": "tf.evt.{fleet}.server.{server}",
	})

	assigned := r.below(&declared, sendInstance, "producer")
	command := r.below(&assigned, sendCommand, "producer")
	r.same(&command, map[string]string{"toolfleet.worker.id": "w1", "toolfleet.server.generation": wished.Seq.String()})
	taken := r.below(&command, "process "+otel.CommandTemplate, "consumer")
	connect := r.below(&taken, otel.SpanConnect, "internal")
	r.same(&connect, map[string]string{
		"toolfleet.server.name": "weather", "toolfleet.instance": "0", "toolfleet.worker.id": "w1",
		"toolfleet.server.generation": wished.Seq.String(), "toolfleet.connection.attempt": "1",
		"toolfleet.connection.id": "weather/0/1.1", "mcp.protocol.version": "2025-11-25",
	})
	if len(taken.Links)+len(connect.Links) > 0 {
		r.Errorf("a child is not linked to its parent: %v, %v", taken.Links, connect.Links)
	}

	spawn := r.span("spawn", func(s *oteltest.Span) bool {
		return s.Parent == connect.ID && strings.HasPrefix(s.Name, otel.SpanSpawn)
	})
	if spawn.Kind != "internal" || spawn.Attributes["process.pid"] == "" {
		r.Errorf("the spawn is %+v", spawn)
	}
	r.below(&connect, "initialize", "client")
	list := r.below(&connect, "tools/list", "client")
	served := r.below(&list, "tools/list", "server")
	if served.Service != "mcp-test-server" {
		r.Errorf("the server's span is %+v", served)
	}
	if got := served.Attributes["test.otel"]; got != "OTEL_BSP_SCHEDULE_DELAY OTEL_EXPORTER_OTLP_TRACES_ENDPOINT" {
		r.Errorf("the child has the variables %s, which are not only its definition's", got)
	}
	sent := r.span("tools-listed", func(s *oteltest.Span) bool {
		return s.Parent == connect.ID && s.Attributes["toolfleet.event.type"] == "tools-listed"
	})
	if sent.TraceParent() != listed.Trace.Parent || sent.Kind != "producer" {
		r.Errorf("tools-listed was stored with %s, the span is %+v", listed.Trace.Parent, sent)
	}

	converge := r.below(&declared, otel.SpanConverge, "internal")
	r.same(&converge, map[string]string{"toolfleet.outcome": "ready", "toolfleet.server.name": "weather"})
	if link := r.link(&converge, otel.LinkReadyEvent); link.TraceParent() != listed.Trace.Parent {
		r.Errorf("converge is linked to %v, the server was ready with %s", link, listed.Trace.Parent)
	}
	if !converge.Start.Equal(wished.Time) || !converge.End.Equal(listed.Time) {
		r.Errorf("converge is from %v to %v, want %v to %v", converge.Start, converge.End, wished.Time, listed.Time)
	}
}

// call asserts T4: from a session through the bus and the worker into the server.
func (r *rig) call() {
	r.Helper()
	oteltest.Setenv(r.T, "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT="+r.sink.URL+"/v1/traces", "OTEL_BSP_SCHEDULE_DELAY=20")
	telemetry, err := otel.Start(r.Context(), &otel.Options{Service: "agent"})
	if err != nil {
		r.Fatal(err)
	}
	s, err := session.Open(r.Context(), r.log.Conn(), &session.Options{StartupWait: patience})
	if err != nil {
		r.Fatal(err)
	}
	defer s.Close()
	for _, tool := range []string{"echo", "refuse"} {
		if _, err := s.Call(r.Context(), "weather__"+tool, []byte(`{"text":"s3cret-argument"}`), nil); err != nil {
			r.Fatal(err)
		}
	}
	if _, err := s.Call(r.Context(), "weather__die", nil, nil); err == nil {
		r.Error("the call that ends the server has an answer")
	}
	if err := telemetry.Shutdown(r.Context()); err != nil {
		r.Error(err)
	}

	for tool, failure := range map[string]string{"echo": "", "refuse": otel.ToolError, "die": string(events.CallInterrupted)} {
		asked := r.span("call", func(s *oteltest.Span) bool { return s.Name == "tools/call "+tool && s.Parent == "" })
		r.same(&asked, map[string]string{
			"mcp.method.name": "tools/call", "gen_ai.tool.name": tool, "gen_ai.operation.name": "execute_tool",
			"toolfleet.server.name": "weather",
		})
		if asked.Kind != "client" || asked.Service != "agent" {
			r.Errorf("the call is %+v", asked)
		}
		sent := r.below(&asked, "send "+otel.CallTemplate, "producer")
		r.same(&sent, map[string]string{"messaging.operation.name": "request", "messaging.destination.template": otel.CallTemplate})
		taken := r.below(&sent, "process "+otel.CallTemplate, "consumer")
		r.same(&taken, map[string]string{
			"toolfleet.worker.id": "w1", "toolfleet.connection.id": "weather/0/1.1",
			"messaging.message.id": sent.Attributes["messaging.message.id"],
		})
		passed := r.below(&taken, "tools/call "+tool, "client")
		r.same(&passed, map[string]string{
			"mcp.method.name": "tools/call", "gen_ai.tool.name": tool, "network.transport": "pipe",
			"mcp.protocol.version": "2025-11-25", "toolfleet.server.name": "weather", "error.type": failure,
		})
		if passed.Failed != (failure != "") {
			r.Errorf("the status of %s is %v", tool, passed.Failed)
		}
		r.below(&passed, "tools/call "+tool, "server")
	}
}

// crash asserts T3 and T2: the loss, and the restart that is linked to it.
func (r *rig) crash(connecting *events.Record, after events.Seq) events.Record {
	r.Helper()
	failed := r.event("weather", events.KindFailed, after)
	lost := r.span("loss", func(s *oteltest.Span) bool { return s.Name == otel.SpanConnectionLost })
	if lost.Parent != "" || lost.Kind != "internal" || !lost.Failed || lost.Trace == wishTrace {
		r.Errorf("the loss is %+v", lost)
	}
	r.same(&lost, map[string]string{"process.exit.code": "3", "error.type": string(events.Exited), "toolfleet.connection.id": "weather/0/1.1"})
	if lost.Attributes["toolfleet.connection.uptime"] == "" {
		r.Errorf("the loss does not tell how long the connection lasted: %v", lost.Attributes)
	}
	if link := r.link(&lost, otel.LinkSession); link.TraceParent() != connecting.Trace.Parent {
		r.Errorf("the loss is linked to %v, the connection began with %s", link, connecting.Trace.Parent)
	}
	if told := r.below(&lost, sendInstance, "producer"); told.TraceParent() != failed.Trace.Parent &&
		told.Attributes["toolfleet.event.type"] == "failed" {
		r.Errorf("failed was stored with %s, the span is %s", failed.Trace.Parent, told.TraceParent())
	}

	again := r.event("weather", events.KindToolsListed, failed.Seq)
	restart := r.span("restart", func(s *oteltest.Span) bool { return s.Name == otel.SpanReconnect })
	if restart.Parent != "" || restart.Failed || restart.Trace == wishTrace || restart.Trace == lost.Trace {
		r.Errorf("the restart is %+v", restart)
	}
	r.same(&restart, map[string]string{
		"toolfleet.restart.reason": string(events.Exited), "toolfleet.connection.attempt": "2", "toolfleet.connection.id": "weather/0/1.2",
	})
	if restart.Attributes["toolfleet.backoff.delay"] == "" {
		r.Errorf("the restart does not tell how long it waited: %v", restart.Attributes)
	}
	r.linked(&restart, map[string]string{otel.LinkCause: failed.Trace.Parent, otel.LinkPrevious: connecting.Trace.Parent})
	command := r.span("command", func(s *oteltest.Span) bool { return s.Name == sendCommand })
	r.linked(&restart, map[string]string{otel.LinkDesiredState: command.TraceParent()})
	served := r.below(&restart, "tools/list", "client")
	r.below(&served, "tools/list", "server")
	if sent := r.span("tools-listed", func(s *oteltest.Span) bool {
		return s.Parent == restart.ID && s.Attributes["toolfleet.event.type"] == "tools-listed"
	}); sent.TraceParent() != again.Trace.Parent {
		r.Errorf("tools-listed was stored with %s, the span is %s", again.Trace.Parent, sent.TraceParent())
	}
	return failed
}

// stop asserts that a planned stop is no error.
func (r *rig) stop(id string, after events.Seq) events.Record {
	r.Helper()
	r.toolfleet(another, "stop", id)
	stopped := r.event(id, events.KindStopped, after)
	end := r.span("disconnect", func(s *oteltest.Span) bool { return s.Name == otel.SpanDisconnect })
	if end.Trace != another[3:35] {
		r.Errorf("the stop is %+v", end)
	}
	r.link(&end, otel.LinkSession)
	r.span("end of the stop", func(s *oteltest.Span) bool {
		return s.Name == otel.SpanConverge && s.Trace == end.Trace && s.Attributes["toolfleet.outcome"] == "ready"
	})
	for _, s := range r.sink.Spans() {
		if s.Trace == end.Trace && s.Failed {
			r.Errorf("a planned stop has an error: %+v", s)
		}
	}
	return stopped
}

// TestKilledWorker kills a worker: what it ran is reconnected by its successor,
// in a trace of its own with links to what the history has.
func TestKilledWorker(t *testing.T) {
	r := newRig(t)
	r.controller(t.TempDir())
	data := t.TempDir()
	w := r.worker(data)
	r.apply(wish, "weather", "0s")
	connecting := r.event("weather", events.KindConnecting, 0)
	listed := r.event("weather", events.KindToolsListed, connecting.Seq)
	w.stop(r, syscall.SIGKILL)
	r.worker(data)

	lost := r.event("weather", events.KindLost, listed.Seq)
	assigned := r.event("weather", events.KindAssigned, lost.Seq)
	restart := r.span("restart", func(s *oteltest.Span) bool { return s.Name == otel.SpanReconnect })
	r.same(&restart, map[string]string{
		"toolfleet.restart.reason": string(events.LeaseLost), "toolfleet.connection.id": "weather/0/2.1",
	})
	command := r.span("command", func(s *oteltest.Span) bool {
		return s.Name == sendCommand && "00-"+s.Trace+"-"+s.Parent+"-01" == assigned.Trace.Parent
	})
	r.linked(&restart, map[string]string{
		otel.LinkCause: lost.Trace.Parent, otel.LinkPrevious: connecting.Trace.Parent, otel.LinkDesiredState: command.TraceParent(),
	})
	if restart.Parent != "" || restart.Trace == wishTrace || command.Trace == wishTrace {
		t.Errorf("what followed the loss is in the trace of the wish: %+v, %+v", restart, command)
	}
}

// TestControllerRestarted kills the controller while a server starts: the next one
// tells of the convergence, once and from its true beginning.
func TestControllerRestarted(t *testing.T) {
	r := newRig(t)
	data := t.TempDir()
	c := r.controller(data)
	r.worker(t.TempDir())
	r.apply(wish, "weather", "2s", "--no-wait")
	wished := r.event("weather", events.KindDeclared, 0)
	r.event("weather", events.KindConnecting, 0)
	c.stop(r, syscall.SIGKILL)
	listed := r.event("weather", events.KindToolsListed, 0)
	c = r.controller(data)

	is := func(s *oteltest.Span) bool { return s.Name == otel.SpanConverge && s.Trace == wishTrace }
	converge := r.span("convergence", is)
	c.stop(r, syscall.SIGTERM) // everything is sent
	n := 0
	for _, s := range r.sink.Spans() {
		if is(&s) {
			n++
		}
	}
	if n != 1 {
		t.Errorf("%d spans tell of the convergence", n)
	}
	if !converge.Start.Equal(wished.Time) || !converge.End.Equal(listed.Time) || "00-"+wishTrace+"-"+converge.Parent+"-01" != wished.Trace.Parent {
		t.Errorf("converge is %+v; the wish is of %v, with %s, and was fulfilled at %v", converge, wished.Time, wished.Trace.Parent, listed.Time)
	}
	if l := r.link(&converge, otel.LinkReadyEvent); l.TraceParent() != listed.Trace.Parent {
		t.Errorf("converge is linked to %v, the server was ready with %s", l, listed.Trace.Parent)
	}
}
