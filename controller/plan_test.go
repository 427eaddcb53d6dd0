package controller

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolfleet/toolfleet/controller/request"
	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/projections"
)

func command(name string) events.Definition { return events.Definition{Command: name} }

func placed(name string, p events.Placement) events.Definition {
	d := command(name)
	d.Placement = &p
	return d
}

// show says what decisions are, one a line.
func show(decisions []Decision) (lines []string) {
	for _, d := range decisions {
		switch d := d.(type) {
		case Append:
			line := fmt.Sprintf("%s after %d: %s epoch %d", d.Event.Chain, d.Tip.Seq, d.Event.Kind(), d.Event.Epoch)
			if a, ok := d.Event.Body.(events.Assigned); ok {
				line += fmt.Sprintf(" to %s (%s)", a.Worker, a.Incarnation)
			}
			lines = append(lines, line+" by "+d.Event.Cause)
		case Order:
			lines = append(lines, fmt.Sprintf("%s/%s/%s after %d: %s epoch %d generation %d restart %d for %s by %s", d.To.Worker, d.To.Server,
				d.To.Instance, d.Seen, d.Command.Want, d.Command.Epoch, d.Command.Generation, d.Command.Restart, d.Command.Incarnation, d.Command.Cause))
		case Purge:
			lines = append(lines, fmt.Sprintf("%s/%s/%s purged up to %d", d.Of.Worker, d.Of.Server, d.Of.Instance, d.UpTo))
		}
	}
	return lines
}

// expect compares the next plan, and carries it out.
func (w *world) expect(want ...string) {
	w.t.Helper()
	w.expectWith(nil, want...)
}

// expectWith is expect where workers turn out to be lost.
func (w *world) expectWith(lost Lost, want ...string) {
	w.t.Helper()
	decisions := Plan(w.view(w.end()), w.commands, lost)
	if diff := cmp.Diff(want, show(decisions)); diff != "" {
		w.t.Fatalf("plan (-want +got):\n%s", diff)
	}
	w.carryOut(decisions)
}

// A server's whole life, step by step: who is told what, and after which event.
func TestPlanOfALife(t *testing.T) {
	w := newWorld(t)
	w.expect()
	w.declare("s", command("x")) // 1
	w.expect()                   // nobody to run it
	w.join("a", events.Joined{}) // 2
	w.expect("instance.s.0 after 0: assigned epoch 1 to a (a-1) by id-1")
	w.expect("a/s/0 after 0: running epoch 1 generation 1 restart 0 for a-1 by id-3")
	w.expect() // it is being started
	w.workAll()
	w.expect()

	w.must(events.Event{Chain: events.ServerChain("s"), Body: events.RestartRequested{}}) // 7
	w.expect("a/s/0 after 1: running epoch 1 generation 7 restart 7 for a-1 by id-7")
	w.workAll()
	w.declare("s", command("y")) // 11: another definition is another command
	w.expect("a/s/0 after 2: running epoch 1 generation 11 restart 7 for a-1 by id-11")
	w.workAll()
	w.must(events.Event{Chain: events.ServerChain("s"), Body: events.UpdateSettled{}}) // 15
	w.expect()                                                                         // which changes nothing that runs

	w.must(events.Event{Chain: events.ServerChain("s"), Body: events.Disabled{}}) // 16
	w.expect("a/s/0 after 3: stopped epoch 1 generation 16 restart 7 for a-1 by id-16")
	w.expect() // it is being stopped
	w.workAll()
	w.expect("instance.s.0 after 17: released epoch 1 by id-16")
	w.expect("a/s/0 purged up to 4")
	w.expect()
	w.must(events.Event{Chain: events.ServerChain("s"), Body: events.Enabled{}}) // 19
	w.expect("instance.s.0 after 18: assigned epoch 2 to a (a-1) by id-19")
	w.expect("a/s/0 after 0: running epoch 2 generation 19 restart 7 for a-1 by id-20")
	w.workAll()
	w.must(events.Event{Chain: events.ServerChain("s"), Body: events.Withdrawn{}}) // 24
	w.expect("a/s/0 after 5: stopped epoch 2 generation 24 restart 7 for a-1 by id-24")
	w.workAll()
	w.expect("instance.s.0 after 25: released epoch 2 by id-24")
	w.expect("a/s/0 purged up to 6")
	w.check()
}

// An update that needs no other connection is settled by the one that there is.
func TestPlanSettlesWhatNeedsNoConnection(t *testing.T) {
	w := newWorld(t)
	w.declare("s", command("x"))
	w.join("a", events.Joined{})
	w.settle()
	labelled := command("x")
	labelled.Labels = map[string]string{"team": "blue"}
	w.declare("s", labelled) // 7
	w.expect(
		"a/s/0 after 1: running epoch 1 generation 7 restart 0 for a-1 by id-7",
		"server.s after 7: update-settled epoch 0 by id-7")
	// With another connection it waits.
	w.declare("s", command("y")) // 9
	w.expect("a/s/0 after 2: running epoch 1 generation 9 restart 0 for a-1 by id-9")
	w.workAll()
	w.expect("server.s after 9: update-settled epoch 0 by id-9")
}

// Handover is stop, then start: nothing is assigned before the former owner is
// through.
func TestPlanOfAHandover(t *testing.T) {
	for name, test := range map[string]struct {
		end  func(w *world) // event 8, and on
		want [][]string     // plans; nil lets the workers work, and there is nothing to plan before
	}{
		"draining": {
			func(w *world) { w.must(events.Event{Chain: events.WorkerChain("a"), Body: events.Draining{}}) },
			[][]string{
				{"a/s/0 after 1: stopped epoch 1 generation 1 restart 0 for a-1 by id-8"},
				nil,
				{"instance.s.0 after 9: released epoch 1 by id-1"},
				{"instance.s.0 after 10: assigned epoch 2 to b (b-1) by id-1", "a/s/0 purged up to 2"},
				{"b/s/0 after 0: running epoch 2 generation 1 restart 0 for b-1 by id-11"},
			},
		},
		"another placement": {
			func(w *world) { w.declare("s", placed("x", events.Placement{Worker: "b"})) },
			[][]string{
				{"a/s/0 after 1: stopped epoch 1 generation 8 restart 0 for a-1 by id-8"},
				nil,
				{"instance.s.0 after 9: released epoch 1 by id-8"},
				{"instance.s.0 after 10: assigned epoch 2 to b (b-1) by id-8", "a/s/0 purged up to 2"},
				{"b/s/0 after 0: running epoch 2 generation 8 restart 0 for b-1 by id-11"},
				nil,
				{"server.s after 8: update-settled epoch 0 by id-8"},
			},
		},
		"left": {
			func(w *world) { w.leave("a") },
			[][]string{
				{"instance.s.0 after 8: released epoch 1 by id-9"},
				{"instance.s.0 after 10: assigned epoch 2 to b (b-1) by id-1", "a/s/0 purged up to 1"},
				{"b/s/0 after 0: running epoch 2 generation 1 restart 0 for b-1 by id-11"},
			},
		},
		"crashed": {
			func(w *world) { w.crash("a") },
			[][]string{nil}, // and nobody wrote it down
		},
		"lost": {
			func(w *world) {
				w.crash("a")
				w.must(events.Event{Chain: events.WorkerChain("a"), Body: events.Lost{Worker: "a"}})
			},
			[][]string{
				{"instance.s.0 after 6: lost epoch 1 by id-8"},
				{"instance.s.0 after 9: assigned epoch 2 to b (b-1) by id-1", "a/s/0 purged up to 1"},
				{"b/s/0 after 0: running epoch 2 generation 1 restart 0 for b-1 by id-10"},
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.declare("s", command("x"))
			w.join("a", events.Joined{})
			w.settle()
			w.join("b", events.Joined{}) // 7
			w.expect()                   // which moves nothing
			test.end(w)
			for _, want := range test.want {
				w.expect(want...)
				if want == nil {
					w.workAll()
				}
			}
			w.workAll()
			w.expect()
		})
	}
}

// A worker that joins again has nothing of its former life.
func TestPlanAfterANewIncarnation(t *testing.T) {
	w := newWorld(t)
	w.declare("s", command("x"))
	w.join("a", events.Joined{})
	w.settle()
	w.crash("a")
	w.expect()                   // nobody knows yet
	w.join("a", events.Joined{}) // 7
	w.expect("instance.s.0 after 6: lost epoch 1 by id-7")
	w.expect("instance.s.0 after 8: assigned epoch 2 to a (a-2) by id-1", "a/s/0 purged up to 1")
	w.expect("a/s/0 after 0: running epoch 2 generation 1 restart 0 for a-2 by id-9")
	w.settle()
	w.check()
}

// A stop that hangs keeps the instance where it is.
func TestPlanGivesAHungInstanceToNobody(t *testing.T) {
	w := newWorld(t)
	w.declare("s", command("x"))
	w.join("a", events.Joined{})
	w.settle()
	w.join("b", events.Joined{})
	w.must(events.Event{Chain: events.WorkerChain("a"), Body: events.Draining{}})
	w.expect("a/s/0 after 1: stopped epoch 1 generation 1 restart 0 for a-1 by id-8")
	w.must(events.Event{
		Chain: events.InstanceChain("s", "0"), Epoch: 1,
		Body: events.Failed{Failure: events.NewFailure(events.StopHung, events.PhaseStop, "")},
	})
	w.expect()
	// Not even when a's lease has ended, before that is written down.
	w.expectWith(Lost{"a": "a-1"}, "worker.a after 8: lost epoch 0 by ")
	w.crash("a")
	w.expect("instance.s.0 after 9: lost epoch 1 by id-10")
	w.expect("instance.s.0 after 11: assigned epoch 2 to b (b-1) by id-1", "a/s/0 purged up to 2")
}

// A worker that joins again does not have the instance that hung in its former
// life.
func TestPlanAfterAHungInstanceIsGone(t *testing.T) {
	w := newWorld(t)
	w.declare("s", command("x"))
	w.join("a", events.Joined{})
	w.settle()
	w.must(events.Event{Chain: events.ServerChain("s"), Body: events.StopRequested{}})
	w.expect("a/s/0 after 1: stopped epoch 1 generation 7 restart 0 for a-1 by id-7")
	w.must(events.Event{
		Chain: events.InstanceChain("s", "0"), Epoch: 1,
		Body: events.Failed{Failure: events.NewFailure(events.StopHung, events.PhaseStop, "")},
	})
	w.expect()
	w.join("a", events.Joined{})
	w.expect("instance.s.0 after 8: lost epoch 1 by id-9")
	w.expect("a/s/0 purged up to 2")
	w.check()
}

// A worker that is lost is written down as such first. Until that is in the
// history nothing is decided about it, and nothing is given to it; all else goes
// on.
func TestPlanOfALoss(t *testing.T) {
	w := newWorld(t)
	each := placed("x", events.Placement{Replicas: events.EachWorker})
	w.join("a", events.Joined{})
	w.declare("s", each)
	w.settle()
	w.crash("a")
	w.declare("t", command("y")) // 7
	lost := Lost{"a": "a-1"}
	w.expectWith(lost, "worker.a after 1: lost epoch 0 by ")
	w.expectWith(lost, "instance.s.a after 6: lost epoch 1 by id-8")
	w.expectWith(lost, "a/s/a purged up to 1")
	w.expectWith(lost)
	w.join("a", events.Joined{}) // 10: another incarnation
	w.expectWith(lost,
		"instance.s.a after 9: assigned epoch 2 to a (a-2) by id-2",
		"instance.t.0 after 0: assigned epoch 1 to a (a-2) by id-7")
	w.settle()
	w.check()
	// One that left is not lost, whoever thinks so.
	w.leave("a")
	w.settle()
	w.expectWith(Lost{"a": "a-2"})
	// Nor is one that was never heard of.
	w.expectWith(Lost{"b": "b-1", "c": ""})
}

// That a controller leads is written down once.
func TestLead(t *testing.T) {
	w := newWorld(t)
	me := events.LedBy{Controller: "one", Incarnation: "one-1"}
	if got := lead(w.view(w.end()), events.LedBy{}); got != nil {
		t.Errorf("without a name: %v", show(got))
	}
	for _, next := range []events.LedBy{me, {Controller: "one", Incarnation: "one-2"}, {Controller: "two", Incarnation: "one-2"}, me} {
		got := lead(w.view(w.end()), next)
		if len(got) != 1 || got[0].(Append).Event.Body != next {
			t.Fatalf("before %+v leads: %v", next, show(got))
		}
		w.carryOut(got)
		if again := lead(w.view(w.end()), next); again != nil {
			t.Errorf("while %+v leads: %v", next, show(again))
		}
	}
}

// A command for another incarnation is no command, whatever its epoch.
func TestPlanCommandsTheRightIncarnation(t *testing.T) {
	w := newWorld(t)
	w.declare("s", command("x"))
	w.join("a", events.Joined{})
	w.settle()
	a := events.Address{Worker: "a", Server: "s", Instance: "0"}
	other := *w.commands[a].Command
	other.Incarnation = "of another history"
	w.commands[a] = events.CommandRecord{Address: a, Command: &other, Seq: 1}
	w.expect("a/s/0 after 1: running epoch 1 generation 1 restart 0 for a-1 by id-3")
}

func TestPlanCountsAndPlaces(t *testing.T) {
	for name, test := range map[string]struct {
		servers map[string]events.Definition
		workers map[events.WorkerID]events.Joined
		want    map[events.WorkerID]int
	}{
		"capacity bounds": {
			map[string]events.Definition{"s": placed("x", events.Placement{Replicas: 5}), "t": command("y")},
			map[events.WorkerID]events.Joined{"a": {Capacity: 2}, "b": {Capacity: 1}},
			map[events.WorkerID]int{"a": 2, "b": 1},
		},
		"replicas spread": {
			map[string]events.Definition{"s": placed("x", events.Placement{Replicas: 4})},
			map[events.WorkerID]events.Joined{"a": {}, "b": {}, "c": {}, "d": {}},
			map[events.WorkerID]int{"a": 1, "b": 1, "c": 1, "d": 1},
		},
		"one on each that suits": {
			map[string]events.Definition{"s": placed("x", events.Placement{Replicas: events.EachWorker, Labels: map[string]string{"zone": "1"}})},
			map[events.WorkerID]events.Joined{"a": {Labels: map[string]string{"zone": "1"}}, "b": {}, "c": {Labels: map[string]string{"zone": "1", "x": "y"}}},
			map[events.WorkerID]int{"a": 1, "c": 1},
		},
		"labels have to be there, even empty ones": {
			map[string]events.Definition{"s": placed("x", events.Placement{Labels: map[string]string{"gpu": ""}})},
			map[events.WorkerID]events.Joined{"a": {}, "b": {Labels: map[string]string{"gpu": ""}}, "c": {Labels: map[string]string{"gpu": "1"}}},
			map[events.WorkerID]int{"b": 1},
		},
		"secrets want their identity": {
			map[string]events.Definition{"s": {Command: "x", Env: map[string]string{"T": "${secret:s/env.T#1}"}}, "t": {URL: "https://x.test/?k=${secret:t/query.k#1}"}},
			map[events.WorkerID]events.Joined{"a": {}, "b": {Recipients: []string{"age1x"}}},
			map[events.WorkerID]int{"b": 2},
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			for id, d := range test.servers {
				w.declare(id, d)
			}
			for id, j := range test.workers {
				w.join(id, j)
			}
			w.settle()
			got := map[events.WorkerID]int{}
			for id, h := range w.workers {
				if n := len(h.running); n > 0 {
					got[id] = n
				}
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("instances of each worker (-want +got):\n%s", diff)
			}
		})
	}
}

// What nobody may take waits, with the reason.
func TestPlanSaysWhyAnInstanceWaits(t *testing.T) {
	w := newWorld(t)
	expect := func(want map[string]string) {
		t.Helper()
		w.settle()
		_, waiting := plan(w.view(w.end()), w.commands, nil)
		got := make(map[string]string)
		for chain, why := range waiting {
			got[string(chain.Server())+"/"+string(chain.Instance())] = why
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("what waits (-want +got):\n%s", diff)
		}
	}
	w.declare("s", placed("x", events.Placement{Labels: map[string]string{"zone": "1", "disk": "big"}}))
	expect(map[string]string{"s/0": "no worker has joined"})
	w.join("a", events.Joined{})
	w.join("b", events.Joined{Labels: map[string]string{"disk": "big"}})
	w.join("c", events.Joined{Capacity: 1, Labels: map[string]string{"disk": "big", "zone": "1"}})
	w.declare("t", placed("x", events.Placement{Worker: "d"}))
	w.declare("u", events.Definition{Command: "x", Env: map[string]string{"T": "${secret:u/env.T#1}"}})
	expect(map[string]string{
		"t/0": "no worker may take it: 1 full, 2 not d",
		"u/0": "no worker may take it: 1 full, 2 without the fleet's identity for secrets",
	})
	w.leave("c") // which had s
	expect(map[string]string{
		"s/0": "no worker may take it: 1 left, 1 without label disk=big, 1 without label zone=1",
		"t/0": "no worker may take it: 1 left, 2 not d",
		"u/0": "no worker may take it: 1 left, 2 without the fleet's identity for secrets",
	})
	w.must(events.Event{Chain: events.WorkerChain("a"), Body: events.Cordoned{}})
	w.must(events.Event{Chain: events.WorkerChain("b"), Body: events.Draining{}})
	for _, id := range []string{"t", "u"} {
		if _, err := w.ask(request.Request{Verb: request.Withdraw, Server: id}); err != nil {
			t.Fatal(err)
		}
	}
	expect(map[string]string{"s/0": "no worker may take it: 1 cordoned, 1 draining, 1 left"})
	w.join("c", events.Joined{Labels: map[string]string{"disk": "big", "zone": "1"}})
	expect(map[string]string{})
	w.check()
}

// A cordoned worker keeps what it has, and gets nothing.
func TestPlanLeavesACordonedWorkerAlone(t *testing.T) {
	w := newWorld(t)
	w.join("a", events.Joined{})
	w.declare("s", command("x"))
	w.settle()
	w.must(events.Event{Chain: events.WorkerChain("a"), Body: events.Cordoned{}})
	w.declare("t", command("y"))
	w.settle()
	if got := len(w.workers["a"].running); got != 1 {
		t.Errorf("%d instances run, want 1", got)
	}
}

// An ordinal that is also a worker's name is another instance for "each".
func TestPlanMovesOrdinalsToTheirWorkers(t *testing.T) {
	w := newWorld(t)
	w.join("0", events.Joined{})
	w.join("1", events.Joined{})
	for i := range 8 {
		w.declare(fmt.Sprintf("s%d", i), command("x"))
	}
	w.settle()
	for i := range 8 {
		w.declare(fmt.Sprintf("s%d", i), placed("x", events.Placement{Replicas: events.EachWorker}))
	}
	w.settle()
	w.check()
	for i := range w.history.Instances() {
		if string(i.Worker) != string(i.Instance) {
			t.Errorf("instance %s of %s is on %s", i.Instance, i.Server, i.Worker)
		}
	}
}

// Fewer replicas take away the highest ordinals.
func TestPlanShrinks(t *testing.T) {
	w := newWorld(t)
	w.join("a", events.Joined{})
	w.declare("s", placed("x", events.Placement{Replicas: 3}))
	w.settle()
	w.declare("s", placed("x", events.Placement{Replicas: 1}))
	w.settle()
	w.check()
	if _, ok := w.workers["a"].running[events.InstanceChain("s", "0")]; !ok {
		t.Error("instance 0 does not run")
	}
}

// Two controllers that plan at the same time, from the same view, do not double
// anything.
func TestPlansOfTwoControllers(t *testing.T) {
	w := newWorld(t)
	w.declare("s", placed("x", events.Placement{Replicas: 2}))
	w.join("a", events.Joined{})
	w.join("b", events.Joined{})
	for range 4 {
		one, other := Plan(w.view(w.end()), w.commands, nil), Plan(w.view(w.end()), w.commands, nil)
		w.carryOut(one)
		w.carryOut(other)
		w.workAll()
	}
	w.check()
}

// A plan from an old view does not undo what was decided since.
func TestPlanFromTheFirstEvents(t *testing.T) {
	w := newWorld(t)
	w.declare("s", command("x"))
	w.join("a", events.Joined{})
	w.settle()
	w.declare("s", command("y"))
	w.settle()
	w.join("b", events.Joined{})
	w.must(events.Event{Chain: events.WorkerChain("a"), Body: events.Draining{}})
	w.settle()
	for seq := range w.end() {
		w.carryOut(Plan(w.view(seq), w.commands, nil))
		w.check()
	}
}

func TestPlaceIsStable(t *testing.T) {
	workers := func(ids ...events.WorkerID) (all []*projections.Worker) {
		for _, id := range ids {
			all = append(all, &projections.Worker{ID: id})
		}
		return all
	}
	if id, ok := Place("s", "0", nil, nil); ok {
		t.Errorf("placed on %q where there is none", id)
	}
	moved, counts := 0, map[events.WorkerID]int{}
	const n = 1000
	for i := range n {
		s := events.ServerID(fmt.Sprintf("server-%d", i))
		before, _ := Place(s, "0", workers("a", "b", "c"), nil)
		if again, _ := Place(s, "0", workers("c", "a", "b"), nil); again != before {
			t.Fatalf("%s is placed on %s, in another order on %s", s, before, again)
		}
		after, _ := Place(s, "0", workers("a", "b", "c", "d"), nil)
		if after != before {
			moved++
			if after != "d" {
				t.Fatalf("%s moved from %s to %s because d came", s, before, after)
			}
		}
		counts[after]++
	}
	if moved < n/8 || moved > n*3/8 {
		t.Errorf("%d of %d moved to one of four", moved, n)
	}
	for id, c := range counts {
		if c < n/8 || c > n*3/8 {
			t.Errorf("%s has %d of %d", id, c, n)
		}
	}
}
