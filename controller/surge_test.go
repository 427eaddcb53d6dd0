package controller

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolfleet/toolfleet/controller/request"
	"github.com/toolfleet/toolfleet/events"
)

func remote(url string) events.Definition { return events.Definition{URL: url} }

func (w *world) say(c events.Chain, b events.Body) events.Record {
	w.t.Helper()
	return w.must(events.Event{Chain: c, Body: b})
}

// move asks for a server to move, where it may.
func (w *world) move(server, to string) {
	w.t.Helper()
	if _, err := w.ask(request.Request{Verb: request.Move, Server: server, Worker: to}); err != nil {
		w.t.Fatalf("%v", err)
	}
}

// two is a world in which a runs the server and b has just joined, as event 7.
func two(t *testing.T, d events.Definition) *world {
	w := newWorld(t)
	w.declare("s", d)
	w.join("a", events.Joined{})
	w.settle()
	w.join("b", events.Joined{})
	w.expect()
	return w
}

// Another instance takes the place of one that has to go, before that one is
// stopped. It is another instance: nobody shares one.
func TestPlanOfASurge(t *testing.T) {
	x, y := remote("https://x.test"), remote("https://y.test")
	x.Update, y.Update = "overlap", "overlap"
	stateful := command("x")
	stateful.Update = "overlap"
	next := command("y")
	next.Update = "overlap"
	for name, test := range map[string]struct {
		first events.Definition
		act   func(w *world) // event 8
		want  [][]string     // plans; nil lets the workers work
	}{
		"draining": {
			x, func(w *world) { w.say(events.WorkerChain("a"), events.Draining{}) },
			[][]string{
				{
					"instance.s.1 after 0: assigned epoch 1 to b (b-1) by id-1",
					"a/s/0 after 1: running epoch 1 generation 1 restart 0 for a-1 by id-8", // it is told that it was heard
				},
				{"b/s/1 after 0: running epoch 1 generation 1 restart 0 for b-1 by id-9"},
				{}, // it is being started
				nil,
				{"a/s/0 after 2: stopped epoch 1 generation 1 restart 0 for a-1 by id-8"},
				nil,
				{"instance.s.0 after 13: released epoch 1 by id-1"},
				{"a/s/0 purged up to 4"},
			},
		},
		"an update": {
			x, func(w *world) { w.declare("s", y) },
			[][]string{
				{"instance.s.1 after 0: assigned epoch 1 to b (b-1) by id-8"},
				{"b/s/1 after 0: running epoch 1 generation 8 restart 0 for b-1 by id-9"},
				nil,
				{"a/s/0 after 1: stopped epoch 1 generation 8 restart 0 for a-1 by id-8"},
				nil,
				{"instance.s.0 after 13: released epoch 1 by id-8"},
				{"server.s after 8: update-settled epoch 0 by id-8", "a/s/0 purged up to 3"},
			},
		},
		"an update of a stateful server that is to overlap": {
			stateful, func(w *world) { w.declare("s", next) },
			[][]string{
				{"instance.s.1 after 0: assigned epoch 1 to b (b-1) by id-8"},
				{"b/s/1 after 0: running epoch 1 generation 8 restart 0 for b-1 by id-9"},
				nil,
				{"a/s/0 after 1: stopped epoch 1 generation 8 restart 0 for a-1 by id-8"},
			},
		},
		"a drain of a stateful server": {
			stateful, func(w *world) { w.say(events.WorkerChain("a"), events.Draining{}) },
			[][]string{{"a/s/0 after 1: stopped epoch 1 generation 1 restart 0 for a-1 by id-8"}},
		},
		"a move": {
			x, func(w *world) { w.move("s", "b") },
			[][]string{
				{"instance.s.1 after 0: assigned epoch 1 to b (b-1) by id-8"},
				{"b/s/1 after 0: running epoch 1 generation 8 restart 0 for b-1 by id-9"},
				nil,
				{"a/s/0 after 1: stopped epoch 1 generation 8 restart 0 for a-1 by id-8"},
			},
		},
		"a move of a stateful server": {
			command("x"), func(w *world) { w.move("s", "b") },
			[][]string{
				{"a/s/0 after 1: stopped epoch 1 generation 8 restart 0 for a-1 by id-8"},
				nil,
				{"instance.s.0 after 9: released epoch 1 by id-8"},
				{"instance.s.0 after 10: assigned epoch 2 to b (b-1) by id-8", "a/s/0 purged up to 2"},
			},
		},
		"another placement": {
			x, func(w *world) {
				d := x
				d.Placement = &events.Placement{Worker: "b"}
				w.declare("s", d)
			},
			[][]string{
				{"instance.s.1 after 0: assigned epoch 1 to b (b-1) by id-8"},
				{"b/s/1 after 0: running epoch 1 generation 8 restart 0 for b-1 by id-9"},
				nil,
				{"a/s/0 after 1: stopped epoch 1 generation 8 restart 0 for a-1 by id-8"},
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := two(t, test.first)
			test.act(w)
			for _, want := range test.want {
				switch {
				case want == nil:
					w.workAll()
				case len(want) == 0:
					w.expect()
				default:
					w.expect(want...)
				}
			}
			w.settle()
			w.check()
		})
	}
}

// Where nobody else may take it there is no surge: it is stopped, and waits; or,
// if it may stay, it is updated where it is.
func TestPlanWithoutRoomForASurge(t *testing.T) {
	w := newWorld(t)
	w.declare("s", remote("https://x.test"))
	w.join("a", events.Joined{})
	w.settle()
	w.say(events.WorkerChain("a"), events.Draining{})
	w.expect("a/s/0 after 1: stopped epoch 1 generation 1 restart 0 for a-1 by id-7")
	w.workAll()
	w.settle()
	want := map[events.Chain]string{events.InstanceChain("s", "0"): "no worker may take it: 1 draining"}
	if diff := cmp.Diff(want, Waiting(&w.history), cmp.AllowUnexported(events.Chain{})); diff != "" {
		t.Errorf("what waits (-want +got):\n%s", diff)
	}
	w.join("b", events.Joined{})
	w.settle()
	w.check()

	w = newWorld(t)
	x, y := remote("https://x.test"), remote("https://y.test")
	x.Update, y.Update = "overlap", "overlap"
	w.declare("s", x)
	w.join("a", events.Joined{Capacity: 1})
	w.settle()
	w.declare("s", y) // 7
	w.expect("a/s/0 after 1: running epoch 1 generation 7 restart 0 for a-1 by id-7")
	w.settle()
	w.check()
}

// A surge that does not come to work takes nothing away, and one that is needed
// no more is given up.
func TestPlanOfASurgeThatFails(t *testing.T) {
	w := two(t, remote("https://x.test"))
	w.say(events.WorkerChain("a"), events.Draining{})
	w.carryOut(Plan(w.view(w.end()), w.commands, nil))
	w.carryOut(Plan(w.view(w.end()), w.commands, nil))
	fail := func() {
		w.must(events.Event{Chain: events.InstanceChain("s", "1"), Epoch: 1, Body: events.Failed{
			Failure: events.NewFailure(events.ConnectionRefused, events.PhaseConnect, ""), Attempt: 1,
		}})
	}
	w.must(events.Event{Chain: events.InstanceChain("s", "1"), Epoch: 1, Body: events.Connecting{Attempt: 1, Generation: 1}})
	fail()
	w.expect()
	w.must(events.Event{Chain: events.InstanceChain("s", "1"), Epoch: 1, Body: events.Parked{}})
	w.expect()
	w.say(events.WorkerChain("a"), events.Uncordoned{}) // 14
	w.expect("b/s/1 after 3: stopped epoch 1 generation 1 restart 0 for b-1 by id-9")
	w.settle()
	w.check()
	if i := w.history.Instance("s", "0"); i.Worker != "a" || i.Epoch != 1 {
		t.Errorf("instance 0 is with %s in epoch %d", i.Worker, i.Epoch)
	}
}

// An instance on each worker is named by the worker: nothing can take its place.
func TestPlanOfADrainWhereThereIsOneOnEach(t *testing.T) {
	each := remote("https://x.test")
	each.Placement = &events.Placement{Replicas: events.EachWorker}
	w := newWorld(t)
	w.declare("s", each)
	w.join("a", events.Joined{})
	w.join("b", events.Joined{})
	w.settle()
	drained := w.say(events.WorkerChain("a"), events.Draining{})
	w.expect(fmt.Sprintf("a/s/a after 1: stopped epoch 1 generation 1 restart 0 for a-1 by %s", drained.ID))
	w.settle()
	w.check()
	// What a worker that is away or drained does not have is not missed.
	if waits := Waiting(&w.history); len(waits) > 0 {
		t.Errorf("what waits is %v", waits)
	}
	w.crash("b")
	w.say(events.WorkerChain("b"), events.Lost{Worker: "b"})
	w.settle()
	if waits := Waiting(&w.history); len(waits) > 0 {
		t.Errorf("what waits is %v", waits)
	}
	// A cordoned one keeps its own, and gets none.
	w.say(events.WorkerChain("a"), events.Uncordoned{})
	w.settle()
	w.say(events.WorkerChain("a"), events.Cordoned{})
	w.join("b", events.Joined{})
	w.say(events.WorkerChain("b"), events.Cordoned{})
	w.settle()
	if got := w.where("s"); got != "a:a" {
		t.Errorf("the instances are %s", got)
	}
}

// where says which instances of a server have which owner.
func (w *world) where(s events.ServerID) (all string) {
	for i := range w.history.InstancesOf(s) {
		if i.State.Owned() {
			if all != "" {
				all += " "
			}
			all += string(i.Instance) + ":" + string(i.Worker)
		}
	}
	return all
}

// A move holds for one assignment: nothing brings the server back afterwards,
// and what is placed anew meanwhile goes to where it was asked to.
func TestPlanOfAMoveThatWasMade(t *testing.T) {
	for name, d := range map[string]events.Definition{"stateful": command("x"), "stateless": remote("https://x.test")} {
		t.Run(name, func(t *testing.T) {
			w := two(t, d)
			w.join("c", events.Joined{})
			owner := func() events.WorkerID {
				w.settle()
				w.check()
				for i := range w.history.InstancesOf("s") {
					if i.State.Owned() {
						return i.Worker
					}
				}
				return ""
			}
			for _, to := range []events.WorkerID{"b", "c", "a"} {
				if w.move("s", string(to)); owner() != to {
					t.Fatalf("it is with %s, not %s", owner(), to)
				}
			}
			w.say(events.WorkerChain("a"), events.Draining{})
			went := owner()
			w.say(events.WorkerChain("a"), events.Uncordoned{})
			if got := owner(); got != went || got == "a" {
				t.Errorf("after a drain it is with %s, before that with %s", got, went)
			}
			// The worker goes before the move is made: the next assignment is elsewhere.
			to := map[events.WorkerID]events.WorkerID{"b": "c", "c": "b"}[went]
			w.move("s", string(to))
			w.leave(to)
			w.say(events.WorkerChain(went), events.Draining{})
			if got := owner(); got != "a" {
				t.Errorf("it is with %s, not a", got)
			}
			w.join(to, events.Joined{})
			if got := owner(); got != "a" {
				t.Errorf("it is with %s, not a, after %s came back", got, to)
			}
		})
	}
}

// Of several instances one moves.
func TestPlanMovesOneOfSeveral(t *testing.T) {
	d := remote("https://x.test")
	d.Placement = &events.Placement{Replicas: 2}
	w := newWorld(t)
	w.join("a", events.Joined{})
	w.join("b", events.Joined{})
	w.declare("s", d)
	w.settle()
	w.join("c", events.Joined{})
	for range 2 { // the second changes nothing
		w.move("s", "c")
		w.settle()
		w.check()
	}
	on := map[events.WorkerID]int{}
	for i := range w.history.InstancesOf("s") {
		if i.State.Owned() {
			on[i.Worker]++
		}
	}
	if on["c"] != 1 || len(on) != 2 {
		t.Errorf("instances are on %v", on)
	}
}

// A worker's clock is of no consequence: what is planned is the same whatever
// time its events have.
func TestPlanKnowsNoTime(t *testing.T) {
	w := two(t, remote("https://x.test"))
	w.say(events.WorkerChain("a"), events.Draining{})
	w.settle()
	w.join("c", events.Joined{})
	w.crash("b")
	for seq := range w.end() {
		right, wrong := w.view(seq), &View{}
		for _, r := range w.records[:seq] {
			if r.Chain.Kind() != events.OfServer {
				r.Time = r.Time.Add(-3600e9)
			}
			wrong.Apply(r)
		}
		for _, lost := range []Lost{nil, {"b": "b-1"}} {
			if diff := cmp.Diff(show(Plan(right, w.commands, lost)), show(Plan(wrong, w.commands, lost))); diff != "" {
				t.Errorf("at %d (-right +wrong):\n%s", seq, diff)
			}
		}
	}
}
