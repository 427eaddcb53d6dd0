package parts

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/errors"

	"github.com/toolfleet/toolfleet/events/jetlog"
)

const (
	// leaseRetry lies between two attempts at a lease that somebody else holds.
	leaseRetry = 2 * time.Second
	// releaseWithin bounds the release of a lease; one that is not released ends
	// by itself.
	releaseWithin = time.Second
)

// seat is a lease that is taken whenever it is free, such as the leadership.
type seat struct {
	log    *jetlog.Log
	key    string
	holder jetlog.Holder
	logger *slog.Logger
	lease  atomic.Pointer[jetlog.Lease]
}

// held says whether the lease is held at the moment.
func (s *seat) held() bool {
	x := s.lease.Load()
	return x != nil && x.Remaining() > 0
}

// run holds the lease whenever it can, until the context ends, and then gives it
// back.
func (s *seat) run(ctx context.Context) error {
	for ctx.Err() == nil {
		err := s.sit(ctx)
		switch {
		case ctx.Err() != nil:
		case errors.Is(err, jetlog.ErrHeld): // the common case of all but one
		case errors.Is(err, jetlog.ErrLeaseLost):
			s.logger.Warn("lease lost", "kind", s.key, "err", err)
		case err != nil:
			return err
		}
		if !pause(ctx, leaseRetry) {
			break
		}
	}
	return nil
}

// sit holds the lease until it is lost or the context ends.
func (s *seat) sit(ctx context.Context) error {
	x, err := s.log.Acquire(ctx, s.key, s.holder, nil)
	if err != nil {
		return err
	}
	s.lease.Store(x)
	err = x.Run(ctx)
	s.lease.Store(nil)
	return errors.CombineErrors(err, release(ctx, x))
}

// release gives a lease back, also when the context has ended.
func release(ctx context.Context, x *jetlog.Lease) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseWithin)
	defer cancel()
	return x.Release(ctx)
}

// pause returns false when the context ends first.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}
