package controller

import (
	"cmp"

	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/projections"
)

// View is what plans and decisions are made from: a prefix of the history,
// folded.
type View struct {
	History projections.History
	// origins are, of each chain, the event that a decision about it goes back
	// to: the last change of what should run, the last assignment, the last
	// coming or going of a worker.
	origins map[events.Chain]origin
	// assigned is the last assignment of each instance.
	assigned map[events.Chain]events.Seq
}

// origin is what a consequence says about the event that it goes back to.
type origin struct {
	Seq         events.Seq
	ID          events.EventID
	Correlation events.RequestID
	Trace       events.Trace
}

// Apply folds the next record of the history, and says whether a plan may be
// another one after it.
func (v *View) Apply(r events.Record) bool {
	chain := v.History.Apply(r)
	if chain == (events.Chain{}) || !v.decisive(&r) {
		return false
	}
	switch r.Body.(type) {
	case events.Assigned:
		if v.assigned == nil {
			v.assigned = make(map[events.Chain]events.Seq)
		}
		v.assigned[chain] = r.Seq
	case events.Lost:
	default:
		if chain.Kind() == events.OfInstance {
			return true // it can be planned on, but nothing goes back to it
		}
	}
	if v.origins == nil {
		v.origins = make(map[events.Chain]origin)
	}
	v.origins[chain] = origin{Seq: r.Seq, ID: r.ID, Correlation: r.Correlation, Trace: r.Trace}
	return true
}

// decisive says whether a plan may be another one after the record, which was
// just folded.
func (v *View) decisive(r *events.Record) bool {
	switch r.Chain.Kind() {
	case events.OfServer:
		return v.History.Server(r.Chain.Server()).Generation == r.Seq
	case events.OfInstance:
		switch r.Body.(type) {
		case events.Assigned, events.HasStopped, events.Released, events.Lost:
			return true
		default:
			s := v.History.Server(r.Chain.Server())
			if _, listed := r.Body.(events.ToolsListed); listed && s != nil && s.Update != nil {
				return true // which it may settle
			}
			return s != nil && v.crowded(s)
		}
	case events.OfFleet:
		switch r.Body.(type) {
		case events.Frozen, events.Unfrozen:
			return true
		default:
			return false
		}
	default:
		return r.Chain.Kind() == events.OfWorker
	}
}

// crowded says whether a server has more instances than it is to have: one of
// them takes the place of another as soon as it works.
func (v *View) crowded(s *projections.Server) bool {
	if s.Wanted() != events.Running {
		return false
	}
	count, counted := replicasOf(s.Definition).Count()
	for i := range v.History.InstancesOf(s.ID) {
		if i.State.Owned() {
			count--
		}
	}
	return counted && count < 0
}

// latest returns the origin of chains that is the latest one.
func (v *View) latest(chains ...events.Chain) (last origin) {
	for _, c := range chains {
		if x := v.origins[c]; x.Seq >= last.Seq {
			last = x
		}
	}
	return last
}

func compareAddresses(a, b events.Address) int {
	return cmp.Or(cmp.Compare(a.Worker, b.Worker), cmp.Compare(a.Server, b.Server), cmp.Compare(a.Instance, b.Instance))
}
