package projections

import (
	"context"
	"sync"

	"github.com/toolfleet/toolfleet/events"
)

// View is a state that one goroutine keeps up to date and many read. The zero
// View holds the zero S at position 0.
//
// Concurrency: all methods may be called by any goroutine, but [View.Set] by one
// at a time only. Load returns a pair that was set together. What Load returns
// is shared with all other readers: nobody may change what it refers to, the
// writer included.
//
// Changes are level, not edge. A signal says that there is something that the
// receiver may not have loaded; several sets may cause one signal, and Load
// returns the newest state. A reader that is slow misses states, never the
// last one, and slows nobody down. Who has seen a signal for a Set, or returned
// from Wait for its position, loads that state or a newer one.
//
// Positions do not go back, except where the writer sets a lower one: a history
// was replaced. Then Wait waits for the position in the new history.
type View[S any] struct {
	mu       sync.Mutex
	state    S
	seq      events.Seq
	waiting  chan struct{} // closed by the next Set; nil when nobody waits
	watchers map[<-chan struct{}]chan struct{}
}

// Set replaces state and position.
func (v *View[S]) Set(s S, seq events.Seq) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.state, v.seq = s, seq
	if v.waiting != nil {
		close(v.waiting)
		v.waiting = nil
	}
	for _, c := range v.watchers {
		select {
		case c <- struct{}{}:
		default: // a signal is waiting already
		}
	}
}

// Load returns the state and its position.
func (v *View[S]) Load() (S, events.Seq) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.state, v.seq
}

// Wait returns nil as soon as the position is at least seq, or the cause of the
// context's end.
func (v *View[S]) Wait(ctx context.Context, seq events.Seq) error {
	for {
		v.mu.Lock()
		if v.seq >= seq {
			v.mu.Unlock()
			return nil
		}
		if v.waiting == nil {
			v.waiting = make(chan struct{})
		}
		next := v.waiting
		v.mu.Unlock()
		select {
		case <-next:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// Changes returns a channel of signals with one slot, which is filled at first,
// so that the receiver begins by loading the state. [View.Forget] ends it.
func (v *View[S]) Changes() <-chan struct{} {
	c := make(chan struct{}, 1)
	c <- struct{}{}
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.watchers == nil {
		v.watchers = make(map[<-chan struct{}]chan struct{})
	}
	v.watchers[c] = c
	return c
}

// Forget ends the signals on a channel that Changes returned. The channel is
// not closed.
func (v *View[S]) Forget(c <-chan struct{}) {
	v.mu.Lock()
	defer v.mu.Unlock()
	delete(v.watchers, c)
}
