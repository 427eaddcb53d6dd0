package kvview

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/projections"
)

// killAt runs a projector that ends at the n-th point of its work, and returns
// the points that it passed.
func (f *fleet) killAt(n int) (points []string) {
	f.t.Helper()
	ctx, cancel := context.WithCancel(f.t.Context())
	defer cancel()
	err := Project(ctx, f.log, &Options{hook: func(point string) {
		points = append(points, point)
		if len(points) == n || point == "after position" {
			cancel()
		}
	}})
	if err != nil {
		f.t.Errorf("killed at point %d: Project: %v", n, err)
	}
	return points
}

// A projector that is killed between any two writes leaves views that hold, and
// the next one goes on from them.
func TestKilledBetweenWrites(t *testing.T) {
	passed := make(map[string]bool)
	for n := 1; ; n++ {
		var points []string
		synctest.Test(t, func(t *testing.T) {
			f := newFleet(t)
			f.someLife(3)
			f.projectAll()
			f.say(events.ServerChain("s0"), events.Disabled{})
			f.say(events.InstanceChain("s0", "0"), events.Stopping{})
			f.ready("s1", "0", toolsJSON(50, "a", "b"))
			f.ready("s2", "0", toolsJSON(50, "c"))
			f.declare("new")

			points = f.killAt(n)
			f.verify()
			f.ready("s1", "0", toolsJSON(50, "a"))
			f.say(events.ServerChain("new"), events.Withdrawn{})
			f.projectAll()
			if v := f.verify(); v.position.Seq != f.history.Seq() {
				t.Errorf("killed at point %d: position %d, want %d", n, v.position.Seq, f.history.Seq())
			}
		})
		for _, p := range points {
			passed[p] = true
		}
		if len(points) < n {
			break // it came to its end before
		}
	}
	for _, p := range []string{"stored server.s0", "stored status.s1.0", "stored tools.s1.0", "before position", "after position"} {
		if !passed[p] {
			t.Errorf("never killed at %q; points: %v", p, passed)
		}
	}
}

// The same, when there was nothing before.
func TestKilledWhenNothingIsStored(t *testing.T) {
	for n := 1; n < 20; n += 3 {
		synctest.Test(t, func(t *testing.T) {
			f := newFleet(t)
			f.someLife(3)
			f.killAt(n)
			f.verify()
			f.projectAll()
			f.verify()
		})
	}
}

// witness records every update of the bucket until it is stopped, and proves
// that no entry goes back.
func (f *fleet) witness() (stop func() int) {
	ctx, cancel := context.WithCancel(f.t.Context())
	w, err := openWatch(ctx, f.stream(), subjectPrefix(fleetID), 0)
	if err != nil {
		f.t.Fatal(err)
	}
	seen, done := 0, make(chan struct{})
	go func() {
		defer close(done)
		orders := make(map[string]projections.Order)
		for {
			select {
			case u := <-w.updates:
				seen++
				order := positionOrEntry(f.t, &u)
				if order.Compare(orders[u.key]) < 0 {
					f.t.Errorf("%s went back from %v to %v", u.key, orders[u.key], order)
				}
				orders[u.key] = order
			case err := <-w.failed:
				f.t.Errorf("witness: %v", err)
				return
			case <-ctx.Done():
				return
			}
		}
	}()
	return func() int {
		synctest.Wait()
		cancel()
		<-done
		w.close()
		return seen
	}
}

func positionOrEntry(t testing.TB, u *update) projections.Order {
	if k, _ := parseKey(u.key); k.kind != positionKey {
		e, err := projections.DecodeRaw(u.data)
		if err != nil {
			t.Errorf("%s: %v", u.key, err)
			return projections.Order{}
		}
		return e.Order()
	}
	b := &bucket{}
	b.seePosition(u.data, u.revision)
	return b.position.Order()
}

// Two projectors at once do no harm: what they write is the same, and nothing
// goes back.
func TestTwoProjectors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		f.someLife(4)
		stopWitness := f.witness()
		first := f.project(f.openLog("first"), nil)
		second := f.project(f.openLog("second"), nil)
		for n := range 30 {
			f.ready(events.ServerID(fmt.Sprintf("s%d", n%4)), "0", toolsJSON(50, fmt.Sprintf("tool-%d", n)))
			if n == 15 { // one is replaced by another
				if err := first(); err != nil {
					t.Error(err)
				}
				first = f.project(f.openLog("third"), nil)
			}
			if n%7 == 0 {
				f.await(f.history.Seq())
				f.verify()
			}
		}
		f.await(f.history.Seq())
		f.verify()
		for _, stop := range []func() error{first, second} {
			if err := stop(); err != nil {
				t.Error(err)
			}
		}
		if seen := stopWitness(); seen < 50 {
			t.Errorf("the witness saw %d updates only", seen)
		}
	})
}

// Two projectors that begin at once on an empty bucket race for every key.
func TestTwoProjectorsRaceForEveryKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		f.someLife(20)
		stopWitness := f.witness()
		var meet sync.WaitGroup
		meet.Add(2)
		together := func() *Options {
			waited := false
			return &Options{Leads: func() bool {
				if !waited {
					waited = true
					meet.Done()
					meet.Wait()
				}
				return true
			}}
		}
		first := f.project(f.openLog("first"), together())
		second := f.project(f.openLog("second"), together())
		f.await(f.history.Seq())
		time.Sleep(time.Second)
		f.verify()
		for _, stop := range []func() error{first, second} {
			if err := stop(); err != nil {
				t.Error(err)
			}
		}
		// Each entry is written once: whoever comes second finds it.
		if seen, want := stopWitness(), len(f.read().raw); seen < want || seen > want+5 {
			t.Errorf("%d updates of %d entries", seen, want)
		}
	})
}

// What happens meanwhile does not put off what a projector without a leader does.
func TestStandbyIsNotPutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		f.someLife(2)
		f.project(f.openLog("standby"), &Options{Leads: func() bool { return false }})
		f.await(f.history.Seq())
		f.say(events.ServerChain("s0"), events.RestartRequested{})
		before, first := time.Now(), f.history.Seq()
		time.Sleep(9 * Patience / 10)
		f.say(events.ServerChain("s0"), events.RestartRequested{})
		f.await(first)
		if waited := time.Since(before); waited > Patience*11/10 {
			t.Errorf("the view came after %s", waited)
		}
	})
}

// A projector that does not lead writes only when the leader does not.
func TestStandby(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		f.someLife(2)
		standbyPoints := make(chan string, 1000)
		standby := f.project(f.openLog("standby"), &Options{
			Leads: func() bool { return false },
			hook:  func(p string) { standbyPoints <- p },
		})
		leader := f.project(f.openLog("leader"), nil)
		f.await(f.history.Seq())
		for range 5 {
			time.Sleep(700 * time.Millisecond)
			f.say(events.ServerChain("s0"), events.RestartRequested{})
		}
		time.Sleep(3 * Patience)
		if n := len(standbyPoints); n != 0 {
			t.Errorf("the standby wrote %d times while the leader did", n)
		}
		if err := leader(); err != nil {
			t.Error(err)
		}
		f.say(events.ServerChain("s1"), events.Disabled{})
		before := time.Now()
		f.await(f.history.Seq())
		if waited := time.Since(before); waited < Patience || waited > 2*Patience {
			t.Errorf("without a leader, the view came after %s", waited)
		}
		synctest.Wait()
		var points []string
		for len(standbyPoints) > 0 {
			points = append(points, <-standbyPoints)
		}
		slices.Sort(points)
		if diff := cmp.Diff([]string{"after position", "before position", "stored server.s1"}, points); diff != "" {
			t.Errorf("what the standby wrote (-want +got):\n%s", diff)
		}
		f.verify()
		if err := standby(); err != nil {
			t.Error(err)
		}
	})
}
