// Package proof proves that a fleet's history is whole and that its views are what
// it says, or finds what is not so.
package proof

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/cockroachdb/errors"

	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/events/jetlog"
	"github.com/toolfleet/toolfleet/projections/audit"
	"github.com/toolfleet/toolfleet/projections/kvview"
)

// Proof is what was found, and the JSON shape of that.
type Proof struct {
	Log events.LogID `json:"log"`
	// Events checked, up to Seq.
	Events int        `json:"events"`
	Seq    events.Seq `json:"seq"`
	// Unknown are of kinds that this build does not know, Undecodable no events at
	// all: neither is a fault.
	Unknown     int `json:"unknown"`
	Undecodable int `json:"undecodable"`
	// Faults in the order of their events; at most 100 of the history's.
	Faults []audit.Fault `json:"faults"`
	// Count of faults.
	Count int `json:"count"`
	// Took is how long that was.
	Took time.Duration `json:"-"`
}

// Prove checks history and views in one reading. Faults are no error: that is why
// nothing could be checked.
func Prove(ctx context.Context, log *jetlog.Log) (*Proof, error) {
	began := time.Now()
	seen, err := lastSeen(ctx, log) // before the end: meanwhile it may go on
	if err != nil {
		return nil, err
	}
	head, err := log.Head(ctx)
	if err != nil {
		return nil, err
	}
	var a audit.Auditor
	p := &Proof{Log: head.Log, Faults: []audit.Fault{}}
	if seen > head.Seq {
		p.add(head.Seq+1, fmt.Sprintf("the history ends at %d, but went on to %d when the views were written: its end is lost", head.Seq, seen))
	}
	differences, err := kvview.Verify(ctx, log, &kvview.Options{Seen: a.Apply})
	broken := errors.IsAny(err, events.ErrHistoryIncomplete, events.ErrHistoryRegressed)
	if err != nil && !broken {
		return nil, err
	}
	p.Events, p.Seq, p.Unknown, p.Undecodable = a.Events, a.Last(), a.Unknown, a.Undecodable
	faults, count := a.End(head)
	p.Faults, p.Count = append(p.Faults, faults...), p.Count+count
	if broken {
		p.add(a.Last()+1, err.Error())
	}
	for _, d := range differences {
		p.add(max(d.Stored.Seq, d.Folded.Seq), viewFault(d))
	}
	slices.SortStableFunc(p.Faults, func(x, y audit.Fault) int { return cmp.Compare(x.Seq, y.Seq) })
	p.Took = time.Since(began)
	return p, nil
}

func (p *Proof) add(seq events.Seq, what string) {
	p.Faults, p.Count = append(p.Faults, audit.Fault{Seq: seq, What: what}), p.Count+1
}

// lastSeen returns how far the history went when the views were last written.
func lastSeen(ctx context.Context, log *jetlog.Log) (events.Seq, error) {
	r, err := kvview.Open(ctx, log.Conn(), log.Fleet(), nil)
	if err != nil {
		return 0, err
	}
	return r.AsOf().Seq, nil
}

// viewFault says what is wrong with an entry of the views.
func viewFault(d kvview.Difference) string {
	hint := ": toolfleet rebuild makes it anew"
	switch {
	case d.Stored.Log == "":
		return "view " + d.Key + " is missing or damaged" + hint
	case d.Folded.Log == "":
		return "view " + d.Key + " should not be there" + hint
	default:
		return fmt.Sprintf("view %s is not what the history says at %d%s", d.Key, d.Stored.Seq, hint)
	}
}
