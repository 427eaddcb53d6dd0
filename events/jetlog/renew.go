package jetlog

import (
	"context"
	"time"

	"github.com/cockroachdb/errors"
	"github.com/nats-io/nats.go"

	"github.com/toolfleet/toolfleet/events"
)

// Run renews the lease until the context ends, and then returns nil. The key
// stays: see [Lease.Release].
//
// It returns an error marked [ErrLeaseLost] when the key is found gone, or to be
// another incarnation's, and [nats.ErrConnectionClosed] when the connection was
// closed; then the lease is over. An outage alone is neither, nor is a missing
// leader or a server that is full: it goes on trying, past the end of the lease.
func (x *Lease) Run(ctx context.Context) error {
	for {
		if d := x.next - x.clock(); d > 0 && pause(ctx, d) != nil {
			return nil
		}
		err := x.renew(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			x.finish()
			return errors.Wrapf(err, "renew %s", x.key.key)
		}
	}
}

// renew sends one renewal and finds out what became of it, if it can. An error
// is the end of the lease.
func (x *Lease) renew(ctx context.Context) error {
	x.next = x.clock() + leasePause // unless something better becomes known
	r, err := x.send(ctx, x.last.seq)
	if err == nil {
		x.acknowledge(r)
		return nil
	}
	if errors.Is(err, nats.ErrConnectionClosed) {
		return err
	}
	if !x.failing && ctx.Err() == nil {
		x.failing = true
		x.key.log.o.Logger.Warn("lease was not renewed", "kind", x.key.key, "err", err)
	}
	// Not stored, or stored and the answer lost, or the key is not ours: the
	// stream's leader knows.
	state, err := x.look(ctx)
	switch {
	case errors.Is(err, events.ErrHistoryRegressed):
		return errors.Mark(err, ErrLeaseLost)
	case err != nil:
		return nil
	case !state.live:
		return errors.Mark(errors.New("the key is gone"), ErrLeaseLost)
	case state.owner() != x.holder:
		return errors.Mark(errors.Newf("incarnation %q has the key", string(state.value.Incarnation)), ErrLeaseLost)
	case state.seq != x.last.seq:
		at, known := x.sent[state.value.Attempt]
		x.acknowledge(renewal{seq: state.seq, at: at, known: known})
	}
	return nil
}

// send sends a renewal. The lease will count from before it was sent, not from
// when it was stored or answered.
func (x *Lease) send(ctx context.Context, expected uint64) (renewal, error) {
	ctx, cancel := context.WithTimeout(ctx, x.o.Attempt)
	defer cancel()
	x.attempt++
	at := x.clock()
	for attempt, t := range x.sent {
		if at-t > x.o.TTL {
			delete(x.sent, attempt) // too old to be worth anything
		}
	}
	x.sent[x.attempt] = at
	v := presenceValue{Folder: x.holder.Folder, Incarnation: x.holder.Incarnation, Attempt: x.attempt}
	seq, err := x.key.put(ctx, v, expected, x.o.TTL)
	return renewal{seq: seq, at: at, known: true}, err
}

// acknowledge notes that a renewal was stored.
func (x *Lease) acknowledge(r renewal) {
	// It replaced one that was sent at last.at. If that one's time was nearly
	// over, the server may have begun to end the key before it stored this one,
	// and the marker of that is still to come. The next renewal will tell.
	certain := x.last.known && x.clock()-x.last.at < x.o.TTL-leaseDoubt
	if x.failing && certain {
		x.failing = false
		x.key.log.o.Logger.Info("lease is renewed again", "kind", x.key.key)
	}
	x.stored(r, certain)
}

// stored notes our last message, and counts it if it is certain to stay.
func (x *Lease) stored(r renewal, certain bool) {
	x.last = r
	if !certain || !r.known {
		x.next = x.clock() + leaseDoubt
		return
	}
	x.next = r.at + x.o.Every
	if end, extended := x.extend(r.at + x.o.Hold); extended && x.o.Renewed != nil {
		x.o.Renewed(end)
	}
}

func (x *Lease) extend(to time.Duration) (end time.Duration, extended bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.over || to <= x.end {
		return x.end, false
	}
	x.end = to
	return to, true
}
