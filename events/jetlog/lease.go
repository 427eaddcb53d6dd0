package jetlog

import (
	"context"
	"fmt"
	"regexp"
	"sync"
	"time"

	"github.com/cockroachdb/errors"
	"github.com/nats-io/nats.go"

	"github.com/toolfleet/toolfleet/events"
)

// LeaseTTL is how long a key outlives the last renewal of its lease, unless
// LeaseOptions say otherwise. NATS takes 4 to 8 s to elect another leader of a
// stream.
const LeaseTTL = 20 * time.Second

const (
	// leaseHold is how long a lease lasts from the moment that an acknowledged
	// renewal was sent.
	leaseHold = 17 * time.Second
	// leasePause lies between two attempts that fail at once; those that get no
	// answer are repeated without it.
	leasePause = 250 * time.Millisecond
	// leaseDoubt is how long a server may take from seeing that a key's time is
	// over to storing the marker of it, which ends even a value stored meanwhile.
	leaseDoubt = time.Second
)

// The ends of leases. Errors are marked with them.
var (
	// ErrHeld says that another state folder holds the key. The error is a
	// [*HeldError].
	ErrHeld = errors.New("lease is held")
	// ErrLeaseLost says that the key is gone, or another incarnation's.
	ErrLeaseLost = errors.New("lease is lost")
)

// Holder is who holds a lease: one life of the process that has a state folder.
type Holder struct {
	// Folder is the state folder's id, see [Folder.ID].
	Folder      string
	Incarnation events.Incarnation
}

// HeldError tells who holds a key. A value that cannot be read is held by the
// zero [Holder].
type HeldError struct {
	Key    string
	Holder Holder
	// TTL is how long the key outlives its holder.
	TTL time.Duration
}

// Error names key and incarnation, and says what can be done.
func (e *HeldError) Error() string {
	return fmt.Sprintf("%s is held by incarnation %q, whose state folder is another one: stop that process, use another id, or wait until it has been gone for %s",
		e.Key, string(e.Holder.Incarnation), e.TTL)
}

// Is makes every HeldError an [ErrHeld].
func (e *HeldError) Is(target error) bool { return target == ErrHeld }

// LeaseOptions of [Log.Acquire].
type LeaseOptions struct {
	// TTL is how long the key lives after a renewal, in whole seconds. Default
	// [LeaseTTL], 20 s.
	TTL time.Duration
	// Every is the time from when a renewal was sent to the next. Default 4 s.
	Every time.Duration
	// Attempt bounds one renewal, which is then repeated at once. Default 2 s.
	Attempt time.Duration
	// Hold is how long the lease lasts from the moment that an acknowledged
	// renewal was sent; at most TTL less one second. Default 17 s.
	Hold time.Duration
	// Renewed, if set, is called with each new end of the lease, on the log's
	// clock: first by Acquire, then by Run. It must not block.
	Renewed func(end time.Duration)
}

func (o *LeaseOptions) withDefaults() (LeaseOptions, error) {
	var d LeaseOptions
	if o != nil {
		d = *o
	}
	set := func(p *time.Duration, otherwise time.Duration) {
		if *p == 0 {
			*p = otherwise
		}
	}
	set(&d.TTL, LeaseTTL)
	set(&d.Every, 4*time.Second)
	set(&d.Attempt, 2*time.Second)
	set(&d.Hold, leaseHold)
	if d.TTL < time.Second || d.TTL%time.Second != 0 {
		return d, errors.Newf("lease TTL %s: use whole seconds", d.TTL)
	}
	if d.Hold <= 0 || d.Hold > d.TTL-leaseDoubt {
		return d, errors.Newf("lease of %s: with a TTL of %s it can last at most %s", d.Hold, d.TTL, d.TTL-leaseDoubt)
	}
	return d, nil
}

// Lease is a key of the presence bucket that one process holds at a time. It is
// held from [Log.Acquire] until its end, which every acknowledged renewal of
// [Lease.Run] puts off. Whatever must not happen twice may only happen while
// [Lease.Remaining] is positive.
//
// A lease whose end has passed is not lost yet: while the key is still its own
// Run goes on, and the lease may come back, of the same incarnation.
//
// Run and Release must be called one at a time, everything else at any time.
type Lease struct {
	key    presenceKey
	holder Holder
	o      LeaseOptions
	clock  func() time.Duration

	// attempt counts what was sent; sent has when, for those that may still turn
	// out to be stored.
	attempt uint64
	sent    map[uint64]time.Duration
	last    renewal
	next    time.Duration
	failing bool

	mu   sync.Mutex // guards end and over
	end  time.Duration
	over bool
}

// renewal is a message of ours that was stored.
type renewal struct {
	seq uint64
	// at is when it was sent, if that is known.
	at    time.Duration
	known bool
}

// leaseKey is what keys look like: worker.<id>, controller.<id>, leader.
var leaseKey = regexp.MustCompile(`^[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)?$`)

// Acquire takes the lease of a key, such as "worker.host-a" or "leader": one id
// or two with a dot between them. It is free when it has no value; a value of the
// same state folder is taken over at once, by compare-and-set, because whoever
// has the folder knows its former holder to be gone.
//
// It tries until the context ends, also while the bucket has no leader or no
// room, but returns an error marked [ErrHeld] as soon as it sees the value of
// another folder. [ErrNotPermitted], [events.ErrHistoryRegressed] (the bucket was
// deleted) and [nats.ErrConnectionClosed] end it too. The error of a context that
// ended is marked with the context's, that of a key, holder or option that cannot
// be used has no mark.
func (l *Log) Acquire(ctx context.Context, key string, h Holder, o *LeaseOptions) (*Lease, error) {
	opts, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	if !leaseKey.MatchString(key) || h.Folder == "" || h.Incarnation == "" {
		return nil, errors.Newf("lease %q of incarnation %q: key, folder and incarnation are needed", key, string(h.Incarnation))
	}
	x := &Lease{
		key: presenceKey{log: l, key: key}, holder: h, o: opts, clock: l.o.Clock,
		sent: make(map[uint64]time.Duration),
	}
	for {
		err := x.claim(ctx)
		if err == nil && x.Remaining() > 0 {
			return x, nil
		}
		if errors.IsAny(err, ErrHeld, ErrNotPermitted, events.ErrHistoryRegressed, nats.ErrConnectionClosed) {
			return nil, errors.Wrapf(err, "acquire %s", key)
		}
		if ended := pause(ctx, max(leasePause, x.next-x.clock())); ended != nil {
			if err == nil {
				err = ended
			}
			return nil, errors.Mark(errors.Wrapf(err, "acquire %s", key), ended)
		}
	}
}

// claim tries once to put our value where there is none, or one of our folder.
func (x *Lease) claim(ctx context.Context) error {
	x.next = 0
	before, err := x.look(ctx)
	if err != nil {
		return err
	}
	if before.live && before.value.Folder != x.holder.Folder {
		return errors.WithStack(&HeldError{Key: x.key.key, Holder: before.owner(), TTL: x.o.TTL})
	}
	r, err := x.send(ctx, before.seq)
	if err != nil {
		return err
	}
	certain := !before.live
	if before.live {
		// How old the former value was can only be told by the server's clock.
		now, err := x.look(ctx)
		if err != nil {
			return err
		}
		if now.seq != r.seq {
			return errors.New("the key was written meanwhile")
		}
		certain = now.stored.Sub(before.stored) < before.ttl-leaseDoubt
	}
	x.stored(r, certain)
	return nil
}

// Remaining returns the time until the lease ends; it is over at 0 and below.
func (x *Lease) Remaining() time.Duration {
	end, ok := x.End()
	if !ok {
		return 0
	}
	return end - x.clock()
}

// End returns the lease's end on the log's clock, or false when the lease was
// lost or released.
func (x *Lease) End() (end time.Duration, ok bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.end, !x.over
}

// finish ends the lease for good.
func (x *Lease) finish() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.over = true
}

// Release ends the lease and removes the key, so that others need not wait for
// its TTL. A key that is no longer ours is left alone, which is no error. Call it
// when Run has returned; it tries until the context ends. After an error the key
// lives on until its TTL has passed, but the lease is over all the same.
func (x *Lease) Release(ctx context.Context) error {
	x.finish()
	expected := x.last.seq
	for {
		err := x.remove(ctx, expected)
		if err == nil {
			return nil
		}
		state, lookErr := x.look(ctx)
		switch {
		case lookErr == nil && (!state.live || state.owner() != x.holder):
			return nil
		case lookErr == nil:
			expected = state.seq
		case errors.Is(lookErr, events.ErrHistoryRegressed):
			return nil // and with the bucket, the key
		}
		if errors.Is(err, nats.ErrConnectionClosed) || pause(ctx, leasePause) != nil {
			return errors.Wrapf(err, "release %s, which now lives until its TTL", x.key.key)
		}
	}
}

func (x *Lease) remove(ctx context.Context, expected uint64) error {
	ctx, cancel := context.WithTimeout(ctx, x.o.Attempt)
	defer cancel()
	return x.key.remove(ctx, expected)
}

func (x *Lease) look(ctx context.Context) (presenceState, error) {
	ctx, cancel := context.WithTimeout(ctx, x.o.Attempt)
	defer cancel()
	return x.key.read(ctx)
}
