package files

import (
	"slices"

	"github.com/toolfleet/toolfleet/cmd/internal/exit"
	"github.com/toolfleet/toolfleet/events"
)

// PlacedOn returns a definition whose server only one worker may run, "" for any.
// The definition itself is not changed.
func PlacedOn(d *events.Definition, worker events.WorkerID) *events.Definition {
	n := *d
	var p events.Placement
	if d.Placement != nil {
		p = *d.Placement
	}
	p.Worker = worker
	n.Placement = &p
	if worker == "" && len(p.Labels) == 0 && p.Replicas == 0 {
		n.Placement = nil
	}
	return &n
}

// PlaceOn returns the sources with every server placed on a worker. An entry that
// is placed on another one is an error.
func PlaceOn(sources []Servers, worker events.WorkerID) ([]Servers, error) {
	placed := slices.Clone(sources)
	for i := range placed {
		placed[i].Entries = slices.Clone(placed[i].Entries)
		for j := range placed[i].Entries {
			e := &placed[i].Entries[j]
			if p := e.Definition.Placement; p != nil && p.Worker != "" && p.Worker != worker {
				return nil, exit.Usagef("server %s is placed on worker %s by its file, and cannot be on %s as well", e.ID, p.Worker, worker)
			}
			e.Definition = *PlacedOn(&e.Definition, worker)
		}
	}
	return placed, nil
}
