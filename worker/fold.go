package worker

import (
	"time"

	"github.com/toolfleet/toolfleet/events"
)

// history is the fold of an instance's chain, as far as its owner needs it.
type history struct {
	tip events.Tip

	// The owner, since the last assigned; owned is false after a released or lost.
	owned       bool
	worker      events.WorkerID
	incarnation events.Incarnation
	epoch       events.Epoch

	// attempt is the highest number used in the epoch; answered says that
	// stopped was the owner's last word.
	attempt  int
	answered bool

	// lists are the last complete ones, under any owner; listed says that there was
	// one of tools.
	lists  [listKinds]events.Digest
	listed bool
	// ready and down follow the instance through its owners: down is when it
	// was last ready, restarting that it failed, or changed its owner, since.
	ready      bool
	restarting bool
	down       time.Time

	// broke is the end that nobody asked for, since the last complete list;
	// tried is the last attempt to connect. Both are for traces.
	broke breakage
	tried events.Trace
}

// breakage is a failure, or the loss of an owner, and where it was told.
type breakage struct {
	code  events.Code
	trace events.Trace
}

// evolve returns the fold after one more event of the chain.
func (h history) evolve(r *events.Record) history {
	h.tip = r.Tip()
	switch b := r.Body.(type) {
	case events.Assigned:
		if b.Epoch <= h.epoch {
			return h
		}
		h = h.ended(r.Time)
		h.restarting = h.epoch > 0
		h.owned, h.worker, h.incarnation, h.epoch = true, b.Worker, b.Incarnation, b.Epoch
		h.attempt, h.answered = 0, false
		return h
	case events.Released, events.Lost:
		if r.Epoch == 0 || r.Epoch >= h.epoch {
			h = h.ended(r.Time)
			h.owned = false
			if _, lost := b.(events.Lost); lost {
				h.broke = breakage{events.LeaseLost, r.Trace}
			}
		}
		return h
	default:
		if r.Epoch != h.epoch {
			return h // said by an owner that was one no longer
		}
		return h.spoken(r)
	}
}

// spoken takes an event that the owner wrote.
func (h history) spoken(r *events.Record) history {
	switch b := r.Body.(type) {
	case events.Connecting:
		h.attempt, h.answered, h.tried = max(h.attempt, b.Attempt), false, r.Trace
	case events.ToolsListed:
		h.lists[Tools], h.listed, h.broke = b.Digest, true, breakage{}
		if !h.ready {
			h.ready, h.restarting, h.down = true, false, time.Time{}
		}
	case events.ResourcesListed:
		h.lists[Resources] = b.Digest
	case events.PromptsListed:
		h.lists[Prompts] = b.Digest
	case events.Failed:
		h = h.ended(r.Time)
		h.restarting, h.broke = true, breakage{b.Failure.Code, r.Trace}
	case events.AuthRequired:
		h = h.ended(r.Time)
		h.restarting, h.broke = true, breakage{events.AuthenticationNeeded, r.Trace}
	case events.Stopping:
		h = h.ended(r.Time)
		h.broke = breakage{}
	case events.HasStopped:
		h = h.ended(r.Time)
		h.answered, h.broke = true, breakage{}
	default:
	}
	return h
}

// ended notes that whatever was ready is no longer.
func (h history) ended(at time.Time) history {
	if h.ready {
		h.ready, h.down = false, at
	}
	return h
}

// ownedBy says whether the chain's owner is that incarnation of the worker, in
// that epoch.
func (h *history) ownedBy(w events.WorkerID, i events.Incarnation, e events.Epoch) bool {
	return h.owned && h.epoch == e && h.worker == w && h.incarnation == i
}

// past returns what the state machine has to know.
func (h *history) past() Past {
	return Past{Attempt: h.attempt, Answered: h.answered, Worked: h.listed, Restarting: h.restarting, DownSince: h.down}
}
