package jetlog

import (
	"cmp"
	"context"
	"iter"
	"time"

	"github.com/cockroachdb/errors"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/toolfleet/toolfleet/events"
)

const (
	// stallLimit is how long a reader waits in silence before it asks the
	// stream's leader whether there is more.
	stallLimit = 5 * time.Second
	// maxPlacements is how many consumers may fail at one position. Each is
	// placed anew, perhaps on a replica that is not damaged.
	maxPlacements = 3
)

// FollowOptions of [Log.Follow].
type FollowOptions struct {
	// Tips of all chains at the position after which is followed. Without them,
	// and not from the beginning, the first link of each chain is taken on trust.
	Tips map[events.Chain]events.Tip
	// Until, if not 0, is the last event wanted: the sequence ends with it.
	Until events.Seq
	// Log is the history that the position is in. Default the one that was there
	// when the [Log] was opened. Another is refused with
	// [events.ErrHistoryRegressed].
	Log events.LogID
}

// Follow returns the events of all chains after a position: those stored, then
// new ones as they come, until the context ends, which is no error, or Until is
// reached. Every event is proven to follow the one before it in the stream and to link to the
// one before it in its chain. Undecodable events are yielded with an
// [events.Undecodable] body and counted.
//
// Connections that break are made again and do not end the sequence. While the
// stream has no leader it waits; a stream that is full is read as any other. An
// error ends the sequence, and is its last element. It is marked
//
//   - [events.ErrHistoryIncomplete] when events are missing or altered wherever
//     they were read from: three consumers in a row could not go on,
//   - [events.ErrHistoryRegressed] when the stream ends before the position or is
//     not the one that the sequence began with, deleted or made anew,
//   - [ErrNotPermitted] when the user may not read the stream.
//
// All else is waited out, even a connection that was closed: end the context.
func (l *Log) Follow(ctx context.Context, after events.Seq, o *FollowOptions) iter.Seq2[events.Record, error] {
	if o == nil {
		o = &FollowOptions{}
	}
	return func(yield func(events.Record, error) bool) {
		if o.Until > 0 && after >= o.Until {
			return
		}
		f := follower{
			log: l, until: o.Until, yield: yield,
			verifier: events.NewVerifier(after, o.Tips),
			history:  cmp.Or(o.Log, l.history),
		}
		if err := f.run(ctx); err != nil && ctx.Err() == nil {
			yield(events.Record{}, errors.Wrapf(err, "follow the history after %d", f.verifier.Seq()))
		}
	}
}

// follower is the state of one Follow.
type follower struct {
	log      *Log
	until    events.Seq
	yield    func(events.Record, error) bool
	verifier *events.Verifier
	history  events.LogID
	// failures is how many placements in a row brought nothing.
	failures int
	// ended says that the caller has all it wants.
	ended bool
}

func (f *follower) run(ctx context.Context) error {
	for ctx.Err() == nil && !f.ended {
		err := f.log.holds(ctx, f.history, f.verifier.Last())
		if err == nil {
			err = f.consume(ctx)
		}
		switch {
		case errors.Is(err, events.ErrHistoryRegressed), errors.Is(err, ErrNotPermitted):
			return err
		case errors.Is(err, events.ErrHistoryIncomplete):
			if f.failures++; f.failures >= maxPlacements {
				return err
			}
		case err != nil:
			f.log.o.Logger.Debug("follow the history again", "seq", uint64(f.verifier.Seq()), "err", err)
			_ = pause(ctx, retryPause) // the loop looks at the context
		}
	}
	return nil
}

// consume reads from one consumer until it fails, or the caller has enough.
func (f *follower) consume(ctx context.Context) error {
	c, err := consume(ctx, f.log, f.log.events, jetstream.ConsumerConfig{
		DeliverPolicy: jetstream.DeliverByStartSequencePolicy,
		OptStartSeq:   uint64(f.verifier.Seq()) + 1,
	}, func(m jetstream.Msg) events.Record {
		msg, seq := place(m)
		return events.Read(msg, seq)
	})
	if err != nil {
		return err
	}
	defer c.close()
	var broken error
	err = c.each(ctx, stallLimit, func() error { return f.checkSilence(ctx) }, func(r events.Record) bool {
		broken = f.take(&r)
		return broken == nil && !f.ended
	})
	return errors.CombineErrors(broken, err)
}

// checkSilence is called when nothing came for a while. Silence before the head
// is a fault of the consumer's place.
func (f *follower) checkSilence(ctx context.Context) error {
	before := f.verifier.Seq()
	head, err := f.log.Head(ctx)
	if err != nil {
		return err
	}
	if err := head.Check(events.Position{Log: f.history, Seq: before}); err != nil {
		return err
	}
	if head.Seq > before {
		return errors.Mark(errors.Newf("event %d is missing: the stream goes on to %d, but nothing comes", before+1, head.Seq),
			events.ErrHistoryIncomplete)
	}
	return nil
}

// take yields the next record, if it is the next one.
func (f *follower) take(r *events.Record) error {
	if err := f.verifier.Advance(r); err != nil {
		return err
	}
	f.failures = 0
	f.log.count(r)
	f.ended = !f.yield(*r, nil) || f.until > 0 && r.Seq >= f.until
	return nil
}
