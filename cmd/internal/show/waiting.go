package show

import (
	"fmt"
	"strconv"
	"time"

	"github.com/toolfleet/toolfleet/controller"
	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/projections"
	"github.com/toolfleet/toolfleet/projections/kvview"
)

// Waiting says of the servers that lack an instance why nobody runs it.
func Waiting(r *kvview.Reader) map[events.ServerID]string {
	var h projections.History
	for _, e := range r.Servers() {
		h.Adopt(&e.Value)
		for _, i := range r.Instances(e.Value.ID) {
			h.Adopt(&i.Value)
		}
	}
	for _, e := range r.Workers() {
		h.Adopt(&e.Value)
	}
	if e := r.Fleet(); e != nil {
		h.Adopt(&e.Value)
	}
	of := make(map[events.ServerID]string)
	first := make(map[events.ServerID]events.InstanceID)
	for chain, why := range controller.Waiting(&h) {
		if id := chain.Server(); of[id] == "" || chain.Instance() < first[id] {
			of[id], first[id] = why, chain.Instance()
		}
	}
	return of
}

// Notes are what has to be known to understand a table: that the fleet is frozen,
// and which workers take nothing new.
func Notes(r *kvview.Reader) (notes []string) {
	if e := r.Fleet(); e != nil {
		if f := e.Value.Frozen; f != nil {
			notes = append(notes, frozen(f))
		}
	}
	for _, e := range r.Workers() {
		w := &e.Value
		switch {
		case !w.Present():
		case w.Going != "":
			notes = append(notes, fmt.Sprintf("worker %s is about to leave", w.ID))
		case w.Draining:
			notes = append(notes, fmt.Sprintf("worker %s is drained%s", w.ID, wished(w)))
		case w.Cordoned:
			notes = append(notes, fmt.Sprintf("worker %s is cordoned%s", w.ID, wished(w)))
		}
	}
	return notes
}

// wished says by whom and why.
func wished(w *projections.Worker) (text string) {
	if w.Actor != "" {
		text = " by " + w.Actor
	}
	if w.Reason != "" {
		text += ", " + strconv.Quote(w.Reason)
	}
	return text
}

func frozen(f *projections.Freeze) string {
	text := "FROZEN"
	if f.Actor != "" {
		text += " by " + f.Actor
	}
	text += " since " + f.Since.Local().Format(time.DateTime)
	if f.Reason != "" {
		text += ", " + strconv.Quote(f.Reason)
	}
	return text + ": nothing is started, restarted, moved or updated by itself"
}
