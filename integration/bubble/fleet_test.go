// Package bubble runs whole fleets in fake time: a broker, controllers, workers
// and sessions, none of them pretended.
package bubble

import (
	"context"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/errors"

	"github.com/toolfleet/toolfleet/controller/request"
	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/events/eventstest"
	"github.com/toolfleet/toolfleet/integration/invariants"
	"github.com/toolfleet/toolfleet/session"
)

const servers = 5

// TestFleet is a day of a fleet: changes and calls, ten minutes without the
// broker, a worker and a leader that die, and changes and calls afterwards.
func TestFleet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		leader := f.control("c1")
		f.control("c2")
		workers := map[events.WorkerID]*node{"w1": f.work("w1"), "w2": f.work("w2"), "w3": f.work("w3")}
		views, err := invariants.Watch(t.Context(), f.log)
		if err != nil {
			t.Fatal(err)
		}
		a := f.agents()
		for i := range servers {
			f.ask(request.Declare, numbered(i), f.web.serve(string(numbered(i)), "one", "two"))
		}
		a.ready(numbered(0), numbered(1), numbered(2), numbered(3), numbered(4))
		a.call("s0__one", nil)
		a.call("s4__two", nil)
		f.ask(request.Restart, numbered(1), nil)
		f.ask(request.Declare, numbered(2), f.web.serve("s2-next", "two", "three"))
		f.ask(request.Disable, numbered(3), nil)
		a.lists("s0__one s0__two s1__one s1__two s2__three s2__two s4__one s4__two")
		a.call("s2__three", nil)
		a.call("s3__one", session.ErrNotExecuted, session.ErrUnknownTool)

		f.outage(10*time.Minute, func() {
			a.call("s0__one", session.ErrNotExecuted, session.ErrUnknownOutcome)
			f.ask(request.Stop, numbered(4), nil) // and is answered afterwards
			f.ask(request.Enable, numbered(3), nil)
		})
		a.ready(numbered(0), numbered(1), numbered(2), numbered(3))
		a.lists("s0__one s0__two s1__one s1__two s2__three s2__two s3__one s3__two")
		a.call("s0__two", nil)
		a.call("s3__one", nil)

		f.ask(request.Start, numbered(4), nil)
		f.ask(request.Withdraw, numbered(0), nil)
		f.ask(request.Declare, numbered(0), f.web.serve("s0-again", "four"))
		f.loses(workers[a.owner(numbered(1))])
		leader.kill()
		f.ask(request.Restart, numbered(1), nil)
		a.ready(numbered(0), numbered(1), numbered(2), numbered(3), numbered(4))
		a.lists("s0__four s1__one s1__two s2__three s2__two s3__one s3__two s4__one s4__two")
		for _, tool := range []string{"s0__four", "s1__one", "s2__two", "s3__two", "s4__one"} {
			a.call(tool, nil)
		}
		f.quiet(a, views)
	})
}

// outage stops the broker for a while. What is done meanwhile need not end
// before it is back.
func (f *fleet) outage(d time.Duration, meanwhile func()) {
	f.t.Helper()
	f.broker.Stop()
	var done sync.WaitGroup
	done.Go(meanwhile)
	time.Sleep(d)
	f.broker.Start()
	done.Wait()
}

// loses kills a worker and waits until it is written down as lost.
func (f *fleet) loses(n *node) {
	f.t.Helper()
	head, err := f.log.Head(f.t.Context())
	if err != nil {
		f.t.Fatal(err)
	}
	killed := time.Now()
	n.kill()
	ctx, cancel := context.WithTimeout(f.t.Context(), limit)
	defer cancel()
	for r, err := range f.log.Follow(ctx, head.Seq, nil) {
		if err != nil {
			f.t.Fatal(err)
		}
		if r.Chain == events.WorkerChain(events.WorkerID(n.name)) && r.Kind() == events.KindLost {
			return
		}
	}
	f.t.Fatalf("%s is not lost after %v", n.name, time.Since(killed))
}

// quiet waits until nothing happens any more, and checks what must hold then.
func (f *fleet) quiet(a *agents, views func() error) {
	f.t.Helper()
	time.Sleep(time.Minute) // of fake time: every deadline of a change is over
	ctx, cancel := context.WithTimeout(f.t.Context(), time.Minute)
	defer cancel()
	for _, err := range []error{
		f.ledger.Check(ctx, f.log),
		invariants.Views(ctx, f.log),
		invariants.Requests(ctx, f.log, f.accepted),
		invariants.Sessions(ctx, f.log, a.sessions),
		views(),
	} {
		if err != nil {
			f.t.Error(err)
		}
	}
	if n := f.web.called(); n < a.answered || n > a.answered+a.unknown {
		f.t.Errorf("invariant 9: %d calls were executed, %d have a result, of %d nobody knows", n, a.answered, a.unknown)
	}
	if n := f.ledger.Len(); n < 50 {
		f.t.Errorf("the ledger has %d events", n)
	}
	if f.t.Failed() {
		f.t.Log("\n" + eventstest.Lines(eventstest.Stored(f.t, f.log, 0)))
	}
}

// agents are two sessions in two processes.
type agents struct {
	t        *testing.T
	f        *fleet
	sessions map[string]*session.Session
	// answered calls have a result, and what became of the unknown ones nobody
	// knows.
	answered, unknown int
}

func (f *fleet) agents() *agents {
	f.t.Helper()
	a := &agents{t: f.t, f: f, sessions: make(map[string]*session.Session)}
	for _, id := range []string{"agent-1", "agent-2"} {
		s, err := session.Open(f.t.Context(), f.broker.Connect(id), &session.Options{Fleet: fleetID, ID: id})
		if err != nil {
			f.t.Fatal(err)
		}
		f.t.Cleanup(s.Close)
		a.sessions[id] = s
	}
	return a
}

// limit is fake time: more than any change takes.
const limit = 5 * time.Minute

// ready waits until the servers are ready in both sessions, as all requests made
// so far want them.
func (a *agents) ready(ids ...events.ServerID) {
	a.t.Helper()
	ctx, cancel := context.WithTimeout(a.t.Context(), limit)
	defer cancel()
	a.f.mu.Lock()
	var seq events.Seq
	for _, x := range a.f.accepted {
		seq = max(seq, x.Answer.Seq)
	}
	a.f.mu.Unlock()
	for name, s := range a.sessions {
		if err := errors.CombineErrors(s.Wait(ctx, seq), s.WaitReady(ctx, ids...)); err != nil {
			a.t.Fatalf("%s: %v", name, err)
		}
	}
}

// lists waits until both sessions offer exactly these tools, all of them live.
func (a *agents) lists(want string) {
	a.t.Helper()
	end := time.After(limit)
	for name, s := range a.sessions {
		for got := live(s); got != want; got = live(s) {
			select {
			case <-s.Changes():
			case <-end:
				a.t.Fatalf("%s lists %s, want %s", name, got, want)
			}
		}
	}
}

// owner returns the worker that has a server.
func (a *agents) owner(id events.ServerID) events.WorkerID {
	for _, s := range a.sessions {
		for _, n := range s.Status().Servers {
			if n.ID == id {
				return n.Worker
			}
		}
	}
	return ""
}

func live(s *session.Session) string {
	tools, _ := s.Tools()
	var names []string
	for i := range tools {
		name := tools[i].Name
		if tools[i].State != "live" {
			name += "?"
		}
		names = append(names, name)
	}
	return strings.Join(names, " ")
}

// call calls a tool in both sessions: it must be answered with server and tool,
// or end in one of the outcomes.
func (a *agents) call(tool string, outcomes ...error) {
	a.t.Helper()
	ctx, cancel := context.WithTimeout(a.t.Context(), time.Minute)
	defer cancel()
	for name, s := range a.sessions {
		r, err := s.Call(ctx, tool, nil, nil)
		host, what, _ := strings.Cut(tool, "__")
		switch {
		case err == nil:
			a.answered++
		case errors.Is(err, session.ErrUnknownOutcome):
			a.unknown++
		}
		switch {
		case outcomes[0] != nil && errors.IsAny(err, outcomes...):
		case outcomes[0] != nil || err != nil:
			a.t.Errorf("%s calls %s: %v, want %v", name, tool, err, outcomes)
		case !strings.Contains(string(r.JSON), `"text":"`+host) || !strings.Contains(string(r.JSON), " "+what+`"`):
			a.t.Errorf("%s calls %s: %s", name, tool, r.JSON)
		}
	}
}
