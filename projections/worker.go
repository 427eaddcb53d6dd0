package projections

import (
	"time"

	"github.com/toolfleet/toolfleet/events"
)

// Worker is the fold of a worker's chain.
type Worker struct {
	ID events.WorkerID `json:"id"`
	Progress

	State WorkerState `json:"state,omitzero"`
	// Since is when the worker came into its state.
	Since time.Time `json:"since,omitzero"`

	// What the last incarnation said of itself, see [events.Joined].
	Incarnation events.Incarnation `json:"incarnation,omitzero"`
	Host        string             `json:"host,omitzero"`
	Labels      map[string]string  `json:"labels,omitempty"`
	Versions    map[string]string  `json:"versions,omitempty"`
	// Capacity is the most instances it takes; 0 is no limit.
	Capacity int `json:"capacity,omitzero"`
	// Recipients are the age recipients whose identity it holds.
	Recipients []string `json:"recipients,omitempty"`

	// Draining and Cordoned are wishes about the host, not about one
	// incarnation: they hold until uncordoned. Going is the incarnation that drains
	// itself, because it goes, where nobody else wants the host drained: then
	// Draining holds until its end.
	Draining bool               `json:"draining,omitzero"`
	Cordoned bool               `json:"cordoned,omitzero"`
	Going    events.Incarnation `json:"going,omitzero"`
	// Actor and Reason are those of the last such wish.
	Actor  string `json:"actor,omitzero"`
	Reason string `json:"reason,omitzero"`

	// Joins counts incarnations.
	Joins    int      `json:"joins,omitzero"`
	Requests Requests `json:"requests,omitempty"`
}

// WorkerState says whether a worker is there. The zero WorkerState is that of
// one that never joined.
type WorkerState string

// The states of a worker.
const (
	WorkerJoined WorkerState = "joined" // it is there
	WorkerLeft   WorkerState = "left"   // it stopped everything and went
	WorkerLost   WorkerState = "lost"   // it ended without a word
)

// Present says whether the worker is there: it joined, and neither left nor was
// lost since.
func (w *Worker) Present() bool { return w.State == WorkerJoined }

// Eligible says whether new instances may be placed on the worker: it is present,
// and neither draining nor cordoned. Its labels and capacity are not looked at.
func (w *Worker) Eligible() bool { return w.Present() && !w.Cordoned && !w.Draining }

// EvolveWorker folds the next event of a worker's chain.
func EvolveWorker(w Worker, r events.Record) Worker {
	id := r.Chain.Worker()
	if r.Chain.Kind() != events.OfWorker || w.ID != "" && w.ID != id || !w.advance(&r) {
		return w
	}
	w.ID = id
	if w.unreadable(&r) {
		return w
	}
	w.Updated = when(&r)
	w.Requests = w.Requests.with(&r)
	w.fold(&r)
	return w
}

func (w *Worker) fold(r *events.Record) {
	switch b := r.Body.(type) {
	case events.Joined:
		w.gone()
		w.State, w.Since = WorkerJoined, when(r)
		w.Incarnation, w.Host = b.Incarnation, b.Host
		w.Labels, w.Versions = b.Labels, b.Versions
		w.Capacity, w.Recipients = b.Capacity, b.Recipients
		w.Joins++
	case events.Left:
		if w.Present() && b.Incarnation == w.Incarnation {
			w.gone()
			w.State, w.Since = WorkerLeft, when(r)
		}
	case events.Lost:
		if w.Present() {
			w.gone()
			w.State, w.Since = WorkerLost, when(r)
		}
	case events.Draining:
		w.drain(r, b.Incarnation)
	case events.Cordoned:
		w.Cordoned = true
		w.wish(r)
	case events.Uncordoned:
		w.Cordoned = false
		if w.Going == "" { // else it goes all the same
			w.Draining = false
		}
		w.wish(r)
	default: // unreachable unless the catalogue got a kind that this fold lacks
	}
}

// drain folds the wish of an incarnation to be drained, or that of somebody else
// ("").
func (w *Worker) drain(r *events.Record, own events.Incarnation) {
	switch {
	case own == "":
		w.Going = ""
		w.wish(r)
	case own != w.Incarnation || w.Draining:
		return // it is gone, or somebody wanted it before
	default:
		w.Going = own // which is no wish of anybody
	}
	w.Draining = true
}

// gone ends what held for the incarnation alone.
func (w *Worker) gone() {
	if w.Going != "" {
		w.Going, w.Draining = "", false
	}
}

func (w *Worker) wish(r *events.Record) {
	w.Actor, w.Reason = text(r.Actor, maxName), text(r.Reason, maxMessage)
}
