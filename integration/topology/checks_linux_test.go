//go:build topology

package topology

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/cockroachdb/errors"

	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/events/jetlog"
	"github.com/toolfleet/toolfleet/integration/invariants"
	"github.com/toolfleet/toolfleet/projections"
)

// history returns all events so far.
func (r *rig) history() []events.Record {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), within)
	defer cancel()
	head, err := r.log.Head(ctx)
	if err != nil {
		r.t.Fatal(err)
	}
	var all []events.Record
	for x, err := range r.log.Follow(ctx, 0, &jetlog.FollowOptions{Until: head.Seq}) {
		if err != nil {
			r.t.Fatal(err)
		}
		all = append(all, x)
	}
	return all
}

// fold returns what all events so far come to.
func (r *rig) fold() *projections.History {
	r.t.Helper()
	var h projections.History
	for _, x := range r.history() {
		h.Apply(x)
	}
	return &h
}

// leader returns the controller that leads, and the other one.
func (r *rig) leader() (leading, other *part) {
	r.t.Helper()
	name := r.fold().Fleet().Leader.Controller
	for _, p := range r.parts {
		switch {
		case p.service.Name == name:
			leading = p
		case role(p.service.Name) == "controller":
			other = p
		}
	}
	if leading == nil || other == nil {
		r.t.Fatalf("%q leads", name)
	}
	return leading, other
}

// owners returns the worker of each server that has one.
func (r *rig) owners() map[events.ServerID]string {
	r.t.Helper()
	all := make(map[events.ServerID]string)
	for i := range r.fold().Instances() {
		if i.State.Owned() {
			all[i.Server] = string(i.Worker)
		}
	}
	return all
}

// node returns the node of the bus that leads a stream, and one that does not.
func (r *rig) node(stream string) (leading, other *part) {
	r.t.Helper()
	r.eventually("a leader of "+stream, func() error {
		name, err := r.streamLeader(stream)
		leading = r.parts[name]
		if err == nil && leading == nil {
			err = errors.Newf("%s has no leader", stream)
		}
		return err
	})
	for _, n := range r.nodes {
		if n != leading {
			other = n
		}
	}
	return leading, other
}

// askWithin bounds a question to the bus, which has no answer without a leader.
const askWithin = 500 * time.Millisecond

func (r *rig) streamLeader(stream string) (string, error) {
	ctx, cancel := context.WithTimeout(r.t.Context(), askWithin)
	defer cancel()
	s, err := r.js.Stream(ctx, stream)
	if err != nil {
		return "", err
	}
	return s.CachedInfo().Cluster.Leader, nil
}

// replicated waits until each stream of the fleet is on all nodes, and these have
// all of it.
func (r *rig) replicated() {
	r.t.Helper()
	r.eventually("all replicas to be current", func() error {
		ctx, cancel := context.WithTimeout(r.t.Context(), askWithin)
		defer cancel()
		n := 0
		all := r.js.ListStreams(ctx)
		for s := range all.Info() {
			n++
			if s.Cluster == nil || s.Cluster.Leader == "" || len(s.Cluster.Replicas) != len(r.nodes)-1 {
				return errors.Newf("%s: %+v", s.Config.Name, s.Cluster)
			}
			for _, x := range s.Cluster.Replicas {
				if !x.Current || x.Offline {
					return errors.Newf("%s: %+v", s.Config.Name, x)
				}
			}
		}
		if n == 0 && all.Err() == nil {
			return errors.New("there are no streams")
		}
		return all.Err()
	})
}

// settled waits until what was asked of every server has ended, and checks what
// must hold.
func (r *rig) settled() {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), within)
	defer cancel()
	r.eventually("everything to be done", func() error { return invariants.Requests(ctx, r.log, r.accepted) })
	for _, err := range []error{
		r.ledger.Check(ctx, r.log),
		invariants.Views(ctx, r.log),
		invariants.Sessions(ctx, r.log, r.sessions),
		r.calls.Check(r.executed()),
	} {
		if err != nil {
			r.t.Error(err)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(r.servers)) {
		if err := r.record(id).Check(); err != nil {
			r.t.Error(err)
		}
	}
	ok, otherwise := r.calls.Count()
	r.t.Logf("%d events, %d of them acknowledged to a part; %d requests; %d calls with a result, %d without",
		len(r.history()), r.ledger.Len(), len(r.accepted), ok, otherwise)
}

// executed returns the calls that the servers noted.
func (r *rig) executed() (ids []string) {
	r.t.Helper()
	for id := range r.servers {
		noted, err := invariants.Noted(r.noted(id))
		if err != nil {
			r.t.Fatal(err)
		}
		ids = append(ids, noted...)
	}
	return ids
}

// ended stops everything, and checks what must hold then.
func (r *rig) ended() {
	r.t.Helper()
	for _, s := range r.sessions {
		s.Close()
	}
	r.each("worker", (*part).stop)
	if err := errors.CombineErrors(r.views(), invariants.NoneLeft(r.mark)); err != nil {
		r.t.Error(err)
	}
	r.each("controller", (*part).stop)
	r.nc.Close()
	r.each("nats", (*part).stop)
	for name, p := range r.parts {
		if p.cmd.ProcessState.ExitCode() != 0 && !strings.HasPrefix(name, "nats") {
			r.t.Errorf("%s ended with %v", name, p.cmd.ProcessState)
		}
	}
	r.telemetry.check(r.t, "metrics of toolfleet-controller", "metrics of toolfleet-worker", "traces of toolfleet-worker")
}
