package eventstest

import (
	"context"
	"iter"
	"time"

	"github.com/cockroachdb/errors"
	"github.com/google/uuid"
	"go.opentelemetry.io/otel/propagation"

	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/events/jetlog"
)

// MemoryLog is a [Memory] as one writer sees it.
type MemoryLog struct {
	m      *Memory
	writer string
}

// Append is as that of package jetlog.
func (l *MemoryLog) Append(ctx context.Context, e events.Event, tip events.Tip) (events.Record, error) {
	l.complete(ctx, &e, tip)
	msg, err := events.Encode(l.m.fleet, &e)
	if err != nil {
		return events.Record{}, err
	}
	r, err := l.append(ctx, &e, msg, tip.Seq)
	return r, errors.Wrapf(err, "append %s to %s", e.Kind(), e.Chain)
}

func (l *MemoryLog) append(ctx context.Context, e *events.Event, msg events.Message, expected events.Seq) (r events.Record, err error) {
	if err := ctx.Err(); err != nil {
		return r, errors.Wrap(err, "not sent")
	}
	place := func() { r, err = l.m.place(e, msg, expected) }
	if l.m.losesAnswers() {
		l.m.change(place) // and found again below, when there are answers
	}
	if err := l.m.write(ctx, place); err != nil {
		return events.Record{}, errors.Mark(err, events.ErrUncertain)
	}
	return r, err
}

func (m *Memory) losesAnswers() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.outage == AnswersLost
}

// place stores an event after the expected end of its chain, or finds it there.
// It is called in change.
func (m *Memory) place(e *events.Event, msg events.Message, expected events.Seq) (events.Record, error) {
	found, ok := m.next(msg.Subject, expected)
	switch {
	case ok && found.ID == e.ID:
		return found, nil
	case ok:
		return events.Record{}, errors.WithStack(&events.ConflictError{Chain: e.Chain, Expected: expected, Found: found})
	case m.ends(msg.Subject) != expected:
		return events.Record{}, errors.Mark(errors.Newf("the chain has no event at %d, which was read before", expected), events.ErrHistoryRegressed)
	case m.ids[e.ID] != 0:
		return events.Record{}, errors.Newf("id %s is already used elsewhere in the history", e.ID)
	case m.full:
		return events.Record{}, errors.Mark(errors.New("the history in memory is full: call SetFull(false)"), events.ErrHistoryFull)
	}
	return events.Read(msg, m.store(msg)), nil
}

// complete sets what the caller left to the log.
func (l *MemoryLog) complete(ctx context.Context, e *events.Event, tip events.Tip) {
	if e.ID == "" {
		e.ID = events.EventID(uuid.Must(uuid.NewV7()).String())
	}
	if e.Source == "" {
		e.Source = "toolfleet/" + string(l.m.fleet) + "/" + l.writer
	}
	if e.Time.IsZero() {
		e.Time = time.Now()
	}
	if e.Trace.Parent == "" {
		carrier := make(propagation.MapCarrier, 2)
		propagation.TraceContext{}.Inject(ctx, carrier)
		e.Trace = events.Trace{Parent: carrier["traceparent"], State: carrier["tracestate"]}
	}
	e.Prev = tip.Link
}

// ReadChain is as that of package jetlog.
func (l *MemoryLog) ReadChain(ctx context.Context, c events.Chain, after events.Tip) iter.Seq2[events.Record, error] {
	return func(yield func(events.Record, error) bool) {
		subject := c.Subject(l.m.fleet)
		var end events.Seq
		err := l.m.once(ctx, func() { end = l.m.ends(subject) })
		if err == nil && end < after.Seq {
			err = errors.Mark(errors.Newf("the chain ends at %d", end), events.ErrHistoryRegressed)
		}
		for tip := after; err == nil && tip.Seq < end; {
			var r events.Record
			if err = l.m.once(ctx, func() { r, _ = l.m.next(subject, tip.Seq) }); err != nil {
				break
			}
			if err = events.CheckLink(&r, tip); err != nil {
				break
			}
			if !yield(r, nil) {
				return
			}
			tip = r.Tip()
		}
		if err != nil {
			yield(events.Record{}, errors.Wrapf(err, "read chain %s after %d", c, after.Seq))
		}
	}
}

// Follow is as that of package jetlog.
func (l *MemoryLog) Follow(ctx context.Context, after events.Seq, o *jetlog.FollowOptions) iter.Seq2[events.Record, error] {
	if o == nil {
		o = &jetlog.FollowOptions{}
	}
	return func(yield func(events.Record, error) bool) {
		v := events.NewVerifier(after, o.Tips)
		history := o.Log
		for ctx.Err() == nil && (o.Until == 0 || v.Seq() < o.Until) {
			r, err := l.m.await(ctx, &history, v.Seq())
			if err == nil {
				err = v.Advance(&r)
			}
			switch {
			case err != nil && ctx.Err() != nil:
				return
			case err != nil:
				yield(events.Record{}, errors.Wrapf(err, "follow the history after %d", v.Seq()))
				return
			case !yield(r, nil):
				return
			}
		}
	}
}

// await returns the event after a position of a history as soon as it is there.
// Of no history, it is the one there is.
func (m *Memory) await(ctx context.Context, history *events.LogID, after events.Seq) (r events.Record, err error) {
	err2 := m.look(ctx, func() bool {
		if err = m.head().Check(events.Position{Log: *history, Seq: after}); err != nil {
			return true
		}
		*history = m.log
		if after == m.last() {
			return false
		}
		r = events.Read(m.messages[after], after+1)
		return true
	})
	return r, errors.CombineErrors(err, err2)
}

// Head returns the end of the history.
func (l *MemoryLog) Head(ctx context.Context) (h events.Head, err error) {
	err = l.m.once(ctx, func() { h = l.m.head() })
	return h, errors.Wrap(err, "read the head")
}

// head is called with the lock held.
func (m *Memory) head() events.Head {
	return events.Head{Log: m.log, Seq: m.last(), Count: uint64(len(m.messages)), Bytes: m.bytes}
}
