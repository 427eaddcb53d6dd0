package kvview

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/errors"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/events/jetlog"
	"github.com/toolfleet/toolfleet/otel"
)

const (
	// maxReplayLinks bounds the links of a span that replays a history; those to
	// failures are the ones worth having.
	maxReplayLinks = 32
	// measureWithin bounds what is asked for when metrics are read.
	measureWithin = time.Second
)

// told is what telemetry is told of by a projector.
type told struct {
	applies  otel.Seconds[bool] // by whether it failed
	replayed otel.Count[string]
	// stored is the position of the views, behind since when they have lacked
	// events, in nanoseconds of Unix time, or 0.
	stored, behind atomic.Int64
}

var viewsProjection = otel.Projection.String("views")

func newTold() *told {
	m := otel.Meter("projections/kvview")
	return &told{
		applies: otel.NewSeconds(m, "toolfleet.projection.apply.duration", "How long it took to write what events changed.",
			otel.ApplyBuckets, otel.NewSets(func(failed bool) []attribute.KeyValue {
				all := []attribute.KeyValue{viewsProjection}
				if failed {
					all = append(all, otel.ErrorType.String(string(events.OtherFailure)))
				}
				return all
			}, func(bool) bool { return true })),
		replayed: otel.NewCount(m, "toolfleet.events.replayed", "{event}", "Events that were folded again.",
			otel.NewSets(func(string) []attribute.KeyValue { return []attribute.KeyValue{viewsProjection} },
				func(string) string { return "" })),
	}
}

// wrote takes the outcome of a write that began then.
func (t *told) wrote(ctx context.Context, p *projector, began time.Time, err error) {
	seq := int64(p.bucket.position.Seq)
	if last := t.stored.Swap(seq); ctx.Err() == nil && (seq != last || err != nil) {
		t.applies.Measure(ctx, time.Since(began), err != nil)
	}
	behind := int64(0)
	if p.behind() {
		behind = p.behindSince.UnixNano()
	}
	t.behind.Store(behind)
}

// observe lets the lag of the views be read until stop.
func (t *told) observe(ctx context.Context, log *jetlog.Log) (stop func(), err error) {
	m := otel.Meter("projections/kvview")
	lag, err1 := m.Int64ObservableGauge("toolfleet.projection.lag", metric.WithUnit("{event}"),
		metric.WithDescription("Events that a projection lacks."))
	late, err2 := m.Float64ObservableGauge("toolfleet.projection.lag.time", metric.WithUnit("s"),
		metric.WithDescription("How long a projection has lacked events."))
	if err := errors.CombineErrors(err1, err2); err != nil {
		return nil, errors.Wrap(err, "make gauges") // unreachable unless a name is none
	}
	name := metric.WithAttributes(viewsProjection)
	reg, err := m.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		ctx, cancel := context.WithTimeout(ctx, measureWithin)
		defer cancel()
		head, err := log.Head(ctx)
		if err != nil {
			return errors.Wrap(err, "measure the lag of the views")
		}
		missing := max(0, int64(head.Seq)-t.stored.Load())
		o.ObserveInt64(lag, missing, name)
		var since time.Duration
		if at := t.behind.Load(); at > 0 && missing > 0 {
			since = time.Since(time.Unix(0, at))
		}
		o.ObserveFloat64(late, since.Seconds(), name)
		return nil
	}, lag, late)
	if err != nil {
		return nil, errors.Wrap(err, "register gauges") // unreachable: they are this meter's
	}
	return func() { _ = reg.Unregister() }, nil // it was registered
}

// replay is the one span of a history that is folded again.
type replay struct {
	span  trace.Span
	links []trace.Link
}

func startReplay(ctx context.Context, name string) (context.Context, *replay) {
	tracer := otel.Tracer("projections/kvview")
	if !otel.Records(tracer) {
		return ctx, &replay{}
	}
	r := &replay{}
	ctx, r.span = tracer.Start(ctx, name, trace.WithAttributes(otel.Replay.Bool(true), viewsProjection)) //nolint:spancheck // By end.
	return ctx, r
}

// saw notes an event that is worth a link.
func (r *replay) saw(e *events.Record) {
	if r == nil || r.span == nil || len(r.links) >= maxReplayLinks {
		return
	}
	switch e.Body.(type) {
	case events.Failed, events.Parked, events.Lost:
		if l, ok := otel.Link(otel.LinkReplayed, e.Trace.Parent, e.Trace.State); ok {
			r.links = append(r.links, l)
		}
	default:
	}
}

// end ends the span.
func (r *replay) end(ctx context.Context, x *rebuilder, err error) {
	if x != nil && x.history != nil {
		newTold().replayed.Add(ctx, int64(x.history.Seq()), "")
	}
	if r.span == nil {
		return
	}
	if x != nil && x.history != nil {
		r.span.SetAttributes(
			otel.Replayed.Int64(int64(x.history.Seq())), otel.FirstSeq.Int64(min(1, int64(x.history.Seq()))),
			otel.LastSeq.Int64(int64(x.history.Seq())), otel.Differences.Int(len(x.differences)),
		)
		for _, l := range r.links {
			r.span.AddLink(l)
		}
	}
	if err != nil {
		r.span.SetAttributes(otel.ErrorType.String(string(events.OtherFailure)))
		r.span.SetStatus(codes.Error, string(events.OtherFailure))
	}
	r.span.End()
}
