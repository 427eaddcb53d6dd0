package goal

import (
	"context"
	"strings"

	"github.com/cockroachdb/errors"

	"github.com/toolfleet/toolfleet/cmd/internal/show"
	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/projections"
	"github.com/toolfleet/toolfleet/projections/kvview"
)

// On is reached by a server of which an instance works on a certain worker. It is
// missed by one of which an attempt failed that the event since led to.
func On(w events.WorkerID, since events.Seq) Goal {
	return func(s *projections.Status) (string, error) {
		if s == nil {
			return "", errGone
		}
		for i := range s.Instances {
			if n := &s.Instances[i]; n.Worker == w && n.State.Working() {
				return string(n.State) + " on " + string(w) + ", " + show.Count(n.Tools, "tool"), nil
			}
		}
		return "", missed(s, since)
	}
}

// Drain is a worker that is about to be drained.
type Drain struct {
	views  *kvview.Reader
	worker events.WorkerID
	before []*projections.Instance
}

// NewDrain notes what the worker owns before it is drained.
func NewDrain(r *kvview.Reader, id events.WorkerID) *Drain { return &Drain{r, id, owned(r, id)} }

// Await waits until the worker owns no instance, and returns words of what became
// of those that it owned: that they work elsewhere, or why they wait. When the
// context ends first, the error tells what is left. The reader must be running.
func (d *Drain) Await(ctx context.Context) (string, error) {
	changes := d.views.Changes()
	defer d.views.Forget(changes)
	for {
		left := owned(d.views, d.worker)
		if len(left) == 0 {
			return d.words(), nil
		}
		select {
		case <-changes:
		case <-ctx.Done():
			var all []string
			for _, i := range left {
				all = append(all, string(i.Server)+"."+string(i.Instance)+" is "+string(i.State))
			}
			return "", errors.Wrap(ctx.Err(), strings.Join(all, ", "))
		}
	}
}

func owned(r *kvview.Reader, id events.WorkerID) (all []*projections.Instance) {
	for _, s := range r.Servers() {
		for _, i := range r.Instances(s.Value.ID) {
			if n := &i.Value; n.State.Owned() && n.Worker == id {
				all = append(all, n)
			}
		}
	}
	return all
}

// words says what became of what the worker owned.
func (d *Drain) words() string {
	if len(d.before) == 0 {
		return "drained; nothing ran there"
	}
	waiting := show.Waiting(d.views)
	words := []string{"drained of " + show.Count(len(d.before), "instance")}
	told := make(map[events.ServerID]bool)
	for _, i := range d.before {
		if why := waiting[i.Server]; why != "" && !told[i.Server] {
			told[i.Server] = true
			words = append(words, string(i.Server)+" waits: "+why)
		}
	}
	return strings.Join(words, "; ")
}
