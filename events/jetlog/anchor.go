package jetlog

import (
	"context"
	"sync"

	"github.com/cockroachdb/errors"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/toolfleet/toolfleet/events"
)

// anchor is what ties a Log to one history. A stream can lose its end while no
// one is connected, and be deleted and made again at any time; its sequences are
// then used again, and an expectation may hold by accident. So whenever there is
// doubt, the last event that is known must still be where it was.
type anchor struct {
	watch sync.Once // for deletions, from the first append on
	// deletions has a message for every deletion of the stream.
	deletions chan *nats.Msg

	mu sync.Mutex // guards what follows
	// last is the last event that was appended through this Log.
	last events.Tip
	// resolved counts the doubts that were looked into, deleted those for which
	// the stream's deletion was announced.
	resolved, deleted uint64
}

// watchDeletions makes the deletion of the stream known without asking. A user
// that may not subscribe to advisories notices it later, by a reconnection or a
// missing event; and so does one whose connection is closed.
func (l *Log) watchDeletions() {
	l.anchor.deletions = make(chan *nats.Msg, 16)
	if _, err := l.nc.ChanSubscribe("$JS.EVENT.ADVISORY.STREAM.DELETED."+l.stream("events"), l.anchor.deletions); err != nil {
		l.o.Logger.Debug("deletions of the stream are not watched", "err", err)
	}
}

// check returns an error marked [events.ErrHistoryRegressed] if there is doubt
// about the history and it is not the one that tip was read from.
func (l *Log) check(ctx context.Context, tip events.Tip) error {
	l.anchor.watch.Do(l.watchDeletions)
	doubts, last := l.doubts()
	if doubts == 0 {
		return nil
	}
	if tip.Seq > last.Seq {
		last = tip
	}
	if err := l.holds(ctx, l.history, last); err != nil {
		return err
	}
	l.anchor.mu.Lock()
	defer l.anchor.mu.Unlock()
	l.anchor.resolved = max(l.anchor.resolved, doubts)
	return nil
}

// doubts returns the number of doubts so far, or 0 if all are resolved, with
// the last event that is known. The first is before the first append, each
// reconnection and deletion is another.
func (l *Log) doubts() (n uint64, last events.Tip) {
	reconnects := l.nc.Stats().Reconnects
	a := &l.anchor
	a.mu.Lock()
	defer a.mu.Unlock()
	for len(a.deletions) > 0 {
		<-a.deletions
		a.deleted++
	}
	if n = 1 + reconnects + a.deleted; n == a.resolved {
		n = 0
	}
	return n, a.last
}

// seen notes an event that was appended.
func (l *Log) seen(tip events.Tip) {
	l.anchor.mu.Lock()
	defer l.anchor.mu.Unlock()
	if tip.Seq > l.anchor.last.Seq {
		l.anchor.last = tip
	}
}

// holds returns nil if the stream is that history and has the event at its
// place, else an error marked [events.ErrHistoryRegressed].
func (l *Log) holds(ctx context.Context, history events.LogID, last events.Tip) error {
	head, err := l.Head(ctx)
	if err != nil {
		return err
	}
	if err := head.Check(events.Position{Log: history, Seq: last.Seq}); err != nil {
		return err
	}
	if last.Link == "" {
		return nil
	}
	m, err := l.get(ctx, l.events, last.Seq, events.EventPrefix(l.fleet)+">")
	switch {
	case errors.Is(err, jetstream.ErrMsgNotFound):
		return errors.Mark(errors.Newf("event %d, which was read before, is not there", last.Seq), events.ErrHistoryRegressed)
	case err != nil:
		return errors.Wrapf(err, "read event %d", last.Seq)
	case events.Seq(m.Sequence) != last.Seq || read(m).Link != last.Link:
		return errors.Mark(errors.Newf("event %d is not the one that was read before: the history lost its end and grew again", last.Seq),
			events.ErrHistoryRegressed)
	}
	return nil
}
