package jetlog

import (
	"context"
	"iter"

	"github.com/cockroachdb/errors"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/toolfleet/toolfleet/events"
)

// ReadChain returns the events of a chain after a tip, up to the last there is
// at the time of the call, from the stream's leader. Each must link to the one
// before; where one does not, the sequence ends with an error marked
// [events.ErrHistoryIncomplete]. If the chain ends before the tip, the only
// element is an error marked [events.ErrHistoryRegressed]. Undecodable events are
// yielded with an [events.Undecodable] body and counted. Each event is one
// request to the leader; without one it waits until the context ends, and the
// context's error is the last element.
func (l *Log) ReadChain(ctx context.Context, c events.Chain, after events.Tip) iter.Seq2[events.Record, error] {
	return func(yield func(events.Record, error) bool) {
		fail := func(err error) {
			yield(events.Record{}, errors.Wrapf(err, "read chain %s after %d", c, after.Seq))
		}
		subject := c.Subject(l.fleet)
		last, err := l.get(ctx, l.events, 0, subject)
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			if after.Seq > 0 {
				fail(errors.Mark(errors.New("the chain is empty, but was read before"), events.ErrHistoryRegressed))
			}
			return
		}
		if err != nil {
			fail(err)
			return
		}
		if end := events.Seq(last.Sequence); end < after.Seq {
			fail(errors.Mark(errors.Newf("the chain ends at %d", end), events.ErrHistoryRegressed))
			return
		}
		for tip := after; tip.Seq < events.Seq(last.Sequence); {
			m, err := l.get(ctx, l.events, tip.Seq+1, subject)
			if err != nil {
				fail(err)
				return
			}
			r := read(m)
			if err := events.CheckLink(&r, tip); err != nil {
				fail(err)
				return
			}
			l.count(&r)
			if !yield(r, nil) {
				return
			}
			tip = r.Tip()
		}
	}
}

// get returns the first message of a subject from a sequence on, or the last one
// from 0, as the stream's leader has it.
func (l *Log) get(ctx context.Context, s jetstream.Stream, from events.Seq, subject string) (m *jetstream.RawStreamMsg, err error) {
	err = l.ask(ctx, func(ctx context.Context) (err error) {
		if from == 0 {
			m, err = s.GetLastMsgForSubject(ctx, subject)
		} else {
			m, err = s.GetMsg(ctx, uint64(from), jetstream.WithGetMsgSubject(subject))
		}
		return err
	})
	return m, err
}

// count counts undecodable events.
func (l *Log) count(r *events.Record) {
	u, ok := r.Body.(events.Undecodable)
	if !ok {
		return
	}
	l.skipped.Add(1)
	l.o.Logger.Warn("undecodable event", "seq", uint64(r.Seq), "err", u.Reason)
}
