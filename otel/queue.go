package otel

import (
	"context"
	"os"
	"strconv"
	"sync/atomic"

	"github.com/cockroachdb/errors"
	otelapi "go.opentelemetry.io/otel"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// queueSize is how many ended spans wait for export. A fleet that starts ends
// thousands at once, and the SDK drops what does not fit without a word: of
// 20,000 in a burst its own default of 2,048 lost more than half.
const queueSize = 16384

// queue is the SDK's queue of ended spans, with a count of those that did not
// fit.
type queue struct {
	sdktrace.SpanProcessor
	limit   int64
	waiting atomic.Int64 // ended, and not given to the exporter so far
	dropped atomic.Int64
}

// newQueue returns a processor that exports spans in batches, as OTEL_BSP_…
// says.
func newQueue(e sdktrace.SpanExporter) *queue {
	q := &queue{limit: queueSize}
	if n, err := strconv.Atoi(os.Getenv("OTEL_BSP_MAX_QUEUE_SIZE")); err == nil && n > 0 {
		q.limit = int64(n)
	}
	q.SpanProcessor = sdktrace.NewBatchSpanProcessor(exporting{e, q}, sdktrace.WithMaxQueueSize(int(q.limit)))
	return q
}

// OnEnd takes a span, if there is room for it.
func (q *queue) OnEnd(s sdktrace.ReadOnlySpan) {
	if !s.SpanContext().IsSampled() {
		return
	}
	if q.waiting.Add(1) > q.limit {
		q.waiting.Add(-1)
		if n := q.dropped.Add(1); n == 1 || n%1000 == 0 {
			otelapi.Handle(errors.Newf("%d spans dropped: more than %d wait for export (OTEL_BSP_MAX_QUEUE_SIZE)", n, q.limit))
		}
		return
	}
	q.SpanProcessor.OnEnd(s)
}

// exporting is the exporter below the queue.
type exporting struct {
	sdktrace.SpanExporter
	queue *queue
}

// ExportSpans exports what has left the queue.
func (e exporting) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	e.queue.waiting.Add(-int64(len(spans)))
	return e.SpanExporter.ExportSpans(ctx, spans)
}
