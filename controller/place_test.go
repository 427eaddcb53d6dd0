package controller

import (
	"testing"

	"github.com/toolfleet/toolfleet/events"
)

// An assignment says why it was made, and why to that worker.
func TestReasonsOfAssignments(t *testing.T) {
	replicas := func(n events.Replicas) events.Definition { return placed("x", events.Placement{Replicas: n}) }
	overlap := remote("https://x.test")
	overlap.Update = "overlap"
	next := remote("https://y.test")
	next.Update = "overlap"
	for name, test := range map[string]struct {
		definition events.Definition
		workers    []events.WorkerID
		act        func(w *world)
		want       string // of the last assignment
	}{
		"the only one":     {command("x"), []events.WorkerID{"a"}, func(*world) {}, "placed: the only one that fits"},
		"a choice by hash": {command("x"), []events.WorkerID{"a", "b"}, func(*world) {}, "placed: by hash, of 2 with the fewest of 2 that fit"},
		"the fewest":       {replicas(2), []events.WorkerID{"a", "b"}, func(*world) {}, "placed: fewest of 2 that fit"},
		"one on each":      {replicas(events.EachWorker), []events.WorkerID{"a"}, func(*world) {}, "one on each worker: the only one that fits"},
		"lost": {command("x"), []events.WorkerID{"a"}, func(w *world) {
			w.join("b", events.Joined{})
			w.crash("a")
			w.say(events.WorkerChain("a"), events.Lost{Worker: "a"})
		}, "its worker was lost: the only one that fits"},
		"left": {command("x"), []events.WorkerID{"a"}, func(w *world) {
			w.join("b", events.Joined{})
			w.leave("a")
		}, "its worker left: the only one that fits"},
		"drained": {command("x"), []events.WorkerID{"a"}, func(w *world) {
			w.join("b", events.Joined{})
			w.say(events.WorkerChain("a"), events.Draining{})
		}, "its worker drains: the only one that fits"},
		"drained, with a surge": {remote("https://x.test"), []events.WorkerID{"a"}, func(w *world) {
			w.join("b", events.Joined{})
			w.say(events.WorkerChain("a"), events.Draining{})
		}, "worker a drains: the only one that fits"},
		"moved": {command("x"), []events.WorkerID{"a"}, func(w *world) {
			w.join("b", events.Joined{})
			w.move("s", "b")
		}, "it moves to b: as asked"},
		"updated": {overlap, []events.WorkerID{"a"}, func(w *world) {
			w.join("b", events.Joined{})
			w.declare("s", next)
		}, "an update replaces instance 0: fewest of 2 that fit"},
		"placed elsewhere": {command("x"), []events.WorkerID{"a"}, func(w *world) {
			w.join("b", events.Joined{})
			w.declare("s", placed("x", events.Placement{Worker: "b"}))
		}, "its placement excludes a: the only one that fits"},
		"started again": {command("x"), []events.WorkerID{"a"}, func(w *world) {
			w.say(events.ServerChain("s"), events.StopRequested{})
			w.settle()
			w.say(events.ServerChain("s"), events.StartRequested{})
		}, "placed: the only one that fits"},
		"another label": {placed("x", events.Placement{Labels: map[string]string{"zone": "1"}}), nil, func(w *world) {
			w.join("a", events.Joined{Labels: map[string]string{"zone": "1"}})
			w.settle()
			w.join("b", events.Joined{Labels: map[string]string{"zone": "1"}})
			w.join("a", events.Joined{Labels: map[string]string{"zone": "2"}}) // it comes back as another one
		}, "its worker was lost: the only one that fits"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			for _, id := range test.workers {
				w.join(id, events.Joined{})
			}
			w.declare("s", test.definition)
			w.settle()
			test.act(w)
			w.settle()
			w.check()
			got := ""
			for _, r := range w.records {
				if a, ok := r.Body.(events.Assigned); ok {
					got = a.Reason
				}
			}
			if got != test.want {
				t.Errorf("the reason is %q, want %q", got, test.want)
			}
		})
	}
}
