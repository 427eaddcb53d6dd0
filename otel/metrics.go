package otel

import (
	"context"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/errors"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	otelapi "go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	exporter "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/metric"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
)

// measuring says that somebody wants metrics.
var measuring atomic.Bool

// Measuring says whether anybody wants metrics: an exporter is on, or
// [MetricsHandler] was asked once. Until then what would be counted need not be
// worked out.
func Measuring() bool { return measuring.Load() }

// scrapes answers for the metrics of the process, once Start has made it.
var scrapes atomic.Pointer[http.Handler]

// MetricsHandler returns what answers GET /metrics, in the format of Prometheus.
// It needs no variable of the environment, but OTEL_SDK_DISABLED=true leaves it
// with nothing to say, as does a process that did not [Start]. Counters and
// histograms count from the first request on.
func MetricsHandler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := scrapes.Load()
		if h == nil {
			w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
			return
		}
		measuring.Store(true)
		(*h).ServeHTTP(w, r)
	})
}

// newScrapes returns a reader of metrics and the handler that it answers.
func newScrapes() (sdkmetric.Reader, http.Handler, error) {
	registry := prometheus.NewRegistry()
	e, err := exporter.New(exporter.WithRegisterer(registry), exporter.WithoutScopeInfo())
	if err != nil {
		return nil, nil, errors.Wrap(err, "set up metrics for Prometheus")
	}
	return e, promhttp.HandlerFor(registry, promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError}), nil
}

// maxSets bounds the sets of attributes of one instrument, below the 2,000 at
// which the SDK begins to throw them together. Names of tools are other people's.
const maxSets = 1000

// Sets are the attributes of an instrument's measurements, each set of which is
// made once.
type Sets[K comparable] struct {
	attributes func(K) []attribute.KeyValue
	rest       func(K) K

	mu     sync.RWMutex // guards record and add
	record map[K][]metric.RecordOption
	add    map[K][]metric.AddOption
}

// NewSets returns the sets of keys, whose attributes are those that the function
// returns. Above a limit of 1,000 sets a new key is counted as what rest makes
// of it, of which there must be few.
func NewSets[K comparable](attributes func(K) []attribute.KeyValue, rest func(K) K) *Sets[K] {
	return &Sets[K]{attributes, rest, sync.RWMutex{}, make(map[K][]metric.RecordOption), make(map[K][]metric.AddOption)}
}

// Record returns the options of a measurement.
func (s *Sets[K]) Record(k K) []metric.RecordOption { return pick(s, s.record, k) }

// Add returns the options of a count.
func (s *Sets[K]) Add(k K) []metric.AddOption { return pick(s, s.add, k) }

func pick[K comparable, O any](s *Sets[K], in map[K][]O, k K) []O {
	s.mu.RLock()
	o, ok := in[k]
	s.mu.RUnlock()
	if ok {
		return o
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(in) >= maxSets {
		k = s.rest(k)
		if o, ok := in[k]; ok {
			return o
		}
	}
	set := metric.WithAttributeSet(attribute.NewSet(s.attributes(k)...))
	o = []O{any(set).(O)} //nolint:errcheck // A set is an option of both.
	in[k] = o
	return o
}

// Seconds is a histogram of durations. The zero Seconds measures nothing.
type Seconds[K comparable] struct {
	h    metric.Float64Histogram
	sets *Sets[K]
}

// NewSeconds returns a histogram of durations with those buckets.
func NewSeconds[K comparable](m metric.Meter, name, description string, buckets []float64, sets *Sets[K]) Seconds[K] {
	h, err := m.Float64Histogram(name, metric.WithUnit("s"), metric.WithDescription(description),
		metric.WithExplicitBucketBoundaries(buckets...))
	if err != nil {
		otelapi.Handle(err) // unreachable unless the name is none
	}
	return Seconds[K]{h, sets}
}

// Measure records a duration, if anybody wants to know.
func (s Seconds[K]) Measure(ctx context.Context, d time.Duration, k K) {
	if s.h != nil && Measuring() {
		s.h.Record(ctx, d.Seconds(), s.sets.Record(k)...)
	}
}

// Count is a counter. The zero Count counts nothing.
type Count[K comparable] struct {
	c    metric.Int64Counter
	sets *Sets[K]
}

// NewCount returns a counter of things, such as "{event}".
func NewCount[K comparable](m metric.Meter, name, unit, description string, sets *Sets[K]) Count[K] {
	c, err := m.Int64Counter(name, metric.WithUnit(unit), metric.WithDescription(description))
	if err != nil {
		otelapi.Handle(err) // unreachable unless the name is none
	}
	return Count[K]{c, sets}
}

// Add counts, if anybody wants to know.
func (c Count[K]) Add(ctx context.Context, n int64, k K) {
	if c.c != nil && Measuring() {
		c.c.Add(ctx, n, c.sets.Add(k)...)
	}
}
