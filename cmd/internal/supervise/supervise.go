// Package supervise runs the parts of a process and stops them in order.
//
// A part may rely on those before it for as long as it runs: parts are started
// in the order given and stopped in the opposite one, each only after those
// behind it have returned. Each part has a context of its own, with the values
// of the caller's but not its end.
//
// The first part that returns unasked stops all others. A part that does not
// return in its time is given up: the next ones are stopped all the same, and
// what it left behind ends with the process. A limit for all of them together
// shortens the time of each.
package supervise

import (
	"context"
	"slices"
	"time"

	"github.com/cockroachdb/errors"
)

// Part is something that runs until its context ends.
type Part struct {
	// Name is for errors.
	Name string
	// Run blocks until ctx ends, then returns nil or the context's error, or until
	// a fault.
	Run func(ctx context.Context) error
	// StopWithin is how long Run may take to return once its context ended
	// (default 2 s).
	StopWithin time.Duration
}

const (
	defaultStopWithin = 2 * time.Second
	// leastStop is what a part has to stop in when the limit for all has passed:
	// most need no more.
	leastStop = 200 * time.Millisecond
)

// ErrOverrun marks the error of a part that did not stop in its time.
var ErrOverrun = errors.New("did not stop in time")

// running is a part that was started.
type running struct {
	Part
	cancel context.CancelFunc
	done   chan error // holds the one result of Run
}

// Run runs the parts until ctx ends or one of them returns. Stopping them takes
// about the limit at most; 0 is none but their own. The error joins the fault
// that ended the run, if any, and those of parts that did not stop well.
func Run(ctx context.Context, limit time.Duration, parts ...Part) error {
	var started []*running
	ended := make(chan int, len(parts))
	for i, p := range parts {
		own, cancel := context.WithCancel(context.WithoutCancel(ctx))
		r := &running{p, cancel, make(chan error, 1)}
		started = append(started, r)
		go func() {
			r.done <- p.Run(own)
			ended <- i
		}()
	}
	var fault error
	select {
	case <-ctx.Done():
	case i := <-ended:
		fault = started[i].unasked()
	}
	begun := time.Now()
	for _, r := range slices.Backward(started) {
		within := r.StopWithin
		if within == 0 {
			within = defaultStopWithin
		}
		if limit > 0 {
			within = min(within, max(limit-time.Since(begun), leastStop))
		}
		fault = errors.Join(fault, r.stop(within))
	}
	return fault
}

// unasked returns the error of a part that returned before it was stopped.
func (r *running) unasked() error {
	err := <-r.done
	r.done <- nil
	if err == nil {
		return errors.Newf("the %s ended unasked", r.Name)
	}
	return errors.Wrapf(err, "the %s ended", r.Name)
}

func (r *running) stop(limit time.Duration) error {
	r.cancel()
	late := time.NewTimer(limit)
	defer late.Stop()
	select {
	case err := <-r.done:
		if errors.Is(err, context.Canceled) {
			return nil
		}
		return errors.Wrapf(err, "stop the %s", r.Name)
	case <-late.C:
		return errors.Mark(errors.Newf("the %s did not stop within %v", r.Name, limit), ErrOverrun)
	}
}
