//go:build real

package real

import (
	"context"
	"slices"
	"time"

	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/projections"
	"github.com/toolfleet/toolfleet/session"
)

// ready waits until all servers are.
func (f *fleet) ready() {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(f.t.Context(), 2*hang) // node starts slowly
	defer cancel()
	if err := f.session.WaitReady(ctx); err != nil {
		f.t.Fatal(err)
	}
}

// follow returns what the session knew at each of its signals, until that holds.
func (f *fleet) follow(what string, until func(*session.Status) bool) (seen []session.Status) {
	f.t.Helper()
	limit := time.NewTimer(hang)
	defer limit.Stop()
	for {
		n := f.session.Status()
		seen = append(seen, n)
		if until(&n) {
			return seen
		}
		select {
		case <-f.session.Changes():
		case err := <-f.ended:
			f.ended <- err
			f.t.Fatalf("waiting until %s: toolfleet up ended: %v", what, err)
		case <-limit.C:
			for _, s := range n.Servers {
				f.t.Logf("%s: %s, %d %s tools, %d restarts, %v", s.ID, s.State, s.Tools, s.ToolsState, s.Restarts, s.Failure)
			}
			f.t.Fatalf("%s: not within %v", what, hang)
		}
	}
}

// status returns what the session knows of a server.
func (f *fleet) status(id events.ServerID) projections.Status {
	f.t.Helper()
	n := f.session.Status()
	s := serverOf(&n, id)
	if s == nil {
		f.t.Fatalf("the session does not see %s", id)
	}
	return *s
}

func serverOf(n *session.Status, id events.ServerID) *projections.Status {
	i := slices.IndexFunc(n.Servers, func(s projections.Status) bool { return s.ID == id })
	if i < 0 {
		return nil
	}
	return &n.Servers[i]
}

// listed maps the tools of servers, as they were sent, to their state.
type listed map[string]projections.ToolsState

func listing(n *session.Status, of func(events.ServerID) bool) listed {
	l := make(listed)
	for i := range n.Tools {
		if t := &n.Tools[i]; of(t.Server) {
			l[t.Name+" "+string(t.Definition)] = t.State
		}
	}
	return l
}

// in says whether all tools are in one of the states.
func (l listed) in(states ...projections.ToolsState) bool {
	for _, s := range l {
		if !slices.Contains(states, s) {
			return false
		}
	}
	return len(l) > 0
}

// same says whether the tools are the same, whatever their states.
func (l listed) same(as listed) bool {
	for t := range l {
		if _, ok := as[t]; !ok {
			return false
		}
	}
	return len(l) == len(as)
}

func only(id events.ServerID) func(events.ServerID) bool {
	return func(s events.ServerID) bool { return s == id }
}

func except(id events.ServerID) func(events.ServerID) bool {
	return func(s events.ServerID) bool { return s != id }
}

// undisturbed checks that no status lacks a tool of the servers that it is not
// about, or shows one that is not live.
// R16
func (f *fleet) undisturbed(before listed, id events.ServerID, seen []session.Status) {
	f.t.Helper()
	for i := range seen {
		if l := listing(&seen[i], except(id)); !l.same(before) || !l.in(projections.ToolsLive) {
			f.t.Errorf("as of event %d, with %s on its way, the others had %d live tools of %d",
				seen[i].AsOf.Seq, id, len(l), len(before))
		}
	}
}
