package controller

import (
	"context"
	"time"

	"github.com/toolfleet/toolfleet/events"
)

const (
	// watchAgain lies between two watches of the workers' keys.
	watchAgain = time.Second
	// findWithin bounds the reads of the keys of silent workers.
	findWithin = 2 * time.Second
)

// watch tells the loop what is seen of the workers' keys.
func (c *controller) watch(ctx context.Context) error {
	for {
		c.tell(ctx, func(c *controller) { c.vigil.begin(c.Presence.Now()) })
		err := c.Presence.WatchWorkers(ctx, func(w events.WorkerID, at events.Seq, there bool) {
			c.tell(ctx, func(c *controller) { c.vigil.saw(w, at, there, c.Presence.Now()) })
		})
		if ctx.Err() != nil {
			return nil
		}
		c.Logger.Warn("watch workers again", "err", err)
		select {
		case <-time.After(watchAgain):
		case <-ctx.Done():
			return nil
		}
	}
}

// tell has the loop do something.
func (c *controller) tell(ctx context.Context, f func(c *controller)) {
	select {
	case c.results <- func(c *controller) error { f(c); return nil }:
	case <-ctx.Done():
	}
}

// find reads the keys of workers that may be lost, if this controller leads.
func (c *controller) find() {
	if c.Presence == nil || c.finding || !c.serving {
		return
	}
	begun := c.Presence.Now()
	c.vigil.expect(c.view.History.Workers(), begun)
	suspects := c.vigil.suspects(c.own(), begun)
	if len(suspects) == 0 || !c.Leads() {
		return
	}
	c.finding = true
	c.effect(func(ctx context.Context) result {
		ctx, cancel := context.WithTimeout(ctx, findWithin)
		defer cancel()
		var answers []func(c *controller)
		for _, w := range suspects {
			at, there, err := c.Presence.FindWorker(ctx, w)
			if err != nil {
				break // and read again at the next tick
			}
			answers = append(answers, func(c *controller) { c.vigil.found(w, at, there, begun, c.own(), c.Presence.Now()) })
		}
		return func(c *controller) error {
			c.finding = false
			for _, answer := range answers {
				answer(c)
			}
			c.dirty = true
			return nil
		}
	})
}

// own is what is known of this controller's renewals at the moment.
func (c *controller) own() steady {
	since, ok := c.Steady()
	return steady{since, ok}
}
