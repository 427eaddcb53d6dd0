package otel

import (
	"context"
	"log/slog"
	"sync/atomic"

	"go.opentelemetry.io/contrib/bridges/otelslog"
	otelapi "go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/log"
	"go.opentelemetry.io/otel/trace"
)

// logging says that log records are exported.
var logging atomic.Bool

// Logging says whether log records are exported.
func Logging() bool { return logging.Load() }

// LogHandler returns a handler that gives to next, with the ids of the trace and
// span of the context if there are some, and that exports what it gives if an
// exporter for logs is on. It may be made before [Start].
func LogHandler(next slog.Handler) slog.Handler {
	return handler{next, otelslog.NewHandler(modulePath, otelslog.WithVersion(moduleVersion()))}
}

type handler struct{ next, bridge slog.Handler }

func (h handler) Enabled(ctx context.Context, l slog.Level) bool {
	return h.next.Enabled(ctx, l)
}

func (h handler) Handle(ctx context.Context, r slog.Record) error {
	if Logging() {
		_ = h.bridge.Handle(ctx, inWords(r)) // losses are told by the SDK
	}
	if c := trace.SpanContextFromContext(ctx); c.IsValid() {
		r = r.Clone()
		//nolint:sloglint // These are the names in the data model of logs.
		r.AddAttrs(slog.String("trace_id", c.TraceID().String()), slog.String("span_id", c.SpanID().String()))
	}
	return h.next.Handle(ctx, r)
}

// inWords returns the record with errors as the text that people read: what a
// value tells beyond that is not meant to leave the process.
func inWords(r slog.Record) slog.Record {
	n := slog.NewRecord(r.Time, r.Level, r.Message, r.PC)
	r.Attrs(func(a slog.Attr) bool {
		n.AddAttrs(word(a))
		return true
	})
	return n
}

func word(a slog.Attr) slog.Attr {
	if err, ok := a.Value.Any().(error); ok {
		a.Value = slog.StringValue(err.Error())
	}
	return a
}

func (h handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	words := make([]slog.Attr, len(attrs))
	for i, a := range attrs {
		words[i] = word(a)
	}
	return handler{h.next.WithAttrs(attrs), h.bridge.WithAttrs(words)}
}

func (h handler) WithGroup(name string) slog.Handler {
	return handler{h.next.WithGroup(name), h.bridge.WithGroup(name)}
}

// Severity of an [Event].
type Severity = log.Severity

// The severities of what happens in a fleet.
const (
	Info  = log.SeverityInfo
	Warn  = log.SeverityWarn
	Error = log.SeverityError
)

// Emit exports a record of something that happened, under a name that is one of
// few, such as "toolfleet.server.failed", if an exporter for logs is on. The
// body is for people.
func Emit(ctx context.Context, pkg, name string, s Severity, body string, attributes ...attribute.KeyValue) {
	if !Logging() {
		return
	}
	var r log.Record
	r.SetEventName(name)
	r.SetSeverity(s)
	r.SetSeverityText(s.String())
	r.SetBody(attribute.StringValue(body))
	r.AddAttributes(attributes...)
	otelapi.Logger(modulePath+"/"+pkg, log.WithInstrumentationVersion(moduleVersion())).Emit(ctx, r)
}
