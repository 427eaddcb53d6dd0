package controller

import (
	"cmp"
	"context"
	"sync"
	"time"

	"github.com/cockroachdb/errors"

	"github.com/toolfleet/toolfleet/events"
)

// round is where planning stands.
type round struct {
	// busy says that decisions are being carried out, or commands read.
	busy bool
	// after is the position that the fold must have for the next plan.
	after events.Seq
	// notBefore is when to try again what could not be done.
	notBefore time.Time
	// commands are copies of the last ones; nil before they are read, or when
	// they turned out to be old. They are compared with the stream at compareAt.
	commands  Commands
	compareAt time.Time
	// waiting are the instances that wait for a worker, with the reason.
	waiting map[events.Chain]string
}

const (
	// retryAfter follows a plan that could not be carried out, or that somebody
	// else's commands stood against.
	retryAfter = time.Second
	// compareEvery is how long copies of commands are trusted.
	compareEvery = 60 * time.Second
)

// plan begins a round if there may be something to do.
func (c *controller) plan() {
	r, now := &c.round, time.Now()
	if r.busy || r.after > c.view.History.Seq() || now.Before(r.notBefore) {
		return
	}
	if !c.Leads() {
		// Another controller commands now: what this one knows of commands is old
		// by the time that it leads again.
		r.commands, c.dirty = nil, true
		return
	}
	if r.commands == nil || !now.Before(r.compareAt) {
		r.busy = true
		c.effect(c.readCommands)
		return
	}
	if !c.dirty {
		return
	}
	c.dirty = false
	decisions, waiting := plan(&c.view, r.commands, c.vigil.lost())
	c.say(waiting)
	if decisions = append(lead(&c.view, c.Self), decisions...); len(decisions) == 0 {
		return
	}
	r.busy = true
	c.effect(func(ctx context.Context) result { return c.carryOut(ctx, decisions) })
}

// say tells which instances wait for a worker, and why: each once, until that
// changes.
func (c *controller) say(waiting map[events.Chain]string) {
	for chain, why := range waiting {
		if c.round.waiting[chain] != why {
			c.Logger.Info("an instance waits", "server", string(chain.Server()), "instance", string(chain.Instance()), "err", why)
		}
	}
	c.round.waiting = waiting
}

func (c *controller) readCommands(ctx context.Context) result {
	all, err := c.Orders.LastCommands(ctx)
	return func(c *controller) error {
		r := &c.round
		r.busy = false
		if err != nil {
			c.Logger.Warn("read commands", "err", err)
			r.notBefore = time.Now().Add(retryAfter)
			return nil
		}
		r.commands = make(Commands, len(all))
		for _, x := range all {
			r.commands[x.Address] = x
		}
		r.compareAt = time.Now().Add(compareEvery)
		c.dirty = true
		return nil
	}
}

// outcome is what carrying out a decision came to.
type outcome struct {
	decision Decision
	// seq is that of the event or command that was written, or that was found
	// where it should have been.
	seq events.Seq
	err error
}

// carryOut carries out all decisions of a plan, some at a time.
func (c *controller) carryOut(ctx context.Context, decisions []Decision) result {
	outcomes := make([]outcome, len(decisions))
	var wg sync.WaitGroup
	next := make(chan int)
	for range min(maxWrites, len(decisions)) {
		wg.Go(func() {
			for i := range next {
				outcomes[i] = c.do(ctx, decisions[i])
			}
		})
	}
	for i := range decisions {
		next <- i
	}
	close(next)
	wg.Wait()
	return func(c *controller) error { return c.concluded(outcomes) }
}

func (c *controller) do(ctx context.Context, d Decision) outcome {
	o := outcome{decision: d}
	switch d := d.(type) {
	case Append:
		var r events.Record
		r, o.err = c.Journal.Append(ctx, d.Event, d.Tip)
		o.seq = r.Seq
		var conflict *events.ConflictError
		if errors.As(o.err, &conflict) {
			o.seq = conflict.Found.Seq
		}
	case Order:
		o.seq, o.err = c.Orders.PutCommand(ctx, d.To, d.Command, d.Seen)
	case Purge:
		o.err = c.Orders.PurgeCommands(ctx, d.Of, d.UpTo)
	}
	return o
}

// concluded ends a round: the next one begins when its events are folded.
func (c *controller) concluded(outcomes []outcome) error {
	r := &c.round
	r.busy, c.dirty = false, true
	old := false
	var failed int
	var first error
	for _, o := range outcomes {
		if errors.Is(o.err, events.ErrHistoryRegressed) {
			return o.err
		}
		conflict := errors.Is(o.err, events.ErrConflict)
		if o.err != nil && !conflict {
			failed++
			first = cmp.Or(first, o.err)
		}
		switch d := o.decision.(type) {
		case Append:
			r.after = max(r.after, o.seq)
			c.learn(o.seq)
		case Order:
			if o.err == nil {
				r.commands[d.To] = events.CommandRecord{Address: d.To, Command: d.Command, Seq: o.seq}
			} else {
				old = true // another one may be there now
			}
		case Purge:
			if o.err == nil {
				delete(r.commands, d.Of)
			}
		}
	}
	if old {
		r.commands, r.notBefore = nil, time.Now().Add(retryAfter)
	}
	if failed > 0 {
		c.Logger.Warn("carry out a plan", "err", errors.Wrapf(first, "%d of %d decisions", failed, len(outcomes)))
		r.notBefore = time.Now().Add(retryAfter)
	}
	return nil
}
