package kvview

import (
	"context"
	"log/slog"
	"time"

	"github.com/cockroachdb/errors"

	"github.com/toolfleet/toolfleet/projections"
)

// conflictPause is how long a writer waits that was told of a conflict again: what
// it read may have been an old answer.
const conflictPause = 25 * time.Millisecond

// pending is an entry that has to be stored.
type pending struct {
	key    key
	order  projections.Order
	encode func() ([]byte, error)
}

// store writes entries until each of them, or a higher one, is in the bucket.
func (p *projector) store(ctx context.Context, writes []pending) error {
	for try := 0; ; try++ {
		left, err := p.attempt(ctx, writes)
		if err != nil || len(left) == 0 {
			return err
		}
		if try > 0 {
			if err := pause(ctx, conflictPause); err != nil {
				return err
			}
		}
		if err := p.insist(ctx, func() error { return p.lookAgain(ctx, left) }); err != nil {
			return err
		}
		writes = left
	}
}

// insist repeats f until it succeeds, its error is one that lasts, or the
// context ends.
func (p *projector) insist(ctx context.Context, f func() error) error {
	for {
		err := f()
		if err == nil || isLasting(err) || errors.Is(err, errStartOver) || ctx.Err() != nil {
			return err
		}
		p.complain(ctx, err)
		if err := pause(ctx, retryPause); err != nil {
			return err
		}
	}
}

// lookAgain reads the keys of writes that were not stored, and the position.
func (p *projector) lookAgain(ctx context.Context, left []pending) error {
	if err := p.bucket.lookAtPosition(ctx); err != nil {
		return err
	}
	if err := p.checkPosition(); err != nil {
		return err
	}
	for _, w := range left {
		if err := p.bucket.look(ctx, w.key); err != nil {
			return err
		}
	}
	return nil
}

// attempt sends each write once, many at a time, and returns those that were not
// stored: the key is not what it was, or there was no answer.
func (p *projector) attempt(ctx context.Context, writes []pending) (left []pending, err error) {
	l := p.line
	defer l.giveUp()
	for n, w := range writes {
		have := p.bucket.stored[w.key]
		if have.order.Compare(w.order) >= 0 {
			continue
		}
		data, err := w.encode()
		if err != nil {
			return nil, errors.Wrapf(err, "write view %s", w.key)
		}
		for l.full(len(data)) && err == nil {
			left, err = p.settle(ctx, l, left)
		}
		if err == nil {
			err = l.send(w, p.bucket.prefix+w.key.String(), data, have.revision)
		}
		switch {
		case err != nil && (isLasting(err) || ctx.Err() != nil):
			return nil, errors.Wrapf(err, "write view %s (%d bytes)", w.key, len(data))
		case err != nil:
			p.complain(ctx, err)
			return append(append(left, l.giveUp()...), writes[n:]...), nil
		}
	}
	for len(l.waiting) > 0 {
		if left, err = p.settle(ctx, l, left); err != nil {
			if isLasting(err) || ctx.Err() != nil {
				return nil, errors.Wrap(err, "write views")
			}
			p.complain(ctx, err)
			return append(left, l.giveUp()...), nil
		}
	}
	return left, nil
}

// settle takes the next answer; a write that was refused is left.
func (p *projector) settle(ctx context.Context, l *line, left []pending) ([]pending, error) {
	w, revision, refused, err := l.next(ctx)
	switch {
	case err != nil:
		return left, err
	case refused == nil:
		p.bucket.stored[w.key] = stored{revision: revision, order: w.order}
		p.o.hook("stored " + w.key.String())
		return left, ctx.Err()
	case isLasting(refused):
		return left, errors.Wrapf(refused, "write view %s", w.key)
	case !isConflict(refused):
		p.complain(ctx, errors.Wrapf(refused, "write view %s", w.key))
	}
	return append(left, w), nil
}

// complain reports what keeps views from being written: loudly once, until they
// are written again.
func (p *projector) complain(ctx context.Context, err error) {
	level := slog.LevelWarn
	if p.complained {
		level = slog.LevelDebug
	}
	p.complained = true
	p.o.Logger.Log(ctx, level, "views cannot be written", "err", err)
}
