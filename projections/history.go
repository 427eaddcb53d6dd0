package projections

import (
	"cmp"
	"iter"
	"maps"
	"slices"

	"github.com/toolfleet/toolfleet/events"
)

// History is all folds of one fleet. The zero History stands before the first
// event.
//
// A History is used by one goroutine at a time. The states that it returns are
// never changed afterwards: the next event of a chain makes a new one.
type History struct {
	seq       events.Seq
	servers   map[events.ServerID]*Server
	instances map[events.ServerID]map[events.InstanceID]*Instance
	workers   map[events.WorkerID]*Worker
	fleet     *Fleet
}

// Apply folds a record and returns the chain whose state it changed, if only its
// tip: the zero Chain for a record that was folded before, or is on no chain.
// Records of one chain come in order. Whether there are gaps is not looked at:
// see [events.Verifier].
func (h *History) Apply(r events.Record) (changed events.Chain) {
	h.seq = max(h.seq, r.Seq)
	switch r.Chain.Kind() {
	case events.OfServer:
		return step(&h.servers, r.Chain.Server(), &r, EvolveServer)
	case events.OfInstance:
		of := h.instances[r.Chain.Server()]
		if of == nil {
			of = make(map[events.InstanceID]*Instance)
			put(&h.instances, r.Chain.Server(), of)
		}
		return step(&of, r.Chain.Instance(), &r, EvolveInstance)
	case events.OfWorker:
		return step(&h.workers, r.Chain.Worker(), &r, EvolveWorker)
	case events.OfFleet:
		if r.Seq <= h.Fleet().Seq {
			return events.Chain{}
		}
		f := EvolveFleet(*h.Fleet(), r)
		h.fleet = &f
		return r.Chain
	default:
		return events.Chain{}
	}
}

// state is what step needs to know of a state.
type state[S any] interface {
	*S
	At() events.Tip
}

func step[K comparable, S any, P state[S]](m *map[K]P, k K, r *events.Record, evolve func(S, events.Record) S) events.Chain {
	old := (*m)[k]
	if old == nil {
		old = new(S)
	}
	if r.Seq <= old.At().Seq {
		return events.Chain{}
	}
	n := evolve(*old, *r)
	put(m, k, &n)
	return r.Chain
}

func put[K comparable, V any](m *map[K]V, k K, v V) {
	if *m == nil {
		*m = make(map[K]V)
	}
	(*m)[k] = v
}

// Adopt puts stored states in the place of what the History has of their
// chains, so that a fold can go on where another stopped. A state is a *[Server],
// *[Instance], *[Worker] or *[Fleet], not nil, with its ids set; values of other
// types are ignored. It belongs to the History from then on: nobody may change
// it. The position of the History is [History.AdvanceTo]'s to set.
func (h *History) Adopt(states ...any) {
	for _, s := range states {
		switch s := s.(type) {
		case *Server:
			put(&h.servers, s.ID, s)
		case *Instance:
			of := h.instances[s.Server]
			put(&of, s.Instance, s)
			put(&h.instances, s.Server, of)
		case *Worker:
			put(&h.workers, s.ID, s)
		case *Fleet:
			h.fleet = s
		}
	}
}

// AdvanceTo says that all events up to seq are folded. A position before that of
// the History changes nothing.
func (h *History) AdvanceTo(seq events.Seq) { h.seq = max(h.seq, seq) }

// Seq returns the position up to which events were applied: the highest that
// [History.Apply] or [History.AdvanceTo] was given.
func (h *History) Seq() events.Seq { return h.seq }

// Tip returns the last event of a chain; the zero Tip if there is none.
func (h *History) Tip(c events.Chain) events.Tip {
	switch c.Kind() {
	case events.OfServer:
		if s := h.Server(c.Server()); s != nil {
			return s.Tip
		}
	case events.OfInstance:
		if i := h.Instance(c.Server(), c.Instance()); i != nil {
			return i.Tip
		}
	case events.OfWorker:
		if w := h.Worker(c.Worker()); w != nil {
			return w.Tip
		}
	case events.OfFleet:
		return h.Fleet().Tip
	}
	return events.Tip{}
}

// Tips returns the tips of all chains.
func (h *History) Tips() map[events.Chain]events.Tip {
	tips := make(map[events.Chain]events.Tip, len(h.servers)+len(h.instances)+len(h.workers)+1)
	for id, s := range h.servers {
		tips[events.ServerChain(id)] = s.Tip
	}
	for i := range h.Instances() {
		tips[events.InstanceChain(i.Server, i.Instance)] = i.Tip
	}
	for id, w := range h.workers {
		tips[events.WorkerChain(id)] = w.Tip
	}
	if t := h.Fleet().Tip; t.Seq > 0 {
		tips[events.FleetChain()] = t
	}
	return tips
}

// Server returns the state of a server, or nil.
func (h *History) Server(id events.ServerID) *Server { return h.servers[id] }

// Instance returns the state of an instance, or nil.
func (h *History) Instance(s events.ServerID, n events.InstanceID) *Instance {
	return h.instances[s][n]
}

// Worker returns the state of a worker, or nil.
func (h *History) Worker(id events.WorkerID) *Worker { return h.workers[id] }

var noFleet Fleet

// Fleet returns the state of the fleet itself: never nil, but the zero Fleet
// before the first event.
func (h *History) Fleet() *Fleet {
	if h.fleet == nil {
		return &noFleet
	}
	return h.fleet
}

// Servers returns the servers in the order of their ids.
func (h *History) Servers() iter.Seq[*Server] {
	return inOrder(h.servers, func(a, b *Server) int { return cmp.Compare(a.ID, b.ID) })
}

// Workers returns the workers in the order of their ids.
func (h *History) Workers() iter.Seq[*Worker] {
	return inOrder(h.workers, func(a, b *Worker) int { return cmp.Compare(a.ID, b.ID) })
}

// Instances returns the instances in the order of their servers and ids.
func (h *History) Instances() iter.Seq[*Instance] {
	return func(yield func(*Instance) bool) {
		for _, s := range slices.Sorted(maps.Keys(h.instances)) {
			for i := range h.InstancesOf(s) {
				if !yield(i) {
					return
				}
			}
		}
	}
}

// InstancesOf returns the instances of one server in the order of their ids.
func (h *History) InstancesOf(s events.ServerID) iter.Seq[*Instance] {
	return inOrder(h.instances[s], compareInstances)
}

func compareInstances(a, b *Instance) int {
	return cmp.Or(cmp.Compare(a.Server, b.Server), cmp.Compare(a.Instance, b.Instance))
}

func inOrder[K comparable, V any](m map[K]V, compare func(a, b V) int) iter.Seq[V] {
	return slices.Values(slices.SortedFunc(maps.Values(m), compare))
}

// Clone returns a History that goes on by itself. It shares the states, which
// never change.
func (h *History) Clone() *History {
	n := &History{
		seq:     h.seq,
		servers: maps.Clone(h.servers), instances: maps.Clone(h.instances), workers: maps.Clone(h.workers),
		fleet: h.fleet,
	}
	for s, of := range n.instances {
		n.instances[s] = maps.Clone(of)
	}
	return n
}
