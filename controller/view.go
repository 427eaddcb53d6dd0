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
	case events.HasStopped, events.Released, events.ToolsListed:
		return true // it can be planned on, but nothing goes back to it
	default:
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
		case events.ToolsListed:
			s := v.History.Server(r.Chain.Server())
			return s != nil && s.Update != nil // which it may settle
		default:
			return false
		}
	default:
		return r.Chain.Kind() == events.OfWorker
	}
}

// later returns the origin of two chains that is the later one.
func (v *View) later(a, b events.Chain) origin {
	x, y := v.origins[a], v.origins[b]
	if x.Seq >= y.Seq {
		return x
	}
	return y
}

func compareAddresses(a, b events.Address) int {
	return cmp.Or(cmp.Compare(a.Worker, b.Worker), cmp.Compare(a.Server, b.Server), cmp.Compare(a.Instance, b.Instance))
}
