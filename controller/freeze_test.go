package controller

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolfleet/toolfleet/controller/request"
	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/projections"
)

// While the fleet is frozen nothing is assigned, moved or replaced. What is to
// stop is stopped, and all else is done when it is unfrozen.
func TestPlanWhileFrozen(t *testing.T) {
	w := two(t, remote("https://x.test"))
	w.declare("t", command("t"))
	w.settle()
	w.declare("u", command("u"))
	w.say(events.FleetChain(), events.Frozen{})
	w.settle()
	before := w.where("s") + " " + w.where("t")
	for a, c := range w.commands {
		if !c.Command.Frozen {
			t.Errorf("the command of %v does not say that it is frozen", a)
		}
	}
	want := map[events.Chain]string{events.InstanceChain("u", "0"): "the fleet is frozen"}
	if diff := cmp.Diff(want, Waiting(&w.history), cmp.AllowUnexported(events.Chain{})); diff != "" {
		t.Errorf("what waits (-want +got):\n%s", diff)
	}
	w.say(events.WorkerChain("a"), events.Draining{})
	w.say(events.WorkerChain("b"), events.Draining{})
	w.settle()
	if after := w.where("s") + " " + w.where("t"); after != before {
		t.Errorf("the instances are %s, and were %s", after, before)
	}
	if _, err := w.ask(request.Request{Verb: request.Stop, Server: "t"}); err != nil {
		t.Fatal(err)
	}
	w.settle()
	if got := w.where("t"); got != "" {
		t.Errorf("the stopped server has %s", got)
	}
	w.crash("a")
	w.say(events.WorkerChain("a"), events.Lost{Worker: "a"})
	w.settle()
	if i := w.history.Instance("s", "0"); i.State != projections.Lost {
		t.Errorf("the instance of a lost worker is %s", i.State)
	}
	w.say(events.WorkerChain("b"), events.Uncordoned{})
	w.settle()
	w.say(events.FleetChain(), events.Unfrozen{})
	w.settle()
	w.check()
}

// A surge that a freeze comes upon stays as it is.
func TestPlanOfASurgeThatIsFrozen(t *testing.T) {
	w := two(t, remote("https://x.test"))
	w.say(events.WorkerChain("a"), events.Draining{})
	w.carryOut(Plan(w.view(w.end()), w.commands, nil))
	w.say(events.FleetChain(), events.Frozen{})
	w.settle()
	if got := w.where("s"); got != "0:a 1:b" {
		t.Errorf("the instances are %s", got)
	}
	w.say(events.FleetChain(), events.Unfrozen{})
	w.settle()
	w.check()
	if got := w.where("s"); got != "1:b" {
		t.Errorf("the instances are %s", got)
	}
}

// What was told to stop before a freeze goes on with that.
func TestPlanOfAStopThatIsFrozen(t *testing.T) {
	w := newWorld(t)
	w.join("a", events.Joined{})
	w.declare("s", placed("x", events.Placement{Replicas: 2}))
	w.settle()
	w.declare("s", placed("x", events.Placement{Replicas: 1}))
	w.carryOut(Plan(w.view(w.end()), w.commands, nil))
	w.say(events.FleetChain(), events.Frozen{})
	w.settle()
	if got := w.where("s"); got != "0:a" {
		t.Errorf("the instances are %s", got)
	}
}
