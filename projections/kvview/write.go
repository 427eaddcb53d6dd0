package kvview

import (
	"context"
	"time"

	"github.com/cockroachdb/errors"
	"github.com/go-json-experiment/json"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/toolfleet/toolfleet/projections"
)

// write writes what is behind, or leaves it to the leader.
func (p *projector) write(ctx context.Context) error {
	if !p.behind() {
		return nil
	}
	if !p.o.Leads() {
		lags, err := p.leaderLags(ctx)
		if err != nil || !lags {
			return err
		}
	}
	return p.flush(ctx)
}

// leaderLags says whether the stored position does not reach what this
// projector had folded some time ago.
func (p *projector) leaderLags(ctx context.Context) (bool, error) {
	if time.Since(p.behindSince) < Patience {
		return false, nil
	}
	if err := p.bucket.lookAtPosition(ctx); err != nil {
		p.complain(ctx, err)
		return false, nil
	}
	if err := p.checkPosition(); err != nil {
		return false, err
	}
	at, stored := p.position(), p.bucket.position.Order()
	if stored.Compare(at.Order()) >= 0 {
		p.caughtUp()
		return false, nil
	}
	at.Seq = p.behindSeq
	if stored.Compare(at.Order()) < 0 {
		return true, nil
	}
	p.behindSince, p.behindSeq = time.Now(), p.history.Seq()
	return false, nil
}

func (p *projector) caughtUp() {
	clear(p.dirty)
	p.behindSince = time.Time{}
	p.swept = p.swept || p.history.Seq() >= p.target
}

// position returns how far the fold is.
func (p *projector) position() Position {
	at := Position{Log: p.id, Fold: projections.Version, Seq: p.history.Seq(), Pass: p.pass}
	if p.id != p.source {
		at.Source = p.source
	}
	return at
}

// checkPosition returns errStartOver if the position last seen is one that this
// run cannot go on from.
func (p *projector) checkPosition() error {
	stored := p.bucket.position
	switch {
	case stored.Pass > p.pass:
		p.scratch = true
		return errors.Mark(errors.Newf("the views are being rebuilt (pass %d)", stored.Pass), errStartOver)
	case stored.Log > p.id, stored.Log == p.id && stored.Fold > projections.Version:
		return errors.Mark(errors.Newf("another projector writes history %s, fold %d", stored.Log, stored.Fold), errStartOver)
	}
	return nil
}

// flush writes every entry that changed, and then the position.
func (p *projector) flush(ctx context.Context) error {
	writes := p.changed(ctx)
	if !p.swept && p.history.Seq() >= p.target {
		writes = append(writes, p.tombstones()...)
	}
	if err := p.store(ctx, writes); err != nil {
		return err
	}
	p.o.hook("before position")
	if err := p.storePosition(ctx, false); err != nil {
		return err
	}
	p.o.hook("after position")
	p.caughtUp()
	p.complained = false
	return ctx.Err()
}

// storePosition writes the position, unless it or a higher one is there; with
// renew also if it is.
func (p *projector) storePosition(ctx context.Context, renew bool) error {
	at := p.position()
	for try := 0; ; try++ {
		if try > 1 {
			if err := pause(ctx, conflictPause); err != nil {
				return err
			}
		}
		if err := p.checkPosition(); err != nil {
			return err
		}
		if c := p.bucket.position.Order().Compare(at.Order()); c > 0 || c == 0 && !renew {
			return nil
		}
		err := p.bucket.putPosition(ctx, at)
		if err == nil {
			return nil
		}
		if isLasting(err) || ctx.Err() != nil {
			return errors.Wrap(err, "write position")
		}
		if !isConflict(err) {
			p.complain(ctx, err)
		}
		if err := p.insist(ctx, func() error { return p.bucket.lookAtPosition(ctx) }); err != nil {
			return err
		}
	}
}

// heartbeat renews a position that nobody wrote since the last heartbeat, if
// the fold is known to be at the end of the history.
func (p *projector) heartbeat(ctx context.Context) error {
	if p.behind() {
		return nil
	}
	head, err := p.log.Head(ctx)
	if err == nil {
		err = p.bucket.lookAtPosition(ctx)
	}
	if err != nil {
		p.o.Logger.Debug("position cannot be renewed", "err", err)
		return nil
	}
	if err := p.checkPosition(); err != nil {
		return err
	}
	before := p.beatRevision
	p.beatRevision = p.bucket.positionRevision
	at := p.position()
	if before != p.bucket.positionRevision || head.Log != p.source || head.Seq != at.Seq ||
		p.bucket.position.Order() != at.Order() {
		return nil
	}
	if err := p.storePosition(ctx, true); err != nil {
		return err
	}
	p.beatRevision = p.bucket.positionRevision
	return nil
}

// putPosition writes the position if it still is the one last seen.
func (b *bucket) putPosition(ctx context.Context, at Position) error {
	data, err := json.Marshal(&at)
	if err != nil {
		return err // unreachable: ids and numbers
	}
	ctx, cancel := context.WithTimeout(ctx, ackTimeout)
	defer cancel()
	ack, err := b.js.PublishMsg(ctx, &nats.Msg{Subject: b.prefix + string(positionKey), Data: data},
		jetstream.WithExpectLastSequencePerSubject(b.positionRevision))
	if err != nil {
		return err
	}
	b.position, b.positionRevision = at, ack.Sequence
	return nil
}
