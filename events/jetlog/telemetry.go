package jetlog

import (
	"cmp"
	"context"
	"strconv"
	"strings"

	"github.com/cockroachdb/errors"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/otel"
)

// told is what telemetry is told of: each event that is stored is a span, a
// record under the event's name, and one in a count; each command is a span.
type told struct {
	tracer    trace.Tracer
	worker    string // who writes, if it is a worker
	published otel.Count[events.Kind]
	sent      otel.Count[string]
}

// sending makes a span a message's. It is made once: options are allocated.
var sending = []trace.SpanStartOption{trace.WithSpanKind(trace.SpanKindProducer)}

func newTold(writer string) *told {
	worker, ok := strings.CutPrefix(writer, "worker/")
	if !ok {
		worker = ""
	}
	m := otel.Meter("events/jetlog")
	return &told{
		tracer: otel.Tracer("events/jetlog"), worker: worker,
		published: otel.NewCount(m, "toolfleet.events.published", "{event}", "Events that were stored.", otel.NewSets(
			func(k events.Kind) []attribute.KeyValue {
				return []attribute.KeyValue{otel.EventType.String(string(k))}
			},
			func(events.Kind) events.Kind { return "" })),
		sent: otel.NewCount(m, "messaging.client.sent.messages", "{message}", "Messages that a stream acknowledged.", otel.NewSets(
			func(template string) []attribute.KeyValue { return otel.Message("send", "send", template) },
			func(string) string { return "" })),
	}
}

// listens says whether anybody wants to know.
func (t *told) listens() bool { return otel.Records(t.tracer) || otel.Measuring() || otel.Logging() }

// append appends an event and tells of it. The event's trace, or else the
// context's, is the parent of the span; the event is stored with the span's own.
func (t *told) append(ctx context.Context, e events.Event, tip events.Tip, do func(context.Context, events.Event, events.Tip) (events.Record, error)) (events.Record, error) {
	template := eventTemplate(e.Chain.Kind())
	var span trace.Span = noop.Span{}
	if otel.Records(t.tracer) {
		ctx, span = t.tracer.Start(otel.Extract(ctx, e.Trace.Parent, e.Trace.State), "send "+template, sending...)
		e.Trace = traceOf(ctx)
	}
	r, err := do(ctx, e, tip)
	if err == nil {
		t.published.Add(ctx, 1, r.Kind())
		t.sent.Add(ctx, 1, template)
	}
	if err == nil && otel.Logging() {
		otel.Emit(ctx, "events/jetlog", eventName(&r), severity(r.Body), eventText(&r), t.identity(&r)...)
	}
	if span.IsRecording() {
		if err == nil {
			span.SetAttributes(t.identity(&r)...)
		} else {
			span.SetAttributes(otel.ServerName.String(string(e.Chain.Server())), otel.EventType.String(string(e.Kind())))
		}
		span.SetAttributes(otel.Message("send", "send", template)...)
		fails(span, err)
	}
	span.End()
	return r, err
}

// order begins the span of a command, and puts its context into the trace that
// the command is sent with.
func (t *told) order(ctx context.Context, a events.Address, c *events.Command, in *events.Trace) trace.Span {
	if !otel.Records(t.tracer) {
		return noop.Span{}
	}
	ctx, span := t.tracer.Start(otel.Extract(ctx, in.Parent, in.State), "send "+otel.CommandTemplate, sending...)
	if span.IsRecording() {
		span.SetAttributes(otel.Message("send", "send", otel.CommandTemplate)...)
		span.SetAttributes(
			otel.ServerName.String(string(a.Server)), otel.Instance.String(string(a.Instance)), otel.WorkerID.String(string(a.Worker)),
			otel.Generation.Int64(int64(c.Generation)),
		)
	}
	*in = traceOf(ctx)
	return span
}

// ordered ends the span of a command.
func (t *told) ordered(ctx context.Context, span trace.Span, err error) {
	if err == nil {
		t.sent.Add(ctx, 1, otel.CommandTemplate)
	}
	fails(span, err)
	span.End()
}

// fails notes an error. That somebody else was first is none: it is decided
// again.
func fails(span trace.Span, err error) {
	if err == nil || errors.Is(err, events.ErrConflict) || !span.IsRecording() {
		return
	}
	kind := string(events.OtherFailure)
	switch {
	case errors.Is(err, events.ErrHistoryFull):
		kind = string(events.HistoryFull)
	case errors.Is(err, events.ErrTooLarge):
		kind = string(events.FrameTooLarge)
	case errors.Is(err, events.ErrHistoryRegressed):
		kind = string(events.HistoryRegressed)
	case errors.Is(err, context.DeadlineExceeded):
		kind = otel.Timeout
	case errors.Is(err, context.Canceled):
		kind = otel.Cancelled
	}
	span.SetAttributes(otel.ErrorType.String(kind))
	span.SetStatus(codes.Error, kind)
}

func eventTemplate(k events.ChainKind) string {
	switch k {
	case events.OfServer:
		return "tf.evt.{fleet}.server.{server}"
	case events.OfInstance:
		return "tf.evt.{fleet}.instance.{server}.{instance}"
	case events.OfWorker:
		return "tf.evt.{fleet}.worker.{worker}"
	default:
		return "tf.evt.{fleet}.fleet"
	}
}

// identity is what finds the event, and everything else about the same server,
// connection or worker.
func (t *told) identity(r *events.Record) []attribute.KeyValue {
	all := make([]attribute.KeyValue, 0, 10)
	all = append(all, otel.EventID.String(string(r.ID)), otel.EventType.String(string(r.Kind())), otel.EventSeq.Int64(int64(r.Seq)))
	text := func(key attribute.Key, value string) {
		if value != "" {
			all = append(all, key.String(value))
		}
	}
	server, instance, worker := r.Chain.Server(), r.Chain.Instance(), string(r.Chain.Worker())
	text(otel.ServerName, string(server))
	text(otel.Instance, string(instance))
	text(otel.CommandID, string(r.Correlation))
	if r.Attempt > 0 {
		all = append(all, otel.ConnectionAttempt.Int(r.Attempt),
			otel.ConnectionID.String(string(server)+"/"+string(instance)+"/"+r.Epoch.String()+"."+strconv.Itoa(r.Attempt)))
	}
	switch b := r.Body.(type) {
	case events.Assigned:
		worker = string(b.Worker)
	case events.Lost:
		worker = string(b.Worker)
	case events.Connecting:
		all = append(all, otel.Generation.Int64(int64(b.Generation)))
	default:
	}
	text(otel.WorkerID, cmp.Or(worker, t.worker))
	if f := failureOf(r.Body); f != nil {
		text(otel.ErrorType, string(f.Code))
	}
	return all
}

func failureOf(b events.Body) *events.Failure {
	switch b := b.(type) {
	case events.Failed:
		return &b.Failure
	case events.Parked:
		return &b.Failure
	case events.Degraded:
		return &b.Failure
	case events.UpdateRolledBack:
		return &b.Failure
	default:
		return nil
	}
}

// eventName names the record of an event, such as toolfleet.server.tools_listed.
func eventName(r *events.Record) string {
	of := "server"
	switch r.Chain.Kind() {
	case events.OfWorker:
		of = "worker"
	case events.OfFleet:
		of = "fleet"
	default:
	}
	return "toolfleet." + of + "." + strings.ReplaceAll(string(r.Kind()), "-", "_")
}

func severity(b events.Body) otel.Severity {
	switch b.(type) {
	case events.Parked:
		return otel.Error
	case events.Failed, events.Degraded, events.Lost, events.Rejected, events.AuthRequired, events.UpdateRolledBack, events.SourceFailed:
		return otel.Warn
	default:
		return otel.Info
	}
}

// eventText is the event in a few words, none of them a server's own.
func eventText(r *events.Record) string {
	text := r.Chain.String() + ": " + string(r.Kind())
	if f := failureOf(r.Body); f != nil {
		text += " (" + string(f.Code) + ")"
	}
	return text
}
