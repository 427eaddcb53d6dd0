package story

import (
	"fmt"

	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/projections"
)

// worker answers for a worker.
func (t *teller) worker(w *projections.Worker) *Answer {
	id, chain := string(w.ID), events.WorkerChain(w.ID)
	since := clock(w.Since)
	a := t.answer(IsWorker, string(w.State), "", t.before(chain, w.Seq+1, changesPresence))
	switch w.State {
	case projections.WorkerJoined:
		a.Summary = fmt.Sprintf("worker %s is there since %s, on host %s", id, since, w.Host)
	case projections.WorkerLeft:
		a.Summary = fmt.Sprintf("worker %s is not there: it left in order at %s", id, since)
		a.Help = "start it again on its host"
	case projections.WorkerLost:
		a.Summary = fmt.Sprintf("worker %s is not there: it was lost at %s, and what it ran is run elsewhere where that can be", id, since)
		a.Help = "see its host and its connection to NATS; start it again"
	default:
		a.State, a.Summary = IsUnknown, "worker "+id+" never joined"
	}
	if w.Present() && !w.Eligible() {
		a.Summary += "; it gets nothing new"
		if w.Draining {
			a.Summary += ", and what it has is moved away"
		}
		t.add(a, t.before(chain, w.Seq+1, func(r *events.Record) bool {
			return r.Kind() == events.KindDraining || r.Kind() == events.KindCordoned
		}))
		a.Help = "toolfleet uncordon " + id
	}
	// What it joined as tells when it was last well.
	t.add(a, t.before(chain, w.Seq+1, func(r *events.Record) bool { return r.Kind() == events.KindJoined }))
	return a
}

func changesPresence(r *events.Record) bool {
	switch r.Body.(type) {
	case events.Joined, events.Left, events.Lost:
		return true
	default:
		return false
	}
}
