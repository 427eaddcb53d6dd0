package worker

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/toolfleet/toolfleet/events"
)

// walk is a world around the state machine, in which everything may happen that
// can happen, in any order. It holds what must always hold.
type walk struct {
	state State
	now   time.Time
	gen   events.Seq
	last  *events.Command

	appends   []Append // not yet acknowledged
	live      *Ref     // the attempt that exists
	closing   bool
	listing   [listKinds]bool
	timer     int
	finished  bool
	disowned  bool
	connected map[Ref]bool
}

func (w *walk) step(t *rapid.T, in Input) {
	if w.finished {
		return
	}
	w.now = w.now.Add(time.Duration(rapid.IntRange(0, 40).Draw(t, "seconds")) * time.Second)
	in.At, in.Rand = w.now, 0.5
	var effects []Effect
	w.state, effects = Step(w.state, in)
	for _, e := range effects {
		w.effect(t, e)
	}
	if (w.state.Stage == BackingOff && !w.state.Owed) != (w.state.Stage == BackingOff && w.state.Timer != 0) {
		t.Fatalf("backing off without a timer: %+v", w.state)
	}
	if w.state.Live != (w.live != nil) {
		t.Fatalf("live is %v, but the attempt is %v", w.state.Live, w.live)
	}
}

func (w *walk) effect(t *rapid.T, e Effect) {
	switch e := e.(type) {
	case Append:
		if w.disowned {
			t.Fatalf("%s appended by an owner that is one no longer", events.KindOf(e.Body))
		}
		w.appends = append(w.appends, e)
	case Connect:
		switch {
		case w.live != nil:
			t.Fatalf("two connections: %v and %v", *w.live, e.Ref)
		case !w.state.Leased:
			t.Fatal("connect without a lease")
		case w.connected[e.Ref]:
			t.Fatalf("attempt %v used twice", e.Ref)
		case w.last == nil || w.last.Want != events.Running || w.state.Leaving:
			t.Fatal("connect although it is to be stopped")
		}
		w.connected[e.Ref] = true
		w.live, w.closing, w.listing = &e.Ref, false, [listKinds]bool{}
	case List:
		if w.live == nil || w.listing[e.Kind] {
			t.Fatalf("a list of %s without a connection, or two at once", e.Kind)
		}
		if e.Kind != Tools && w.state.Stage != Ready {
			t.Fatalf("a list of %s of an instance that is %s", e.Kind, w.state.Stage)
		}
		w.listing[e.Kind] = true
	case Serve:
		if w.live == nil || w.closing {
			t.Fatal("calls served without a connection")
		}
	case Ask:
		if w.live == nil || *w.live != e.Ref || w.closing || w.state.Stage != Ready {
			t.Fatalf("%v is asked, but %v is live, %s", e.Ref, w.live, w.state.Stage)
		}
	case Break:
		if w.live == nil || *w.live != e.Ref || w.state.Stage != Ready {
			t.Fatalf("break of %v, but %v is live, %s", e.Ref, w.live, w.state.Stage)
		}
		w.closing = true
	case Close:
		if w.live == nil || *w.live != e.Ref {
			t.Fatalf("close of %v, but %v is live", e.Ref, w.live)
		}
		w.closing = true
	case Sleep:
		w.timer = e.Timer
	case Finish:
		if w.live != nil {
			t.Fatal("finished with a connection")
		}
		w.finished = true
	}
}

// ack acknowledges the oldest append; what follows is that of its kind.
func (w *walk) ack(t *rapid.T) {
	if len(w.appends) == 0 || w.disowned {
		return
	}
	a := w.appends[0]
	w.appends = w.appends[1:]
	w.step(t, Input{Ref: a.Ref, What: Appended{Kind: events.KindOf(a.Body)}})
}

func someList(t *rapid.T) ListKind {
	return ListKind(rapid.IntRange(0, listKinds-1).Draw(t, "list"))
}

func (w *walk) listed(t *rapid.T, k ListKind, same bool) {
	w.listing[k] = false
	count := rapid.IntRange(0, 1).Draw(t, "count")
	w.step(t, Input{Ref: *w.live, What: Listed{Kind: k, Listing: events.Listing{Count: count}, Same: same}})
}

func (w *walk) end(t *rapid.T, code events.Code) {
	if w.live == nil {
		return
	}
	ref := *w.live
	w.live = nil
	w.step(t, Input{Ref: ref, What: Ended{Failure: events.NewFailure(code, events.PhaseRun, ""), How: "closed"}})
}

func (w *walk) actions() map[string]func(*rapid.T) {
	command := func(t *rapid.T, want events.Want) {
		w.gen++
		c := &events.Command{Want: want, Epoch: 1, Generation: w.gen}
		if want == events.Running {
			names := []string{"local", "other", "remote", "policy"}
			c.Definition = scenarioDefinitions[rapid.SampledFrom(names).Draw(t, "definition")]
			if rapid.Bool().Draw(t, "restart") {
				c.Restart = w.gen
			}
		}
		if !w.finished {
			w.last = c
		}
		w.step(t, Input{What: Commanded{Command: c}})
	}
	return map[string]func(*rapid.T){
		"run":  func(t *rapid.T) { command(t, events.Running) },
		"stop": func(t *rapid.T) { command(t, events.Stopped) },
		"ack":  w.ack,
		"dialed": func(t *rapid.T) {
			if w.live != nil {
				w.step(t, Input{Ref: *w.live, What: Dialed{}})
			}
		},
		"listed": func(t *rapid.T) {
			if k := someList(t); w.live != nil && w.listing[k] {
				w.listed(t, k, rapid.Bool().Draw(t, "same"))
			}
		},
		"changed": func(t *rapid.T) {
			if w.live != nil {
				w.step(t, Input{Ref: *w.live, What: ListChanged{someList(t)}})
			}
		},
		"ended": func(t *rapid.T) {
			codes := []events.Code{events.Exited, events.CommandNotFound, events.AuthenticationNeeded, events.LeaseLost}
			w.end(t, rapid.SampledFrom(codes).Draw(t, "code"))
		},
		"elapsed": func(t *rapid.T) {
			w.step(t, Input{What: Elapsed{
				Timer: max(0, w.timer-rapid.IntRange(0, 3).Draw(t, "timer")),
				Heard: w.now.Add(-time.Duration(rapid.IntRange(0, 60).Draw(t, "quiet")) * time.Second),
				Busy:  rapid.Bool().Draw(t, "busy"),
			}})
		},
		"pingless": func(t *rapid.T) {
			if w.live != nil {
				w.step(t, Input{Ref: *w.live, What: PingUnknown{}})
			}
		},
		"lease": func(t *rapid.T) {
			held := rapid.Bool().Draw(t, "held")
			w.step(t, Input{What: LeaseChanged{Held: held}})
		},
		"late": func(t *rapid.T) {
			ref := Ref{Epoch: 1, Generation: 1, Attempt: 1}
			if ref != w.state.Ref {
				w.step(t, Input{Ref: ref, What: Ended{Failure: events.NewFailure(events.Exited, "", "")}})
			}
		},
		"leave": func(t *rapid.T) {
			if rapid.IntRange(0, 20).Draw(t, "leave") == 0 {
				w.step(t, Input{What: Leaving{}})
			}
		},
		"disowned": func(t *rapid.T) {
			if rapid.IntRange(0, 20).Draw(t, "disowned") == 0 {
				w.disowned, w.appends = true, nil
				w.step(t, Input{Ref: Ref{Epoch: 1}, What: Disowned{}})
			}
		},
	}
}

// settle lets everything that is under way come to its end.
func (w *walk) settle(t *rapid.T) {
	for range 1000 {
		switch {
		case w.finished:
			return
		case len(w.appends) > 0 && !w.disowned:
			w.ack(t)
		case w.live != nil && w.closing:
			w.end(t, events.ConnectionLost)
		case w.live != nil && slices.Contains(w.listing[:], true):
			w.listed(t, ListKind(slices.Index(w.listing[:], true)), true)
		case w.live != nil && w.state.Stage == Connecting:
			w.step(t, Input{Ref: *w.live, What: Dialed{}})
		case w.state.Timer != 0 && w.state.Stage == BackingOff:
			w.step(t, Input{What: Elapsed{Timer: w.state.Timer}})
		case w.state.Owed:
			w.step(t, Input{What: LeaseChanged{Held: true}})
		default:
			return
		}
	}
	t.Fatalf("it does not come to rest: %+v", w.state)
}

// TestStepWalks holds the state machine to its rules on random walks: one
// connection at a time, each after its acknowledged connecting and under a
// lease; no word from an owner that is one no longer; and whatever happened,
// the last command is what it comes to.
func TestStepWalks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := &walk{state: Begin(1, Past{}, true), now: time.Unix(1_800_000_000, 0), connected: make(map[Ref]bool)}
		t.Repeat(w.actions())
		w.settle(t)
		if w.finished || w.last == nil || w.disowned {
			return
		}
		switch stage := w.state.Stage; {
		case w.last.Want == events.Stopped || w.state.Leaving:
			t.Fatalf("it was to be stopped and is %s: %+v", stage, w.state)
		case stage != Ready && stage != Parked:
			t.Fatalf("it was to run and is %s: %+v", stage, w.state)
		case stage == Ready && slices.ContainsFunc(w.state.Lists[:], func(l ListState) bool { return l.Relisting || l.Relist }):
			t.Fatalf("a list is never made: %+v", w.state)
		}
	})
}
