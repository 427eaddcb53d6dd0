// Package otel starts and stops the telemetry of a toolfleet process, and
// carries trace context over NATS.
//
// # On and off
//
// Telemetry is off unless the environment names an exporter or an endpoint, for
// each signal by itself: traces are on if OTEL_TRACES_EXPORTER names an exporter
// other than "none", or if it is unset and OTEL_EXPORTER_OTLP_ENDPOINT or
// OTEL_EXPORTER_OTLP_TRACES_ENDPOINT is set; METRICS and LOGS likewise.
// OTEL_SDK_DISABLED=true turns everything off. What is off costs nothing: no
// goroutine, no socket, and no allocation for a span that has no options.
//
// Everything else is as the OpenTelemetry specification has it: the exporters'
// OTEL_EXPORTER_OTLP_… variables, OTEL_SERVICE_NAME, OTEL_RESOURCE_ATTRIBUTES,
// OTEL_TRACES_SAMPLER, OTEL_BSP_… and so on. The exporter "console" writes to
// standard output, so it is not for processes that speak a protocol there.
//
// Two defaults are our own. Of the traces that begin here all are sampled, except
// those of calls, of which OTEL_TRACES_SAMPLER_ARG is the share; OTEL_TRACES_SAMPLER
// replaces that. 16,384 ended spans wait for export (OTEL_BSP_MAX_QUEUE_SIZE), and
// those that do not fit are counted as toolfleet.telemetry.spans.dropped and
// reported.
//
// Metrics can be had from [MetricsHandler] as well, without any variable.
//
// # Use
//
// A command calls [Start] once, and [Telemetry.Shutdown] as its last act:
// stop taking work, end the spans, close the bus, then Shutdown. All other
// packages ask for a [Tracer] or [Meter] where they begin to run (not in a
// package variable, which would belong to the first Start for ever) and take the
// types from go.opentelemetry.io/otel/trace and metric. In a file that needs the
// API's package otel too, import that one as otelapi.
//
// Attributes are built only if the span records (trace.Span.IsRecording), and
// names and options of spans only if the tracer does ([Records]). Spans and
// attributes have the names that are constants here.
//
// # What a trace is
//
// No span lasts as long as a connection, or begins in one process and ends in
// another. Traces are short, and joined by links and by the attributes that are
// constants here, [ServerName] and [ConnectionID] first of all:
//
//   - A wish: the request at the controller, the events and commands that it
//     causes ("send …"), the worker that takes one ("process …"), the attempt to
//     connect ([SpanConnect]) with the start of the process and the requests of
//     the handshake, and the events that it ends with. When what was wished for
//     runs, or does not, the controller that leads tells of the whole way as
//     [SpanConverge], from the times in the history: one that begins to lead tells
//     what ended in the last ten minutes, under the same id as its predecessor.
//   - A restart after a failure or the loss of a worker: [SpanReconnect], with
//     links to the failure ([LinkCause]), to the command ([LinkDesiredState]) and
//     to the last attempt ([LinkPrevious]).
//   - A loss: [SpanConnectionLost], linked to the connection's beginning.
//   - A stop that was asked for: [SpanDisconnect], which is no error.
//   - A call: the session's request, the message, the worker that takes it, and
//     the request that it makes, whose context the server gets in _meta.
//   - A history that is folded again: one span.
//
// An event is stored with the context of the span that made it, so the links of
// a span can be followed from the history as well, and the other way round.
//
// # Trace context
//
// Only W3C trace context is propagated: traceparent and tracestate. Baggage is
// not, because events are kept for ever and servers are other people's. A
// context that arrived is passed on even when telemetry is off.
package otel

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/errors"
	otelapi "go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// DefaultFlush is how long [Telemetry.Shutdown] may take.
const DefaultFlush = 2 * time.Second

// Options say who the process is. The environment has the last word.
type Options struct {
	// Service is the service.name, such as "toolfleet-worker". Default: "toolfleet".
	Service string
	// Version is the service.version. Default: that of the main module.
	Version string
	// Instance is the service.instance.id. Default: a new random UUID.
	Instance string
	// Flush is the time limit of Shutdown. Default: [DefaultFlush].
	Flush time.Duration
	// Brief says that the process is a command whose standard output is its answer,
	// and which may end soon: it sends traces only, and not to the exporter
	// "console". Where telemetry runs already, that stays as it is. Default: it is
	// not.
	Brief bool
	// Logger is told, at most once in ten seconds, that telemetry is being lost.
	// Default: nobody is told.
	Logger *slog.Logger
}

// Telemetry is what Start started.
type Telemetry struct {
	flush time.Duration
	whole bool // not that of a brief command
	stops []stopper
}

// running says that telemetry is on for as long as the process lives.
var running atomic.Bool

// Start turns on what the environment asks for and makes it the process's
// default. It connects to nothing: an unreachable endpoint is an error for
// Options.Logger later, never for the caller. An error means that a variable has
// a value that cannot be followed; nothing is left running then.
func Start(ctx context.Context, o *Options) (*Telemetry, error) {
	if o == nil {
		o = new(Options)
	}
	t := &Telemetry{flush: o.Flush}
	if o.Brief && running.Load() {
		return t, nil
	}
	if t.flush == 0 {
		t.flush = DefaultFlush
	}
	p, err := t.providers(ctx, o)
	if err != nil {
		return nil, errors.CombineErrors(err, t.Shutdown(ctx))
	}
	if o.any() {
		otelapi.SetErrorHandler(newErrorHandler(o.Logger))
	}
	measuring.Store(o.on(metrics))
	logging.Store(o.on(logs))
	scrapes.Store(p.scrapes)
	t.whole = !o.Brief
	running.Store(t.whole)
	otelapi.SetTextMapPropagator(propagation.TraceContext{})
	otelapi.SetTracerProvider(p.traces)
	otelapi.SetMeterProvider(p.metrics)
	otelapi.SetLoggerProvider(p.logs)
	return t, nil
}

// Shutdown sends what is left, all signals at once and within the one limit of
// Options.Flush, and stops. What could not be sent by then is given up, and the
// error says so. It goes by that limit alone, not by the end of ctx, so the
// context that a signal ended may be passed. Further calls do nothing.
func (t *Telemetry) Shutdown(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), t.flush)
	defer cancel()
	errs := make([]error, len(t.stops))
	var all sync.WaitGroup
	for i, s := range t.stops {
		all.Go(func() { errs[i] = s.stop(ctx) })
	}
	all.Wait()
	t.stops = nil
	if t.whole {
		running.Store(false)
	}
	return errors.Join(errs...)
}

// unset is the API's provider for as long as nobody has set one.
var unset = otelapi.GetTracerProvider()

// Tracer returns the process's tracer for a package of toolfleet, named by its
// path in the module, such as "events/jetlog". In a program that did not [Start]
// it is that of the provider that the program set before, if any.
func Tracer(pkg string) trace.Tracer {
	if otelapi.GetTracerProvider() == unset {
		return quietTracer{}
	}
	return otelapi.Tracer(modulePath+"/"+pkg, trace.WithInstrumentationVersion(moduleVersion()))
}

// Meter returns the process's meter for a package of toolfleet, as [Tracer] does.
func Meter(pkg string) metric.Meter {
	return otelapi.Meter(modulePath+"/"+pkg, metric.WithInstrumentationVersion(moduleVersion()))
}
