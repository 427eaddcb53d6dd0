package worker

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/toolfleet/toolfleet/events"
)

// patience is how long a worker that is to leave waits for a first word of a
// controller: one that leads answers within a moment, and another one leads
// within the TTL of its lease, which is too long to wait for.
const patience = 5 * time.Second

// handover is the time between a worker's word that it is to leave and its end.
// A nil one is none, and refuses and hears nothing.
type handover struct {
	// limit is when it is given up, however far it is.
	limit time.Time
	timer *time.Timer
	// event is the worker's word, "" before it is stored; says holds it then.
	event events.EventID
	says  chan events.EventID
	// causes are those of the commands that came since.
	causes map[string]bool
}

// until returns a context that also ends with a channel.
func until(ctx context.Context, end <-chan struct{}) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		select {
		case <-end:
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, cancel
}

// handOver begins the handover. There is nothing to say where nothing runs.
func (w *crew) handOver(ctx context.Context, all *sync.WaitGroup) {
	o := &w.host.options
	now := time.Now()
	h := &handover{
		limit: now.Add(o.Limits.Handover), timer: time.NewTimer(min(patience, o.Limits.Handover)),
		says: make(chan events.EventID, 1), causes: make(map[string]bool),
	}
	w.handover = h
	if len(w.instances) == 0 {
		return
	}
	o.Logger.Info("leaving: what runs here is handed over", "worker", string(o.ID))
	all.Go(func() {
		id, err := w.register.drain(ctx)
		if err != nil {
			o.Logger.Warn("nobody can be told that this worker is to leave", "worker", string(o.ID), "err", err)
			return
		}
		h.says <- id
	})
}

// said yields the worker's word when it is stored.
func (h *handover) said() <-chan events.EventID {
	if h == nil {
		return nil
	}
	return h.says
}

// over yields when the handover is to be given up.
func (h *handover) over() <-chan time.Time {
	if h == nil {
		return nil
	}
	return h.timer.C
}

// answered notes the worker's word.
func (h *handover) answered(id events.EventID) {
	h.event = id
	h.rest()
}

// heard notes a command.
func (h *handover) heard(c *events.Command) {
	if h != nil {
		h.causes[c.Cause] = true
		h.rest()
	}
}

// rest waits for as long as may be, once a command has answered the worker's
// word.
func (h *handover) rest() {
	if h.event != "" && h.causes[string(h.event)] {
		h.timer.Reset(time.Until(h.limit))
	}
}

// refuses says whether a command comes too late to be begun with.
func (h *handover) refuses(c *events.Command) bool {
	return h != nil && c != nil && c.Want == events.Running
}

func (h *handover) giveUp(log *slog.Logger) {
	if h.event != "" && h.causes[string(h.event)] {
		log.Warn("leaving before everything was taken over")
	} else {
		log.Warn("leaving although no controller answers")
	}
}
