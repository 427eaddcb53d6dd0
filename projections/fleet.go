package projections

import (
	"cmp"
	"slices"
	"time"

	"github.com/toolfleet/toolfleet/events"
)

// Fleet is the fold of the fleet's own chain.
type Fleet struct {
	Progress

	// Frozen, if not nil, says since when and why nothing is restarted, moved or
	// updated by itself.
	Frozen *Freeze `json:"frozen,omitzero"`
	// Leader is the controller that led last.
	Leader *Leader `json:"leader,omitzero"`
	// Sources of definitions, in the order of their provider, path and level; at
	// most 256, those that were last heard of.
	Sources []SourceReport `json:"sources,omitempty"`
	// Rejections of definitions whose names cannot be ids: the last 32, oldest
	// first.
	Rejections []Rejection `json:"rejections,omitempty"`

	Requests Requests `json:"requests,omitempty"`
}

// Freeze is an order to leave everything as it is.
type Freeze struct {
	Seq    events.Seq `json:"seq"`
	Since  time.Time  `json:"since,omitzero"`
	Actor  string     `json:"actor,omitzero"`
	Reason string     `json:"reason,omitzero"`
}

// Leader is a controller that leads.
type Leader struct {
	Seq         events.Seq         `json:"seq"`
	Since       time.Time          `json:"since,omitzero"`
	Controller  string             `json:"controller"`
	Incarnation events.Incarnation `json:"incarnation"`
}

// SourceReport is what is known of a source of definitions.
type SourceReport struct {
	Source events.Source `json:"source"`
	// Time of the last event about the source.
	Time time.Time `json:"time,omitzero"`
	// Accepted and Rejected count the definitions of the last time that it was
	// read whole.
	Accepted int `json:"accepted,omitzero"`
	Rejected int `json:"rejected,omitzero"`
	// Error says why it could not be read since; its last good definitions stay.
	Error string `json:"error,omitzero"`
}

// Bounds of what a fleet's state keeps; history has the rest.
const (
	sourcesKept    = 256
	rejectionsKept = 32
	maxPath        = 1 << 10
	maxSourceError = 256
)

// EvolveFleet folds the next event of the fleet's chain.
func EvolveFleet(f Fleet, r events.Record) Fleet {
	if r.Chain.Kind() != events.OfFleet || !f.advance(&r) || f.unreadable(&r) {
		return f
	}
	f.Updated = when(&r)
	f.Requests = f.Requests.with(&r)
	f.fold(&r)
	return f
}

func (f *Fleet) fold(r *events.Record) {
	switch b := r.Body.(type) {
	case events.Frozen:
		f.Frozen = &Freeze{
			Seq: r.Seq, Since: when(r),
			Actor: text(r.Actor, maxName), Reason: text(r.Reason, maxMessage),
		}
	case events.Unfrozen:
		f.Frozen = nil
	case events.LedBy:
		f.Leader = &Leader{Seq: r.Seq, Since: when(r), Controller: b.Controller, Incarnation: b.Incarnation}
	case events.Discovered:
		f.report(r, b.Source, func(n *SourceReport) {
			n.Accepted, n.Rejected, n.Error = len(b.Accepted), b.Rejected, ""
		})
	case events.SourceFailed:
		f.report(r, b.Source, func(n *SourceReport) { n.Error = text(b.Error, maxSourceError) })
	case events.Rejected:
		f.Rejections = appendBounded(f.Rejections, newRejection(r, b), rejectionsKept)
	default: // unreachable unless the catalogue got a kind that this fold lacks
	}
}

// report changes the report on a source, or makes one. In a full list a new one
// takes the place of the oldest.
func (f *Fleet) report(r *events.Record, src events.Source, change func(*SourceReport)) {
	src.Provider, src.Name, src.Level = text(src.Provider, maxName), text(src.Name, maxName), text(src.Level, maxName)
	src.Path = text(src.Path, maxPath)
	s := slices.Clone(f.Sources)
	at, known := slices.BinarySearchFunc(s, src, func(n SourceReport, src events.Source) int {
		return compareSources(n.Source, src)
	})
	if !known {
		s = slices.Insert(s, at, SourceReport{})
	}
	s[at].Source, s[at].Time = src, when(r)
	change(&s[at])
	if len(s) > sourcesKept {
		oldest := slices.MinFunc(s, func(a, b SourceReport) int {
			return cmp.Or(a.Time.Compare(b.Time), compareSources(a.Source, b.Source))
		})
		s = slices.DeleteFunc(s, func(n SourceReport) bool { return n == oldest })
	}
	f.Sources = s
}

func compareSources(a, b events.Source) int {
	return cmp.Or(cmp.Compare(a.Provider, b.Provider), cmp.Compare(a.Path, b.Path), cmp.Compare(a.Level, b.Level))
}

// appendBounded returns a new slice with the last of old, and n.
func appendBounded[T any](old []T, n T, limit int) []T {
	if len(old) >= limit {
		old = old[len(old)-limit+1:]
	}
	s := make([]T, len(old), len(old)+1)
	copy(s, old)
	return append(s, n)
}
