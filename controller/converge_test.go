package controller

import (
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/toolfleet/toolfleet/controller/request"
	"github.com/toolfleet/toolfleet/events"
)

// scenario draws a history: requests, workers that come, go and crash, and plans
// that are carried out in part.
func scenario(t *rapid.T, w *world) {
	servers := []string{"s", "t", "u"}
	hosts := []events.WorkerID{"a", "b", "c"}
	definitions := []events.Definition{
		command("x"), command("y"),
		placed("x", events.Placement{Replicas: 2}), placed("x", events.Placement{Replicas: events.EachWorker}),
		placed("x", events.Placement{Worker: "b"}), placed("y", events.Placement{Labels: map[string]string{"zone": "1"}}),
		{Command: "x", Disabled: true},
		{Command: "x", Want: events.Stopped},
		{URL: "https://x.test"},
		{URL: "https://y.test"},
		{URL: "https://x.test", Placement: &events.Placement{Replicas: 2, Labels: map[string]string{"zone": "1"}}},
		{Command: "x", Update: "overlap"},
		{Command: "y", Update: "overlap", Placement: &events.Placement{Replicas: 3}},
	}
	t.Repeat(map[string]func(*rapid.T){
		"ask": func(t *rapid.T) {
			q := request.Request{Verb: rapid.SampledFrom(request.Verbs()).Draw(t, "verb")}
			if q.Verb.Object() == request.Server {
				q.Server = rapid.SampledFrom(servers).Draw(t, "server")
			}
			if q.Verb.Object() == request.Worker || q.Verb == request.Move {
				q.Worker = string(rapid.SampledFrom(hosts).Draw(t, "worker"))
			}
			if q.Verb == request.Declare {
				d := rapid.SampledFrom(definitions).Draw(t, "definition")
				q.Definition = &d
			}
			_, _ = w.ask(q) // a refusal changes nothing
		},
		"worker": func(t *rapid.T) {
			id := rapid.SampledFrom(hosts).Draw(t, "worker")
			labels := map[string]string{}
			if id != "a" {
				labels["zone"] = "1"
			}
			switch h := w.workers[id]; {
			case h == nil || !h.up:
				w.join(id, events.Joined{Labels: labels})
			case rapid.Bool().Draw(t, "crash"):
				w.crash(id)
			default:
				w.leave(id)
			}
		},
		"wish": func(t *rapid.T) {
			id := rapid.SampledFrom(hosts).Draw(t, "worker")
			bodies := []events.Body{events.Draining{}, events.Cordoned{}, events.Uncordoned{}}
			if h := w.workers[id]; h != nil {
				bodies = append(bodies, events.Draining{Incarnation: h.incarnation})
			}
			w.must(events.Event{Chain: events.WorkerChain(id), Body: rapid.SampledFrom(bodies).Draw(t, "wish")})
		},
		"trouble": func(t *rapid.T) { w.trouble(rapid.IntRange(0, 5).Draw(t, "which")) },
		"plan": func(t *rapid.T) {
			// From a view that may be old, carried out up to a crash.
			behind := rapid.IntRange(0, 3).Draw(t, "behind")
			for range rapid.IntRange(0, 3).Draw(t, "rounds before") {
				w.carryOut(Plan(w.view(w.end()), w.commands, nil))
			}
			lost := Lost{}
			for _, id := range hosts {
				// Of a worker that is gone it may be known, also when it has left.
				if h := w.workers[id]; h != nil && !h.up && rapid.Bool().Draw(t, "found lost") {
					lost[id] = h.incarnation
				}
			}
			decisions := Plan(w.view(w.end()-min(w.end(), events.Seq(behind))), w.commands, lost)
			done := rapid.IntRange(0, len(decisions)).Draw(t, "done")
			w.carryOut(decisions[:done])
		},
		"work": func(*rapid.T) { w.workAll() },
		"lost": func(t *rapid.T) {
			id := rapid.SampledFrom(hosts).Draw(t, "worker")
			if h := w.workers[id]; h != nil && !h.up {
				w.must(events.Event{Chain: events.WorkerChain(id), Body: events.Lost{Worker: id}})
			}
		},
	})
}

// trouble ends something that runs, as a failure.
func (w *world) trouble(which int) {
	for _, id := range []events.WorkerID{"a", "b", "c"} {
		h := w.workers[id]
		if h == nil || !h.up {
			continue
		}
		for _, c := range slices.SortedFunc(maps.Keys(h.running), compareChains) {
			i := w.history.Instance(c.Server(), c.Instance())
			if which--; which >= 0 || i.Epoch != h.running[c].epoch || !i.State.Owned() {
				continue
			}
			delete(h.running, c)
			w.must(events.Event{Chain: c, Epoch: i.Epoch, Body: events.Failed{Failure: events.NewFailure(events.Exited, events.PhaseRun, "")}})
			return
		}
	}
}

// revive lets every worker that crashed join again, so that nothing waits for it.
func (w *world) revive() {
	w.must(events.Event{Chain: events.FleetChain(), Body: events.Unfrozen{}})
	for _, id := range []events.WorkerID{"a", "b", "c"} {
		if h := w.workers[id]; h != nil && (!h.up || w.history.Worker(id).Going != "") {
			if h.up {
				w.leave(id)
			}
			w.join(id, events.Joined{Labels: map[string]string{"zone": "1"}})
		}
		w.must(events.Event{Chain: events.WorkerChain(id), Body: events.Uncordoned{}})
	}
}

// However a history went, and wherever a plan was interrupted, plans come to
// rest with every wanted instance running once, and nothing else.
func TestPlansConverge(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t)
		scenario(t, w)
		w.revive()
		w.settle()
		w.check()
	})
}

// The same from every prefix of what was written: events and commands. Workers
// are in their next life then, or still in the one that the prefix ends in.
func TestPlansConvergeFromEveryPrefix(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t)
		scenario(t, w)
		cut := rapid.IntRange(0, len(w.journal)).Draw(t, "cut")
		x := newWorld(t)
		for _, e := range w.journal[:cut] {
			x.replay(e)
		}
		if rapid.Bool().Draw(t, "workers died as well") {
			for id := range x.workers {
				x.crash(id)
			}
		}
		x.revive()
		x.settle()
		x.check()
	})
}

// replay writes what was written in another world. What runs follows from it.
func (w *world) replay(x write) {
	if x.event == nil {
		if _, err := w.put(x.address, x.command, w.commands[x.address].Seq); err != nil {
			w.t.Fatalf("%v", err)
		}
		return
	}
	e := *x.event
	switch b := e.Body.(type) {
	case events.Joined:
		h := w.join(e.Chain.Worker(), b)
		if h.incarnation != b.Incarnation {
			w.t.Fatalf("%s joined as %s, not %s", e.Chain, h.incarnation, b.Incarnation)
		}
		return
	case events.Left:
		w.crash(e.Chain.Worker())
	case events.Connecting:
		i := w.history.Instance(e.Chain.Server(), e.Chain.Instance())
		c := w.commands[events.Address{Worker: i.Worker, Server: i.Server, Instance: i.Instance}].Command
		w.workers[i.Worker].running[e.Chain] = process{e.Epoch, c.Generation, c.Restart}
	case events.HasStopped, events.Failed:
		i := w.history.Instance(e.Chain.Server(), e.Chain.Instance())
		delete(w.workers[i.Worker].running, e.Chain)
	case events.Lost, events.Released:
		// The owner had crashed, or had nothing that runs.
		if e.Chain.Kind() == events.OfWorker {
			w.crash(e.Chain.Worker())
		} else if i := w.history.Instance(e.Chain.Server(), e.Chain.Instance()); i != nil {
			delete(w.workers[i.Worker].running, e.Chain)
		}
	default:
	}
	w.must(e)
}
