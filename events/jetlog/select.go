package jetlog

import (
	"context"
	"iter"
	"strings"

	"github.com/cockroachdb/errors"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/toolfleet/toolfleet/events"
)

// SelectOptions of [Log.Select].
type SelectOptions struct {
	// After is the position after which events are wanted. Default the beginning;
	// from elsewhere the first link of each chain is taken on trust.
	After events.Seq
	// Until, if not 0, is the last position of which an event is wanted.
	Until events.Seq
}

// Select returns the stored events of some chains, in order, and ends with the
// last there is at the time of the call. A pattern is a chain as
// [events.Chain.String] has it, with "*" in the place of any id:
// "server.github", "instance.github.*", "worker.*", "fleet". No chain may match
// two of them.
//
// The server passes over the events of other chains, so that it costs what the
// wanted ones cost, however long the history is. Each event is proven to link to
// the one before it in its chain; that the history between them is whole is not,
// nor that a chain's last event is one: see [Log.Follow], whose errors it has. An
// error is the last element. It waits while the stream has no leader, until the
// context ends, which is then the error.
func (l *Log) Select(ctx context.Context, patterns []string, o *SelectOptions) iter.Seq2[events.Record, error] {
	if o == nil {
		o = &SelectOptions{}
	}
	return func(yield func(events.Record, error) bool) {
		s := selector{log: l, until: o.Until, at: o.After, trusting: o.After > 0, tips: make(map[events.Chain]events.Tip), yield: yield}
		for _, p := range patterns {
			s.filters = append(s.filters, events.EventPrefix(l.fleet)+p)
		}
		if len(patterns) == 0 || o.Until > 0 && o.After >= o.Until {
			return
		}
		if err := s.run(ctx); err != nil {
			yield(events.Record{}, errors.Wrapf(err, "read %s after %d", strings.Join(patterns, ", "), s.at))
		}
	}
}

// selector is the state of one Select.
type selector struct {
	log      *Log
	filters  []string
	until    events.Seq
	yield    func(events.Record, error) bool
	at       events.Seq
	tips     map[events.Chain]events.Tip
	trusting bool
	failures int
	ended    bool
}

func (s *selector) run(ctx context.Context) error {
	for !s.ended {
		err := s.consume(ctx)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case errors.IsAny(err, events.ErrHistoryRegressed, ErrNotPermitted):
			return err
		case errors.Is(err, events.ErrHistoryIncomplete):
			if s.failures++; s.failures >= maxPlacements {
				return err
			}
		case err != nil:
			s.log.o.Logger.Debug("read chains again", "seq", uint64(s.at), "err", err)
			_ = pause(ctx, retryPause) // the loop looks at the context
		}
	}
	return nil
}

// consume reads from one consumer until it fails, or there is no more.
func (s *selector) consume(ctx context.Context) error {
	c, err := consume(ctx, s.log, s.log.events, jetstream.ConsumerConfig{
		DeliverPolicy:  jetstream.DeliverByStartSequencePolicy,
		OptStartSeq:    uint64(s.at) + 1,
		FilterSubjects: s.filters,
	}, func(m jetstream.Msg) events.Record {
		msg, seq := place(m)
		return events.Read(msg, seq)
	})
	if err != nil {
		return err
	}
	defer c.close()
	left := c.pending
	if s.ended = left == 0; s.ended {
		return nil
	}
	silent := func() error {
		return errors.Mark(errors.Newf("%d events after %d are there, but do not come", left, s.at), events.ErrHistoryIncomplete)
	}
	var broken error
	err = c.each(ctx, stallLimit, silent, func(r events.Record) bool {
		left--
		broken = s.take(&r)
		s.ended = s.ended || broken == nil && left == 0
		return broken == nil && !s.ended
	})
	return errors.CombineErrors(broken, err)
}

// take yields the next record, if it links to the one before it.
func (s *selector) take(r *events.Record) error {
	if s.until > 0 && r.Seq > s.until {
		s.ended = true
		return nil
	}
	if tip, known := s.tips[r.Chain]; known || !s.trusting {
		if err := events.CheckLink(r, tip); err != nil {
			return err
		}
	}
	s.tips[r.Chain], s.at, s.failures = r.Tip(), r.Seq, 0
	s.log.count(r)
	s.ended = !s.yield(*r, nil)
	return nil
}
