package worker

import (
	"context"
	"strconv"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/otel"
)

// apart is the context of what is told of an instance: no trace, and nobody's to
// end.
var apart = context.Background()

// story tells telemetry of an instance's life. No span of it lasts as long as a
// connection: an attempt to connect is one until its tools are listed, the end of
// a connection is another, and links lead from one to the other. Those to what
// was before, also under other owners, are made of what the chain has.
//
// It belongs to the goroutine of its instance.
type story struct {
	tracer    trace.Tracer
	meters    *meters
	who       []attribute.KeyValue
	name      string // of the instance, for ids of connections
	transport string

	// wish is the command that was taken last, and command the context in which it
	// was. taking says that it is being taken, alone that it is the first one.
	wish          *events.Command
	command       trace.SpanContext
	taking, alone bool

	// attempt is the span of the one under way, stop that of what is being closed;
	// nil if there is none.
	attempt, stop trace.Span
	// causeless says that the attempt began before the failure was stored that led
	// to it.
	causeless bool
	// now is what events belong to.
	now trace.SpanContext
	// began is when the attempt did, ready since when its tools are listed.
	began, ready time.Time

	broke breakage
	tried events.Trace
	delay time.Duration
}

// newStory goes on where the chain ends.
func newStory(h *host, a events.Address, f *history) story {
	s := story{tracer: h.options.Tracer, meters: &h.meters, broke: f.broke, tried: f.tried}
	s.name = string(a.Server) + "/" + string(a.Instance)
	s.who = []attribute.KeyValue{
		otel.ServerName.String(string(a.Server)), otel.Instance.String(string(a.Instance)), otel.WorkerID.String(string(a.Worker)),
	}
	return s
}

// connectionID names an attempt and what comes of it: see [otel.ConnectionID].
func connectionID(instance string, r Ref) string {
	return instance + "/" + r.Epoch.String() + "." + strconv.Itoa(r.Attempt)
}

// take begins the span in which a command is taken, and returns what ends it.
func (s *story) take(ctx context.Context, c *events.Command) func() {
	s.alone, s.wish, s.taking = s.wish == nil, c, true
	if c.Definition != nil {
		s.transport = transportOf(c.Definition)
	}
	ctx = otel.Extract(ctx, c.Trace.Parent, c.Trace.State)
	s.command = trace.SpanContextFromContext(ctx)
	if !otel.Records(s.tracer) {
		return func() { s.taking = false }
	}
	_, span := s.tracer.Start(ctx, "process "+otel.CommandTemplate, processing...)
	if span.IsRecording() {
		span.SetAttributes(otel.Message("process", "process", otel.CommandTemplate)...)
		span.SetAttributes(otel.Generation.Int64(int64(c.Generation)))
		span.SetAttributes(s.who...)
	}
	s.command = span.SpanContext()
	return func() {
		s.taking = false
		span.End()
	}
}

// tell takes what is about to be written, and returns the trace that it belongs
// to.
func (s *story) tell(e *Append, at time.Time) events.Trace {
	switch b := e.Body.(type) {
	case events.Connecting:
		s.begins(e.Ref, at)
	case events.Failed:
		s.fails(e.Ref, at, b.Failure.Code, b.Exit)
	case events.AuthRequired:
		s.fails(e.Ref, at, events.AuthenticationNeeded, nil)
	case events.Parked:
		if !s.began.IsZero() { // a probe, of whose failure there is no event of its own
			was := s.broke
			s.fails(e.Ref, at, b.Failure.Code, nil)
			s.broke = was
		}
	case events.RestartScheduled:
		s.delay = b.Delay()
	case events.Stopping:
		s.stops(e.Ref, at)
	case events.HasStopped:
		if s.stop == nil && s.taking {
			s.now = s.command
		}
	case events.ToolsListed, events.ResourcesListed, events.PromptsListed, events.Degraded, events.Recovered:
		if s.attempt == nil {
			s.changes(e, at)
		}
	default:
	}
	if !otel.Records(s.tracer) {
		if s.wish == nil {
			return events.Trace{}
		}
		return s.wish.Trace
	}
	var t events.Trace
	t.Parent, t.State = otel.Inject(trace.ContextWithSpanContext(apart, s.now))
	return t
}

// wrote takes an event as it is stored.
func (s *story) wrote(e *events.Event) {
	switch b := e.Body.(type) {
	case events.Connecting:
		s.tried = e.Trace
	case events.Failed:
		if b.Failure.Code != events.StopHung {
			s.caused(b.Failure.Code, e.Trace)
		}
	case events.AuthRequired:
		s.caused(events.AuthenticationNeeded, e.Trace)
	case events.ToolsListed:
		if !s.began.IsZero() {
			s.works(e.Time)
		}
	case events.HasStopped:
		s.stopped()
	default:
	}
}

// caused takes where a failure was told.
func (s *story) caused(code events.Code, t events.Trace) {
	s.broke = breakage{code, t}
	if l, ok := otel.Link(otel.LinkCause, t.Parent, t.State); ok && s.causeless {
		s.attempt.AddLink(l)
	}
	s.causeless = false
}

// begins begins the span of an attempt. One that a command led to belongs to the
// command's trace; one after a failure, or under a new owner because the last one
// was lost, begins a trace of its own.
func (s *story) begins(r Ref, at time.Time) {
	s.ends(nil)
	s.stopped()
	s.began, s.ready = at, time.Time{}
	again := s.broke.code != "" && (!s.taking || s.alone)
	if again {
		s.meters.restarts.Add(apart, 1, s.broke.code)
	}
	if !otel.Records(s.tracer) {
		return
	}
	all := append(s.of(r), otel.Generation.Int64(int64(r.Generation)))
	ctx, name := trace.ContextWithRemoteSpanContext(apart, s.command), otel.SpanConnect
	options := make([]trace.SpanStartOption, 0, 3)
	if again {
		ctx, name = apart, otel.SpanReconnect
		all = append(all, otel.RestartReason.String(string(s.broke.code)), otel.BackoffDelay.Float64(s.delay.Seconds()))
		options = append(options, links(
			past{otel.LinkCause, s.broke.trace}, past{otel.LinkDesiredState, s.wish.Trace}, past{otel.LinkPrevious, s.tried}))
	}
	options = append(options, trace.WithTimestamp(at), trace.WithAttributes(all...))
	_, s.attempt = s.tracer.Start(ctx, name, options...) //nolint:spancheck // By works, fails, stops or close.
	s.now = s.attempt.SpanContext()
	s.causeless = again && s.broke.trace.Parent == ""
}

// works ends the span of an attempt that came to a list of tools.
func (s *story) works(at time.Time) {
	s.meters.connects.Measure(apart, at.Sub(s.began), linkKey{transport: s.transport})
	s.began, s.ready = time.Time{}, at
	s.broke, s.delay = breakage{}, 0
	if s.attempt != nil {
		s.attempt.End()
		s.attempt, s.causeless = nil, false
	}
}

// fails ends the span of an attempt, or tells of the loss of a connection.
func (s *story) fails(r Ref, at time.Time, code events.Code, exit *int) {
	if s.stop != nil { // what is told is that it does not stop
		return
	}
	up := s.up(at, code)
	s.broke = breakage{code: code} // where it is told is known when it is stored
	if !s.began.IsZero() {
		s.meters.connects.Measure(apart, at.Sub(s.began), linkKey{s.transport, code})
		s.began = time.Time{}
	}
	switch {
	case s.attempt != nil:
		s.ends(&code)
	case otel.Records(s.tracer):
		all := append(s.of(r), otel.ConnectionUptime.Float64(up.Seconds()), otel.ErrorType.String(string(code)))
		if exit != nil {
			all = append(all, otel.ProcessExit.Int(*exit))
		}
		span := s.root(otel.SpanConnectionLost, at, all)
		span.SetStatus(codes.Error, string(code))
		span.End()
		s.now = span.SpanContext()
	}
}

// ends ends the span of an attempt: with an error, or because something else is
// wanted.
func (s *story) ends(code *events.Code) {
	switch {
	case s.attempt == nil:
		return
	case code != nil:
		s.attempt.SetAttributes(otel.ErrorType.String(string(*code)))
		s.attempt.SetStatus(codes.Error, string(*code))
	default:
		s.attempt.SetAttributes(otel.Outcome.String("superseded"))
	}
	s.attempt.End()
	s.attempt, s.causeless = nil, false
}

// stops begins the span of an end that was asked for. Status stays unset.
func (s *story) stops(r Ref, at time.Time) {
	s.ends(nil)
	s.began = time.Time{}
	s.up(at, "")
	if !otel.Records(s.tracer) {
		return
	}
	if s.taking {
		of := trace.ContextWithRemoteSpanContext(apart, s.command)
		_, s.stop = s.tracer.Start(of, otel.SpanDisconnect, //nolint:spancheck // By stopped.
			trace.WithTimestamp(at), trace.WithAttributes(s.of(r)...), links(past{otel.LinkSession, s.tried}))
	} else {
		s.stop = s.root(otel.SpanDisconnect, at, s.of(r))
	}
	s.now = s.stop.SpanContext()
}

func (s *story) stopped() {
	if s.stop != nil {
		s.stop.End()
		s.stop = nil
	}
}

// changes tells of a change in the life of a connection.
func (s *story) changes(e *Append, at time.Time) {
	if !otel.Records(s.tracer) {
		return
	}
	span := s.root(otel.SpanChange, at, append(s.of(e.Ref), otel.EventType.String(string(events.KindOf(e.Body)))))
	span.End()
	s.now = span.SpanContext()
}

// close ends what was not ended: the instance has another owner, or the log
// takes nothing any more.
func (s *story) close() {
	s.ends(nil)
	s.stopped()
}

// up returns how long the connection lasted, and measures that.
func (s *story) up(at time.Time, code events.Code) time.Duration {
	if s.ready.IsZero() {
		return 0
	}
	d := max(0, at.Sub(s.ready))
	s.ready = time.Time{}
	s.meters.sessions.Measure(apart, d, linkKey{s.transport, code})
	return d
}

// root begins a trace that is linked to the connection's beginning.
func (s *story) root(name string, at time.Time, all []attribute.KeyValue) trace.Span {
	_, span := s.tracer.Start(apart, name, //nolint:spancheck // Who asked for it ends it.
		trace.WithTimestamp(at), trace.WithAttributes(all...), links(past{otel.LinkSession, s.tried}))
	return span //nolint:spancheck // As above.
}

// of returns the attributes of an attempt's spans.
func (s *story) of(r Ref) []attribute.KeyValue {
	all := make([]attribute.KeyValue, 0, len(s.who)+8)
	all = append(all, s.who...)
	return append(all, otel.ConnectionID.String(connectionID(s.name, r)), otel.ConnectionAttempt.Int(r.Attempt))
}

// past is something that a span is linked to.
type past struct {
	kind  string
	trace events.Trace
}

func links(to ...past) trace.SpanStartOption {
	var all []trace.Link
	for _, p := range to {
		if l, ok := otel.Link(p.kind, p.trace.Parent, p.trace.State); ok {
			all = append(all, l)
		}
	}
	return trace.WithLinks(all...)
}
