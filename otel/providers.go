package otel

import (
	"context"
	"net/http"
	"os"
	"strings"

	"github.com/cockroachdb/errors"
	"go.opentelemetry.io/contrib/exporters/autoexport"
	"go.opentelemetry.io/otel/log"
	nooplog "go.opentelemetry.io/otel/log/noop"
	"go.opentelemetry.io/otel/metric"
	noopmetric "go.opentelemetry.io/otel/metric/noop"
	sdklog "go.opentelemetry.io/otel/sdk/log"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// signal is the name of traces, metrics or logs in environment variables.
type signal string

const (
	traces  signal = "TRACES"
	metrics signal = "METRICS"
	logs    signal = "LOGS"
)

// disabled says that nothing is to be on. The SDK itself does not look.
func disabled() bool { return strings.EqualFold(os.Getenv("OTEL_SDK_DISABLED"), "true") }

// on reports whether the environment asks for the signal.
func (s signal) on() bool {
	if disabled() {
		return false
	}
	switch os.Getenv(s.exporter()) {
	case "none":
		return false
	case "":
		return os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT") != "" ||
			os.Getenv("OTEL_EXPORTER_OTLP_"+string(s)+"_ENDPOINT") != ""
	default:
		return true
	}
}

// on reports whether the process is to send the signal.
func (o *Options) on(s signal) bool {
	return s.on() && (!o.Brief || s == traces && os.Getenv(s.exporter()) != "console")
}

func (o *Options) any() bool { return o.on(traces) || o.on(metrics) || o.on(logs) }

func (s signal) exporter() string { return "OTEL_" + string(s) + "_EXPORTER" }

func (s signal) wrap(err error) error {
	return errors.Wrapf(err, "set up telemetry as %s and OTEL_EXPORTER_OTLP_… say", s.exporter())
}

type providers struct {
	traces  trace.TracerProvider
	metrics metric.MeterProvider
	logs    log.LoggerProvider
	scrapes *http.Handler // nil if there are no metrics at all
}

// providers returns the three providers, those that are off doing nothing. Those
// that have something to send are in t.stops, also when there is an error.
func (t *Telemetry) providers(ctx context.Context, o *Options) (providers, error) {
	p := providers{
		traces:  quietProvider{},
		metrics: noopmetric.NewMeterProvider(),
		logs:    nooplog.NewLoggerProvider(),
	}
	if disabled() || o.Brief && !o.any() {
		return p, nil
	}
	res, err := newResource(ctx, o)
	switch {
	case err == nil:
	case o.any():
		return p, err
	default:
		res = resource.Empty() // nobody asked for anything, so nothing was said wrongly
	}
	var q *queue
	if o.on(traces) {
		if q, err = t.traces(ctx, res, &p); err != nil {
			return p, traces.wrap(err)
		}
	}
	if err := t.metrics(ctx, res, q, &p, o.on(metrics)); err != nil {
		return p, metrics.wrap(err)
	}
	if o.on(logs) {
		e, err := autoexport.NewLogExporter(ctx)
		if err != nil {
			return p, logs.wrap(err)
		}
		lp := sdklog.NewLoggerProvider(sdklog.WithResource(res), sdklog.WithProcessor(sdklog.NewBatchProcessor(e)))
		p.logs = lp
		t.stops = append(t.stops, stopper{logs, lp, e})
	}
	return p, nil
}

// traces leaves the sampler to the SDK where OTEL_TRACES_SAMPLER names one.
func (t *Telemetry) traces(ctx context.Context, res *resource.Resource, p *providers) (*queue, error) {
	e, err := autoexport.NewSpanExporter(ctx)
	if err != nil {
		return nil, err
	}
	q := newQueue(e)
	options := []sdktrace.TracerProviderOption{
		sdktrace.WithResource(res), sdktrace.WithSpanProcessor(q), sdktrace.WithIDGenerator(ids{}),
	}
	own := os.Getenv("OTEL_TRACES_SAMPLER") == ""
	if own {
		s, err := newSampler()
		if err != nil {
			return nil, errors.CombineErrors(err, q.Shutdown(ctx))
		}
		options = append(options, sdktrace.WithSampler(s))
	}
	tp := sdktrace.NewTracerProvider(options...)
	p.traces = tp
	if own {
		p.traces = following{TracerProvider: tp}
	}
	t.stops = append(t.stops, stopper{traces, tp, e})
	return q, nil
}

// metrics are kept even if nothing sends them: they may be asked for.
func (t *Telemetry) metrics(ctx context.Context, res *resource.Resource, q *queue, p *providers, send bool) error {
	r, h, err := newScrapes()
	if err != nil {
		return err
	}
	options := []sdkmetric.Option{sdkmetric.WithResource(res), sdkmetric.WithReader(r)}
	if send {
		sender, err := autoexport.NewMetricReader(ctx)
		if err != nil {
			return err
		}
		options = append(options, sdkmetric.WithReader(sender))
	}
	mp := sdkmetric.NewMeterProvider(options...)
	p.metrics, p.scrapes = mp, &h
	if send {
		t.stops = append(t.stops, stopper{metrics, mp, nil})
	}
	if q == nil {
		return nil
	}
	_, err = mp.Meter(modulePath+"/otel").Int64ObservableCounter("toolfleet.telemetry.spans.dropped",
		metric.WithUnit("{span}"), metric.WithDescription("Ended spans for which the queue had no room."),
		metric.WithInt64Callback(func(_ context.Context, o metric.Int64Observer) error {
			o.Observe(q.dropped.Load())
			return nil
		}))
	return err
}

// stopper is one signal's provider and, where its end does not follow from the
// provider's, the exporter below it.
type stopper struct {
	signal   signal
	provider shutdowner
	exporter shutdowner
}

type shutdowner interface {
	Shutdown(ctx context.Context) error
}

func (s stopper) stop(ctx context.Context) error {
	err := s.provider.Shutdown(ctx)
	if ctx.Err() != nil && s.exporter != nil {
		// The provider went on sending in the background: end that too. Its error
		// would only repeat that the time is over.
		_ = s.exporter.Shutdown(ctx)
	}
	return errors.Wrapf(err, "send the last %s", strings.ToLower(string(s.signal)))
}
