package session

import (
	"context"

	"github.com/cockroachdb/errors"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/events/callwire"
	"github.com/toolfleet/toolfleet/otel"
)

// The kinds of the spans of a call, made once: options are allocated.
var (
	asking = []trace.SpanStartOption{trace.WithSpanKind(trace.SpanKindClient)}
)

// traced runs a call as a span: the request that the agent makes of the server.
func (s *Session) traced(ctx context.Context, r *request, run func(context.Context) ([]byte, error)) ([]byte, error) {
	if !otel.Records(s.tracer) {
		return run(ctx)
	}
	ctx, span := s.tracer.Start(ctx, otel.RequestName(r.method, r.target), asking...)
	defer span.End()
	if !span.IsRecording() {
		return run(ctx)
	}
	span.SetAttributes(append(otel.Request(r.method, r.target), otel.ServerName.String(string(r.server)))...)
	data, err := run(ctx)
	if err != nil {
		fails(span, err)
	}
	return data, err
}

// sent sends a request over the bus as a span, with the span's context.
func (c *call) sent(ctx context.Context, subject string, r *callwire.Request, to owner) ([]byte, error) {
	ctx, span := otel.StartChild(ctx, "send "+otel.CallTemplate, trace.SpanKindProducer)
	r.Trace.Parent, r.Trace.State = otel.Inject(ctx)
	if !span.IsRecording() {
		return c.session.bus.Call(ctx, subject, r, c.options.heard)
	}
	span.SetAttributes(append(otel.Message("request", "send", otel.CallTemplate), otel.ServerName.String(string(c.server)),
		otel.Instance.String(string(to.instance)), otel.MessagingMessage.String(r.ID))...)
	data, err := c.session.bus.Call(ctx, subject, r, c.options.heard)
	if err != nil {
		fails(span, err)
	}
	span.End()
	return data, err
}

// fails notes an error of a call, by its code. Its text may quote the server.
func fails(span trace.Span, err error) {
	kind := string(events.OtherFailure)
	var w *callwire.Error
	var e *CallError
	switch {
	case errors.As(err, &e) && e.Failure.Code != "":
		kind = string(e.Failure.Code)
	case errors.As(err, &w) && w.Failure.Code != "":
		kind = string(w.Failure.Code)
	case errors.Is(err, context.DeadlineExceeded):
		kind = otel.Timeout
	case errors.Is(err, context.Canceled):
		kind = otel.Cancelled
	}
	span.SetAttributes(otel.ErrorType.String(kind))
	span.SetStatus(codes.Error, kind)
}
