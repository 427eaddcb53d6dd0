package bubble

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toolfleet/toolfleet/controller/request"
	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/events/jetlog"
	"github.com/toolfleet/toolfleet/integration/invariants"
	"github.com/toolfleet/toolfleet/session"
)

// stream calls a tool in every session, again and again, until stop returns how
// many calls were answered. None may fail.
func (a *agents) stream(tool string, every time.Duration) (stop func() int) {
	ctx, cancel := context.WithCancel(a.t.Context())
	var all sync.WaitGroup
	var mu sync.Mutex
	answered := 0
	for name, s := range a.sessions {
		all.Go(func() {
			for ctx.Err() == nil {
				_, err := s.Call(context.WithoutCancel(ctx), tool, nil, &session.CallOptions{})
				if err != nil {
					a.t.Errorf("%s calls %s: %v", name, tool, err)
				}
				mu.Lock()
				answered++
				mu.Unlock()
				select {
				case <-time.After(every):
				case <-ctx.Done():
				}
			}
		})
	}
	return func() int {
		cancel()
		all.Wait()
		a.answered += answered
		return answered
	}
}

// owned waits until a server works and its owner is one that is asked for, and
// returns the owner.
func (a *agents) owned(id events.ServerID, by func(events.WorkerID) bool) events.WorkerID {
	a.t.Helper()
	end := time.After(limit)
	for _, s := range a.sessions {
		for {
			for _, n := range s.Status().Servers {
				if n.ID == id && n.State.Working() && by(n.Worker) {
					return n.Worker
				}
			}
			select {
			case <-s.Changes():
			case <-time.After(10 * time.Millisecond):
			case <-end:
				a.t.Fatalf("%s is not where it should be: %+v", id, s.Status().Servers)
			}
		}
	}
	return ""
}

func not(w events.WorkerID) func(events.WorkerID) bool {
	return func(x events.WorkerID) bool { return x != w && x != "" }
}

// A drained worker, and one that leaves, is taken over before it stops: calls
// wait at most, and those in flight end.
func TestDrainUnderCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		f.control("c1")
		workers := map[events.WorkerID]*node{"w1": f.work("w1"), "w2": f.work("w2")}
		views, err := invariants.Watch(t.Context(), f.log)
		if err != nil {
			t.Fatal(err)
		}
		a := f.agents()
		f.ask(request.Declare, "s", f.web.serve("s", "one", "slow"))
		stateful := f.web.serve("t", "one")
		stateful.Stateful = new(true)
		f.ask(request.Declare, "t", stateful)
		a.ready("s", "t")
		quick, slow, other := a.stream("s__one", 50*time.Millisecond), a.stream("s__slow", time.Millisecond), a.stream("t__one", 70*time.Millisecond)
		time.Sleep(time.Second)
		for range 2 {
			was := a.owner("s")
			begun := time.Now()
			f.askOf(request.Drain, was)
			is := a.owned("s", not(was))
			if d := time.Since(begun); d > time.Second {
				t.Errorf("drained after %v", d)
			}
			a.owned("t", not(was))
			time.Sleep(2 * slowly)
			f.askOf(request.Uncordon, was)
			time.Sleep(time.Second)
			if now := a.owner("s"); now != is {
				t.Errorf("it went on to %s", now)
			}
		}
		f.do(&request.Request{Verb: request.Move, Server: "s", Worker: string(a.owner("t"))})
		a.owned("s", func(w events.WorkerID) bool { return w == a.owner("t") })

		was := a.owner("s")
		begun := time.Now()
		workers[was].leave()
		left := time.Since(begun)
		a.owned("t", not(was))
		if d := time.Since(begun); a.owner("s") == was || left > 2*slowly || d > 2*slowly {
			t.Errorf("it left after %v", left)
		}
		for name, stop := range map[string]func() int{"quick": quick, "slow": slow, "stateful": other} {
			if n := stop(); n < 10 {
				t.Errorf("%d %s calls were answered", n, name)
			}
		}
		f.lacks(events.KindLost, events.KindFailed)
		f.quiet(a, views)
	})
}

// lacks fails if there are events of these kinds.
func (f *fleet) lacks(kinds ...events.Kind) {
	f.t.Helper()
	head, err := f.log.Head(f.t.Context())
	if err != nil {
		f.t.Fatal(err)
	}
	for r, err := range f.log.Follow(f.t.Context(), 0, &jetlog.FollowOptions{Until: head.Seq}) {
		if err != nil {
			f.t.Fatal(err)
		}
		for _, k := range kinds {
			if r.Kind() == k {
				f.t.Errorf("event %d on %s is %s", r.Seq, r.Chain, k)
			}
		}
	}
}

// A worker that leaves is no longer than a moment from being taken over, and one
// that dies no longer than its key lives.
func TestHowLongAServerIsAway(t *testing.T) {
	for name, test := range map[string]struct {
		end   func(*node)
		limit time.Duration
	}{
		"it leaves": {(*node).leave, time.Second},
		"it dies":   {(*node).kill, jetlog.LeaseTTL + 4*time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFleet(t)
				f.control("c1")
				f.control("c2")
				workers := map[events.WorkerID]*node{"w1": f.work("w1"), "w2": f.work("w2")}
				a := f.agents()
				f.ask(request.Declare, "s", f.web.serve("s", "one"))
				a.ready("s")
				time.Sleep(jetlog.LeaseTTL + time.Second) // the controllers have watched for a while
				was := a.owner("s")
				begun := time.Now()
				test.end(workers[was])
				a.owned("s", not(was))
				if d := time.Since(begun); d > test.limit {
					t.Errorf("it works elsewhere after %v", d)
				}
				a.call("s__one", nil)
			})
		})
	}
}

// The next request after the leader's death is answered at once, by another
// controller, which plans within the time that the lead takes.
func TestLeaderDiesUnderRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		leader := f.control("c1")
		f.work("w1")
		a := f.agents()
		f.ask(request.Declare, "s", f.web.serve("s", "one"))
		a.ready("s")
		f.control("c2")
		time.Sleep(jetlog.LeaseTTL)
		next := f.web.serve("t", "one")
		leader.kill()
		begun := time.Now()
		f.ask(request.Declare, "t", next)
		if d := time.Since(begun); d > time.Second {
			t.Errorf("the request was answered after %v", d)
		}
		a.call("s__one", nil) // what runs goes on
		a.ready("t")
		if d := time.Since(begun); d > jetlog.LeaseTTL+2*time.Second {
			t.Errorf("it was planned after %v", d)
		}
	})
}

// Clocks that are an hour off are of no consequence: neither that of leases, which
// begins anywhere, nor that which events are dated by.
func TestClocksAnHourOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		f.control("c1")
		workers := map[events.WorkerID]*node{
			"w1": f.workOn(f.nodeAhead("w1", time.Hour)), "w2": f.workOn(f.nodeAhead("w2", -time.Hour)),
		}
		a := f.agents()
		f.ask(request.Declare, "s", f.web.serve("s", "one"))
		f.ask(request.Declare, "t", f.web.serve("t", "one"))
		a.ready("s", "t")
		time.Sleep(2 * time.Minute)
		f.lacks(events.KindLost)
		f.ask(request.Restart, "s", nil)
		a.ready("s")
		for _, w := range []events.WorkerID{"w1", "w2"} { // each is the only one for a while
			begun := time.Now()
			f.loses(workers[w])
			for _, id := range []events.ServerID{"s", "t"} {
				a.owned(id, not(w))
			}
			if d := time.Since(begun); d > jetlog.LeaseTTL+4*time.Second {
				t.Errorf("%s was taken over after %v", w, d)
			}
			a.call("s__one", nil)
			ahead := workers[w].ahead
			workers[w] = f.workOn(f.nodeAhead(string(w), ahead))
			time.Sleep(time.Minute)
		}
	})
}

// While the fleet is frozen nothing begins by itself, and what is stopped stays so.
func TestFrozenFleet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		f.control("c1")
		workers := map[events.WorkerID]*node{"w1": f.work("w1"), "w2": f.work("w2")}
		views, err := invariants.Watch(t.Context(), f.log)
		if err != nil {
			t.Fatal(err)
		}
		a := f.agents()
		f.ask(request.Declare, "s", f.web.serve("s", "one"))
		a.ready("s")
		was := a.owner("s")
		f.do(&request.Request{Verb: request.Freeze, Reason: "release night"})
		f.loses(workers[was])
		time.Sleep(10 * time.Minute)
		a.call("s__one", session.ErrNotExecuted, session.ErrUnknownTool)
		f.do(&request.Request{Verb: request.Unfreeze})
		if is := a.owned("s", not("")); is == was {
			t.Errorf("it is on %s again", is)
		}
		a.call("s__one", nil)
		workers[was] = f.work(string(was))
		f.ask(request.Declare, "s", f.web.serve("s-next", "one"))
		a.ready("s")
		for range 25 { // for the ledger
			f.ask(request.Restart, "s", nil)
		}
		a.ready("s")
		f.quiet(a, views)
	})
}
