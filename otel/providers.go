package otel

import (
	"context"
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

// queueSize is how many ended spans wait for export. A fleet that starts or
// replays ends thousands at once, and the SDK drops what does not fit without a
// word: of 20,000 in a burst its own default of 2,048 lost more than half.
const queueSize = 65536

// signal is the name of traces, metrics or logs in environment variables.
type signal string

const (
	traces  signal = "TRACES"
	metrics signal = "METRICS"
	logs    signal = "LOGS"
)

// on reports whether the environment asks for the signal.
func (s signal) on() bool {
	// The SDK itself does not look at OTEL_SDK_DISABLED.
	if strings.EqualFold(os.Getenv("OTEL_SDK_DISABLED"), "true") {
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

func (s signal) exporter() string { return "OTEL_" + string(s) + "_EXPORTER" }

func (s signal) wrap(err error) error {
	return errors.Wrapf(err, "set up telemetry as %s and OTEL_EXPORTER_OTLP_… say", s.exporter())
}

type providers struct {
	traces  trace.TracerProvider
	metrics metric.MeterProvider
	logs    log.LoggerProvider
}

// providers returns the three providers, those that are off doing nothing. Those
// that are on are in t.stops, also when there is an error.
func (t *Telemetry) providers(ctx context.Context, o *Options) (providers, error) {
	p := providers{
		traces:  quietProvider{},
		metrics: noopmetric.NewMeterProvider(),
		logs:    nooplog.NewLoggerProvider(),
	}
	if !traces.on() && !metrics.on() && !logs.on() {
		return p, nil
	}
	res, err := newResource(ctx, o)
	if err != nil {
		return p, err
	}
	if traces.on() {
		e, err := autoexport.NewSpanExporter(ctx)
		if err != nil {
			return p, traces.wrap(err)
		}
		tp := newTracerProvider(e, res)
		p.traces = tp
		t.stops = append(t.stops, stopper{traces, tp, e})
	}
	if metrics.on() {
		r, err := autoexport.NewMetricReader(ctx)
		if err != nil {
			return p, metrics.wrap(err)
		}
		mp := sdkmetric.NewMeterProvider(sdkmetric.WithResource(res), sdkmetric.WithReader(r))
		p.metrics = mp
		t.stops = append(t.stops, stopper{metrics, mp, nil})
	}
	if logs.on() {
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

// newTracerProvider leaves the sampler to the SDK: OTEL_TRACES_SAMPLER, else
// every trace that begins here and no other than the parent's decision.
func newTracerProvider(e sdktrace.SpanExporter, res *resource.Resource) *sdktrace.TracerProvider {
	var batch []sdktrace.BatchSpanProcessorOption
	if os.Getenv("OTEL_BSP_MAX_QUEUE_SIZE") == "" {
		batch = append(batch, sdktrace.WithMaxQueueSize(queueSize))
	}
	return sdktrace.NewTracerProvider(sdktrace.WithResource(res), sdktrace.WithBatcher(e, batch...))
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
