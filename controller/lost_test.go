package controller

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/events/eventstest"
	"github.com/toolfleet/toolfleet/events/jetlog"
)

var instance0 = events.InstanceChain("s", "0")

// A leader that dies is followed by another controller within its TTL and a
// little more, and what has to be planned is planned.
func TestLeaderDies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		one := f.control("one", "1")
		first, who := f.leading(0)
		if who != "one" {
			t.Fatalf("%s leads", who)
		}
		two := f.control("two", "2")
		f.work("a")
		f.declare(two, "s", command("x"))
		f.ready(0, instance0)
		time.Sleep(time.Minute) // fake time
		died, before := time.Now(), f.head()
		one.kill()
		f.declare(two, "t", command("x"))
		_, who = f.leading(first.Seq)
		f.ready(before, events.InstanceChain("t", "0"))
		if d := time.Since(died); who != "two" || d < jetlog.LeaseTTL-4*time.Second || d > jetlog.LeaseTTL+2*time.Second {
			t.Errorf("%s leads and has planned after %s", who, d)
		}
		if all := f.losses(0); len(all) > 0 {
			t.Errorf("lost:\n%s", eventstest.Lines(all))
		}
	})
}

// One that ends in order leaves the lead to another at once; so does a process
// that takes over its folder.
func TestLeaderLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		one := f.control("one", "1")
		first, _ := f.leading(0)
		two := f.control("two", "2")
		time.Sleep(time.Minute) // fake time
		one.stop()
		begun := time.Now()
		second, who := f.leading(first.Seq)
		if d := time.Since(begun); who != "two" || d > 2*time.Second {
			t.Errorf("%s leads after %s", who, d)
		}
		for _, key := range []string{"leader", "controller.one"} {
			if _, err := f.log.Acquire(t.Context(), key, jetlog.Holder{Folder: "test", Incarnation: "1"}, nil); (err == nil) == (key == "leader") {
				t.Errorf("%s after a clean stop: %v", key, err)
			}
		}
		two.kill()
		begun = time.Now()
		f.control("two", "2")
		third, who := f.leading(second.Seq)
		if d := time.Since(begun); who != "two" || d > 2*time.Second {
			t.Errorf("the folder's next process leads after %s", d)
		}
		if a, b := second.Body.(events.LedBy), third.Body.(events.LedBy); a.Incarnation == b.Incarnation {
			t.Errorf("the same incarnation: %+v", b)
		}
	})
}

// A worker that dies is lost when the rule allows it, and what it ran is given
// to another one.
func TestWorkerDies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		c := f.control("one", "1")
		workers := map[events.WorkerID]*node{"a": f.work("a"), "b": f.work("b"), "c": f.work("c")}
		f.declare(c, "s", command("x"))
		was, listed := f.ready(0, instance0)
		time.Sleep(time.Minute) // fake time
		died := time.Now()
		workers[was.Worker].kill()
		found := eventstest.Expect(t, f.log, listed.Seq,
			eventstest.Want{Chain: events.WorkerChain(was.Worker), Kind: events.KindLost},
			eventstest.Want{Chain: instance0, Kind: events.KindLost},
			eventstest.Want{Chain: instance0, Kind: events.KindAssigned},
			eventstest.Want{Chain: instance0, Kind: events.KindToolsListed})
		// The last renewal was up to 4 s before.
		if d := time.Since(died); d < jetlog.LeaseTTL-4*time.Second || d > jetlog.LeaseTTL+5*time.Second {
			t.Errorf("it runs again after %s", d)
		}
		is := found[2].Body.(events.Assigned)
		if is.Worker == was.Worker || is.Epoch != was.Epoch+1 {
			t.Errorf("assigned to %s in epoch %d, after %s in epoch %d", is.Worker, is.Epoch, was.Worker, was.Epoch)
		}
		if lost := found[0]; lost.Actor != PlanActor || lost.Reason == "" {
			t.Errorf("lost is %+v", lost.Event)
		}
		if all := f.losses(0); len(all) != 1 {
			t.Errorf("lost:\n%s", eventstest.Lines(all))
		}
		// It comes back, as another incarnation, and is lost no more.
		again := f.work(string(was.Worker))
		joined := eventstest.Expect(t, f.log, found[3].Seq, eventstest.On(events.WorkerChain(was.Worker), events.KindJoined)...)[0]
		time.Sleep(5 * time.Minute)
		if all := f.losses(joined.Seq); len(all) > 0 {
			t.Errorf("lost:\n%s", eventstest.Lines(all))
		}
		again.stop()
	})
}

// A worker that leaves is not lost; what it ran moves at once.
func TestWorkerLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		c := f.control("one", "1")
		workers := map[events.WorkerID]*node{"a": f.work("a"), "b": f.work("b")}
		f.declare(c, "s", command("x"))
		was, listed := f.ready(0, instance0)
		workers[was.Worker].stop()
		begun := time.Now()
		is, _ := f.ready(listed.Seq, instance0)
		if d := time.Since(begun); is.Worker == was.Worker || is.Epoch != was.Epoch+1 || d > time.Second {
			t.Errorf("%+v after %+v, %s later", is, was, d)
		}
		time.Sleep(time.Minute) // fake time
		if all := f.losses(0); len(all) > 0 {
			t.Errorf("lost:\n%s", eventstest.Lines(all))
		}
	})
}

// A controller that was stopped for a while, with all that it saw last long ago,
// declares nobody lost: neither when all is well, nor when the workers' keys
// were gone meanwhile and they are about to come back.
func TestStoppedControllerBlamesNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		c := f.control("one", "1")
		workers := []*node{f.work("a"), f.work("b"), f.work("c")}
		f.declare(c, "s", placed("x", events.Placement{Replicas: 3}))
		f.ready(0, instance0)
		time.Sleep(time.Minute) // fake time
		for range 3 {
			c.pause(30 * time.Second)
			time.Sleep(time.Minute)
		}
		// The same while nobody's renewals are stored.
		for _, w := range workers {
			w.line.Cut()
		}
		c.line.Freeze()
		time.Sleep(30 * time.Second)
		c.line.Restore()
		time.Sleep(5 * time.Second)
		for _, w := range workers {
			w.line.Restore()
		}
		time.Sleep(5 * time.Minute)
		if all := f.losses(0); len(all) > 0 {
			t.Errorf("lost:\n%s", eventstest.Lines(all))
		}
	})
}

// After an outage of the bus for ten minutes workers join again; nobody says
// that they were lost.
func TestNobodyIsLostAfterAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		one := f.control("one", "1")
		nodes := []*node{one.node, f.control("two", "2").node, f.work("a"), f.work("b"), f.work("c")}
		f.declare(one, "s", placed("x", events.Placement{Replicas: 3}))
		f.ready(0, instance0)
		time.Sleep(time.Minute) // fake time
		for _, n := range nodes {
			n.line.Cut()
		}
		f.s.Stop()
		time.Sleep(10 * time.Minute)
		f.s.Start()
		after := f.head()
		for i, n := range nodes { // controllers are the first to be back
			time.AfterFunc(time.Duration(i)*3*time.Second, n.line.Restore)
		}
		f.ready(after, instance0)
		time.Sleep(5 * time.Minute)
		if all := f.losses(0); len(all) > 0 {
			t.Errorf("lost:\n%s", eventstest.Lines(all))
		}
	})
}

// A broker whose clock is set forward by an hour ends all keys at once.
func TestNobodyIsLostWhenTheBrokersClockIsSet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		one := f.control("one", "1")
		f.control("two", "2")
		for _, w := range []string{"a", "b", "c"} {
			f.work(w)
		}
		f.declare(one, "s", placed("x", events.Placement{Replicas: 3}))
		f.ready(0, instance0)
		time.Sleep(time.Minute) // fake time
		after := f.head()
		f.endKeys()
		f.ready(after, instance0)
		time.Sleep(5 * time.Minute)
		if all := f.losses(0); len(all) > 0 {
			t.Errorf("lost:\n%s", eventstest.Lines(all))
		}
	})
}
