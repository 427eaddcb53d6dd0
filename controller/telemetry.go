package controller

import (
	"context"
	"crypto/sha256"
	"time"

	"github.com/cockroachdb/errors"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/toolfleet/toolfleet/controller/request"
	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/otel"
)

// told is what telemetry is told of by a controller.
type told struct {
	tracer    trace.Tracer
	converges otel.Seconds[conclusion]
	began     time.Time
}

func newTold() told {
	return told{
		tracer: otel.Tracer("controller"), began: time.Now(),
		converges: otel.NewSeconds(otel.Meter("controller"), "toolfleet.converge.duration",
			"How long it took until what was wished for ran.", otel.ConvergeBuckets,
			otel.NewSets(func(c conclusion) []attribute.KeyValue {
				return []attribute.KeyValue{otel.Outcome.String(string(c))}
			}, func(conclusion) conclusion { return nowFailed })),
	}
}

// answering makes the span of a request a server's, once: options are allocated.
var answering = []trace.SpanStartOption{trace.WithSpanKind(trace.SpanKindServer)}

// request begins the span of a request.
func (t *told) request(ctx context.Context, q *request.Request) (context.Context, trace.Span) {
	if !otel.Records(t.tracer) {
		return ctx, trace.SpanFromContext(ctx)
	}
	about := "fleet"
	if q.Server != "" {
		about = "mcp-server"
	}
	ctx, span := t.tracer.Start(ctx, string(q.Verb)+" "+about, answering...)
	if span.IsRecording() {
		span.SetAttributes(otel.CommandID.String(string(q.ID)))
		if id, err := events.ParseServerID(q.Server); err == nil {
			span.SetAttributes(otel.ServerName.String(string(id)))
		}
	}
	return ctx, span
}

// answered ends the span of a request. That it was refused is no fault of the
// controller's; that it could not be decided is.
func (t *told) answered(span trace.Span, a request.Answer, err error) {
	if !otel.Records(t.tracer) {
		return
	}
	if span.IsRecording() {
		var e *request.Error
		switch {
		case err == nil:
			span.SetAttributes(otel.EventSeq.Int64(int64(a.Seq)))
		case errors.As(err, &e):
			span.SetAttributes(otel.ErrorType.String(string(e.Code)))
			if e.Code == request.Unavailable || e.Code == request.HistoryFull {
				span.SetStatus(codes.Error, string(e.Code))
			}
		default:
			span.SetAttributes(otel.ErrorType.String(string(events.OtherFailure)))
			span.SetStatus(codes.Error, string(events.OtherFailure))
		}
	}
	span.End()
}

// converge tells of what came of wishes, if this controller leads.
func (c *controller) converge() {
	if len(c.convergences.ended) == 0 || !c.serving || !c.Leads() {
		return
	}
	for _, x := range c.convergences.take(time.Now()) {
		c.told.converged(&x)
	}
}

// apart is the context of what is told of the past: nobody's to end.
var apart = context.Background()

// converged makes a span of the time between two events. It is a child of the
// first, and has an id that is made from it: told twice, it is the same span.
func (t *told) converged(x *convergence) {
	ctx := otel.Extract(apart, x.wish.Trace.Parent, x.wish.Trace.State)
	if x.at.After(t.began) {
		t.converges.Measure(ctx, x.at.Sub(x.since), x.outcome)
	}
	if !otel.Records(t.tracer) || !trace.SpanContextFromContext(ctx).IsValid() {
		return
	}
	sum := sha256.Sum256([]byte("converge " + string(x.wish.ID)))
	options := []trace.SpanStartOption{trace.WithTimestamp(x.since), trace.WithAttributes(
		otel.ServerName.String(string(x.server)), otel.Generation.Int64(int64(x.wish.Seq)),
		otel.EventID.String(string(x.wish.ID)), otel.CommandID.String(string(x.wish.Correlation)),
		otel.Outcome.String(string(x.outcome)),
	)}
	if l, ok := otel.Link(otel.LinkReadyEvent, x.end.Parent, x.end.State); ok {
		options = append(options, trace.WithLinks(l))
	}
	_, span := t.tracer.Start(otel.WithSpanID(ctx, trace.SpanID(sum[:8])), otel.SpanConverge, options...)
	if x.code != "" {
		span.SetAttributes(otel.ErrorType.String(string(x.code)))
		span.SetStatus(codes.Error, string(x.code))
	}
	span.End(trace.WithTimestamp(x.at))
}
