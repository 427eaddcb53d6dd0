// Package sieve picks events out of a history: those that were asked for.
package sieve

import (
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/toolfleet/toolfleet/cmd/internal/exit"
	"github.com/toolfleet/toolfleet/cmd/internal/near"
	"github.com/toolfleet/toolfleet/events"
)

// Sieve lets those events through that fit everything that is set. The events of
// a history go through it in order.
type Sieve struct {
	// IDs of servers and workers: their chains, and those of a server's
	// instances.
	IDs []string
	// Workers wrote the events, were given an instance by them, or have them on
	// their chains.
	Workers []string
	Kinds   []string
	// Causes are ids of events or requests: what they led to, and what that led
	// to, themselves included.
	Causes []string
	Actors []string
	// Traces are trace ids, in hex.
	Traces []string

	// unseen are those of the ids of which no event came.
	unseen map[string]bool
	// led are the ids of all that the causes led to.
	led map[string]bool
}

// Register adds the flags to a command's.
func (s *Sieve) Register(flags *pflag.FlagSet) {
	flags.StringSliceVar(&s.Workers, "worker", nil, "only what the worker `ID` wrote, or what is about it")
	flags.StringSliceVar(&s.Kinds, "kind", nil, "only events of the `kind`, such as failed")
	flags.StringSliceVar(&s.Causes, "cause", nil, "only what the event or request with this `ID` led to, step by step")
	flags.StringSliceVar(&s.Actors, "actor", nil, "only what `WHO` asked for, such as ann@host or system:plan")
	flags.StringSliceVar(&s.Traces, "trace", nil, "only events of the trace with this `ID`")
}

// Begin makes the sieve ready, or says what was asked for that cannot be.
func (s *Sieve) Begin(ids []string) error {
	s.IDs, s.unseen, s.led = ids, make(map[string]bool), make(map[string]bool)
	for _, id := range ids {
		s.unseen[id] = true
	}
	for _, k := range s.Kinds {
		if !slices.Contains(events.Kinds(), events.Kind(k)) {
			all := make([]string, 0, len(events.Kinds()))
			for _, k := range events.Kinds() {
				all = append(all, string(k))
			}
			return exit.Usagef("--kind %q: there are no such events; the nearest are %s", k, strings.Join(nearest(k, all), ", "))
		}
	}
	for i, t := range s.Traces {
		if parts := strings.Split(t, "-"); len(parts) == 4 {
			t = parts[1] // a whole traceparent
		}
		s.Traces[i] = strings.ToLower(t)
	}
	for _, c := range s.Causes {
		s.led[c] = true
	}
	return nil
}

func nearest(name string, all []string) []string {
	if names := near.Names(name, all); len(names) > 0 {
		return names
	}
	return all
}

// Chains returns patterns of the only chains that can have what is wanted, as
// jetlog.Log.Select takes them; none if all can.
func (s *Sieve) Chains() (patterns []string) {
	for _, id := range s.IDs {
		if _, err := events.ParseServerID(id); err != nil {
			return nil // which no chain is about
		}
	}
	for _, id := range slices.Compact(slices.Sorted(slices.Values(s.IDs))) {
		patterns = append(patterns, "server."+id, "instance."+id+".*", "worker."+id)
	}
	if len(s.Causes) > 0 {
		return nil // what led to them may be anywhere
	}
	return patterns
}

// Wants says whether an event, the next one, is let through.
func (s *Sieve) Wants(r *events.Record) bool {
	caused := s.follows(r) // it counts for later ones even if it is not wanted itself
	if !s.about(r.Chain) || !caused {
		return false
	}
	_, trace, _ := strings.Cut(r.Trace.Parent, "-")
	trace, _, _ = strings.Cut(trace, "-")
	return anyOf(s.Kinds, string(r.Kind())) && anyOf(s.Actors, r.Actor) && anyOf(s.Traces, trace) && s.of(r)
}

func anyOf(wanted []string, has string) bool { return len(wanted) == 0 || slices.Contains(wanted, has) }

// about says whether a chain is one of those that are wanted: that of a server
// and of its instances, or that of a worker.
func (s *Sieve) about(c events.Chain) bool {
	for _, id := range s.IDs {
		if string(c.Server()) == id || string(c.Worker()) == id {
			s.unseen[id] = false
			return true
		}
	}
	return len(s.IDs) == 0
}

// of says whether an event is one of a worker's that are wanted.
func (s *Sieve) of(r *events.Record) bool {
	if len(s.Workers) == 0 {
		return true
	}
	_, writer, _ := strings.Cut(r.Source, "/worker/")
	named := []string{string(r.Chain.Worker()), writer}
	switch b := r.Body.(type) {
	case events.Assigned:
		named = append(named, string(b.Worker))
	case events.Lost:
		named = append(named, string(b.Worker))
	case events.MoveRequested:
		named = append(named, string(b.Worker))
	default:
	}
	return slices.ContainsFunc(named, func(w string) bool { return w != "" && slices.Contains(s.Workers, w) })
}

// follows says whether an event is one of the causes or follows from one.
func (s *Sieve) follows(r *events.Record) bool {
	if len(s.Causes) == 0 {
		return true
	}
	for _, id := range []string{string(r.ID), r.Cause, string(r.Correlation)} {
		if id != "" && s.led[id] {
			s.led[string(r.ID)] = true
			return true
		}
	}
	return false
}

// Unseen returns those of the ids of which no event came, in the order in which
// they were given.
func (s *Sieve) Unseen() (ids []string) {
	for _, id := range s.IDs {
		if s.unseen[id] {
			ids = append(ids, id)
		}
	}
	return ids
}
