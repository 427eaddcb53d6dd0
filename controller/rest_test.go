package controller

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/toolfleet/toolfleet/events"
)

// rest carries plans out until there is nothing to do, while no worker says a word.
func (w *world) rest(t interface{ Fatalf(string, ...any) }) {
	const enough = 8 // what one plan leads to is the next one's to do
	for range enough {
		decisions := Plan(w.view(w.end()), w.commands, nil)
		if len(decisions) == 0 {
			return
		}
		w.carryOut(decisions)
	}
	t.Fatalf("plans do not come to rest: %+v", Plan(w.view(w.end()), w.commands, nil))
}

// What a plan has decided the next one does not take back: workers may be slow.
func TestPlansRest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t)
		scenario(t, w)
		w.rest(t)
		w.workAll()
		w.rest(t)
	})
}

// One of two instances that depend on earlier calls stops for the move, and it is
// the same one however often that is planned.
func TestPlanMovesOneOfSeveralSlowly(t *testing.T) {
	w := newWorld(t)
	w.join("a", events.Joined{})
	w.declare("s", placed("x", events.Placement{Replicas: 2}))
	w.settle()
	w.join("b", events.Joined{})
	w.move("s", "b")
	w.rest(t)
	w.settle()
	w.check()
	at := make(map[events.WorkerID]int)
	for i := range w.history.InstancesOf("s") {
		if i.State.Owned() {
			at[i.Worker]++
		}
	}
	if at["a"] != 1 || at["b"] != 1 {
		t.Errorf("the instances are at %v", at)
	}
}
