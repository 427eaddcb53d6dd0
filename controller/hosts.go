package controller

import (
	"cmp"
	"fmt"
	"time"

	"github.com/toolfleet/toolfleet/controller/request"
	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/projections"
)

// wishes are what the requests about workers and about the fleet cause.
var wishes = map[request.Verb]events.Body{
	request.Cordon:   events.Cordoned{},
	request.Drain:    events.Draining{},
	request.Uncordon: events.Uncordoned{},
	request.Freeze:   events.Frozen{},
	request.Unfreeze: events.Unfrozen{},
}

// decideWorker decides a request about a worker. It may be away: what is wished
// for outlasts that.
func decideWorker(h *projections.History, q *request.Request) ([]events.Event, request.Answer, error) {
	w, err := known(h, q.Worker)
	if err != nil {
		return nil, request.Answer{}, err
	}
	drained := w.Draining && w.Going == "" // what it wants of itself is no wish of others
	done := map[request.Verb]bool{
		request.Cordon:   w.Cordoned,
		request.Drain:    drained,
		request.Uncordon: !w.Cordoned && !drained,
	}
	if done[q.Verb] {
		return nil, request.Answer{Seq: w.Seq, Unchanged: true}, nil
	}
	if q.Verb == request.Drain {
		if err := ifFrozen(h); err != nil {
			return nil, request.Answer{}, err
		}
	}
	return []events.Event{eventOf(q, wishes[q.Verb])}, request.Answer{}, nil
}

// decideFleet decides a request about the fleet.
func decideFleet(h *projections.History, q *request.Request) ([]events.Event, request.Answer, error) {
	f := h.Fleet()
	switch {
	case q.Verb == request.Freeze && f.Frozen != nil:
		return nil, request.Answer{Seq: f.Frozen.Seq, Unchanged: true}, nil
	case q.Verb == request.Unfreeze && f.Frozen == nil:
		return nil, request.Answer{Seq: f.Seq, Unchanged: true}, nil
	}
	return []events.Event{eventOf(q, wishes[q.Verb])}, request.Answer{}, nil
}

// known returns a worker that joined the fleet once.
func known(h *projections.History, id string) (*projections.Worker, error) {
	if w := h.Worker(events.WorkerID(id)); w != nil && w.Joins > 0 {
		return w, nil
	}
	return nil, request.Errorf(request.UnknownWorker, "the fleet has no worker %q", id)
}

// ifFrozen refuses a request while the fleet is frozen.
func ifFrozen(h *projections.History) error {
	f := h.Fleet().Frozen
	if f == nil {
		return nil
	}
	by := cmp.Or(f.Actor, "nobody that is known")
	if f.Reason != "" {
		by += fmt.Sprintf(" (%q)", f.Reason)
	}
	return request.Errorf(request.Frozen, "the fleet is frozen by %s since %s: unfreeze it first", by, f.Since.Format(time.RFC3339))
}

// ifItDoesNotFit refuses to move a server to where it may not run now.
func ifItDoesNotFit(h *projections.History, s *projections.Server, q *request.Request) error {
	if err := ifNotRunning(h, s, q); err != nil {
		return err
	}
	w, err := known(h, q.Worker)
	if err != nil || isThere(h, s, q) {
		return err
	}
	load := 0
	for i := range h.Instances() {
		if i.State.Owned() && i.Worker == w.ID {
			load++
		}
	}
	if _, counted := replicasOf(s.Definition).Count(); !counted {
		return request.Errorf(request.DoesNotFit, "server %q runs on each worker that suits: there is nothing to move", s.ID)
	}
	if why := cmp.Or(refuses(w, load), unsuitable(s.Definition, w)); why != "" {
		return request.Errorf(request.DoesNotFit, "server %q cannot run on worker %q: %s", s.ID, w.ID, why)
	}
	return nil
}

// isThere says whether the worker owns an instance of the server, and is there
// itself.
func isThere(h *projections.History, s *projections.Server, q *request.Request) bool {
	w := h.Worker(events.WorkerID(q.Worker))
	for i := range h.InstancesOf(s.ID) {
		if i.State.Owned() && w != nil && w.Present() && i.Worker == w.ID && i.Incarnation == w.Incarnation {
			return true
		}
	}
	return false
}

func moved(_ *projections.Server, q *request.Request) events.Body {
	return events.MoveRequested{Worker: events.WorkerID(q.Worker)}
}

func replicasOf(d *events.Definition) events.Replicas {
	if d.Placement == nil {
		return 0
	}
	return d.Placement.Replicas
}
