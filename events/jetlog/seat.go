package jetlog

import (
	"context"
	"sync"
	"time"

	"github.com/cockroachdb/errors"
)

const (
	// seatRetry lies between two attempts at a seat that somebody else has.
	seatRetry = 500 * time.Millisecond
	// seatRelease bounds the release of a seat; one that is not released is free
	// when its TTL is over.
	seatRelease = time.Second
	// steadyGap is the longest time between two renewals that are a steady
	// presence: half a TTL, so that whoever is there on the same bus had room for
	// several of its own.
	steadyGap = LeaseTTL / 2
)

// Seat is a lease that a process holds whenever it can: it is taken when it is
// free, taken again after it was lost, and given back at the end.
type Seat struct {
	log *Log
	key string
	o   SeatOptions

	mu    sync.Mutex // guards what follows
	lease *Lease
	// renewed says that a renewal was acknowledged. Sent is when the last one was
	// sent, and since when the first one after which no gap was too long.
	renewed     bool
	since, sent time.Duration
}

// SeatOptions of [Log.NewSeat].
type SeatOptions struct {
	// Own says that the key names its holder, so that no other should have it. It
	// is waited for until a dead holder's would be gone. Default: any may have it,
	// and it is waited for as long as it takes.
	Own bool
}

// ownPatience is how long a key of one's own may be another's.
const ownPatience = LeaseTTL + 5*time.Second

// NewSeat returns the seat of a key, such as "leader". Nobody sits on it until
// [Seat.Run].
func (l *Log) NewSeat(key string, o *SeatOptions) *Seat {
	s := &Seat{log: l, key: key}
	if o != nil {
		s.o = *o
	}
	return s
}

// Run holds the lease whenever it can, until the context ends; then it gives it
// back and returns nil. Its errors are those of [Log.Acquire]; [ErrHeld] only of
// a key of one's own that somebody else keeps.
func (s *Seat) Run(ctx context.Context, h Holder) error {
	began := s.log.Now() // of the wait for another's lease
	for {
		err := s.sit(ctx, h)
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, ErrHeld):
			if s.o.Own && s.log.Now()-began > ownPatience {
				return err
			}
		case errors.Is(err, ErrLeaseLost):
			s.log.o.Logger.Warn("lease lost", "lease", s.key, "err", err)
			began = s.log.Now()
		case err != nil:
			return err
		}
		if pause(ctx, seatRetry) != nil {
			return nil
		}
	}
}

// sit holds the lease until it is lost or the context ends.
func (s *Seat) sit(ctx context.Context, h Holder) error {
	x, err := s.log.Acquire(ctx, s.key, h, &LeaseOptions{Renewed: s.renew})
	if err != nil {
		return err
	}
	s.set(x)
	err = x.Run(ctx)
	s.set(nil)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), seatRelease)
	defer cancel()
	return errors.CombineErrors(err, x.Release(ctx))
}

// Held says whether the lease is held at the moment.
func (s *Seat) Held() bool {
	s.mu.Lock()
	x := s.lease
	s.mu.Unlock()
	return x != nil && x.Remaining() > 0
}

// Steady returns since when, on the log's clock, renewals have been acknowledged
// throughout, without a gap of half a TTL; false if they are not at the moment.
// A process that was stopped, or cut off from the bus, is not steady afterwards
// until its next renewal, and from then on.
func (s *Seat) Steady() (since time.Duration, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.since, s.renewed && s.log.Now()-s.sent <= steadyGap
}

// renew notes that a renewal was acknowledged.
func (s *Seat) renew(end time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	sent := end - leaseHold
	if !s.renewed || sent-s.sent > steadyGap {
		s.since = sent
	}
	s.renewed, s.sent = true, sent
}

func (s *Seat) set(x *Lease) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lease = x
	s.renewed = s.renewed && x != nil // what comes after a loss is another presence
}
