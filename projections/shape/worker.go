package shape

import (
	"slices"
	"time"

	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/projections"
)

// Worker is a worker with the instances that it owns.
type Worker struct {
	ID          events.WorkerID         `json:"id"`
	State       projections.WorkerState `json:"state"`
	Since       time.Time               `json:"since"`
	Host        string                  `json:"host"`
	Incarnation events.Incarnation      `json:"incarnation"`
	Labels      map[string]string       `json:"labels"`
	Versions    map[string]string       `json:"versions"`
	Capacity    int                     `json:"capacity"` // 0 is no limit
	Draining    bool                    `json:"draining"`
	Cordoned    bool                    `json:"cordoned"`
	Joins       int                     `json:"joins"`
	// Instances it owns, as server.instance, sorted.
	Instances []string `json:"instances"`
}

// NewWorker returns the shape of a worker that owns those instances.
func NewWorker(w *projections.Worker, instances []string) Worker {
	owned := append([]string{}, instances...)
	slices.Sort(owned)
	return Worker{
		w.ID, w.State, w.Since, w.Host, w.Incarnation, w.Labels, w.Versions, w.Capacity,
		w.Draining, w.Cordoned, w.Joins, owned,
	}
}
