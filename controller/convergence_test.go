package controller

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/toolfleet/toolfleet/events"
)

// wisher folds records and says what became of wisher.
type wisher struct {
	view View
	convergences
	seq events.Seq
}

var wishesBegin = time.Unix(10_000, 0)

// say folds an event, one second after the last.
func (w *wisher) say(c events.Chain, epoch events.Epoch, b events.Body) {
	w.seq++
	r := events.Record{Seq: w.seq, Event: events.Event{
		Chain: c, Body: b, Epoch: epoch, ID: events.EventID(w.seq.String()),
		Time: wishesBegin.Add(time.Duration(w.seq) * time.Second), Trace: events.Trace{Parent: w.seq.String()},
	}}
	if c, ok := b.(events.Connecting); ok {
		r.Attempt = c.Attempt
	}
	w.view.Apply(r)
	w.apply(&w.view, &r)
}

// connect has an instance try what is declared at a position.
func (w *wisher) connect(n events.InstanceID, g events.Seq) {
	s := w.view.History.Server("s")
	w.say(events.InstanceChain("s", n), 1, events.Connecting{Attempt: 1, Generation: g, Definition: s.Digest})
}

// told is what is told of a wish, by the positions of its events.
type toldOf struct {
	Wish, End string
	Outcome   conclusion
}

func (w *wisher) told(now time.Time) (all []toldOf) {
	for _, x := range w.take(now) {
		all = append(all, toldOf{x.wish.Trace.Parent, x.end.Parent, x.outcome})
	}
	return all
}

func TestConvergences(t *testing.T) {
	server, zero, one := events.ServerChain("s"), events.InstanceChain("s", "0"), events.InstanceChain("s", "1")
	two := events.Replicas(2)
	d := events.Definition{Command: "x", Placement: &events.Placement{Replicas: two}}
	var w wisher
	now := func() time.Time { return wishesBegin.Add(time.Duration(w.seq) * time.Second) }
	w.say(server, 0, events.Declared{Definition: d})                         // 1
	w.say(zero, 1, events.Assigned{Worker: "w", Incarnation: "i", Epoch: 1}) // 2
	w.say(one, 1, events.Assigned{Worker: "w", Incarnation: "i", Epoch: 1})  // 3
	w.connect("0", 1)                                                        // 4
	w.say(zero, 1, events.Connected{})                                       // 5
	w.say(zero, 1, events.ToolsListed{})                                     // 6
	w.connect("1", 1)                                                        // 7
	w.say(one, 1, events.Connected{})                                        // 8
	if got := w.told(now()); got != nil {
		t.Errorf("one of two is ready: %v", got)
	}
	w.say(one, 1, events.ToolsListed{})                                               // 9
	w.say(server, 0, events.RestartRequested{})                                       // 10
	w.say(server, 0, events.StopRequested{})                                          // 11
	w.say(zero, 1, events.Stopping{})                                                 // 12
	w.say(zero, 1, events.HasStopped{})                                               // 13
	w.say(one, 1, events.HasStopped{})                                                // 14
	w.say(server, 0, events.StartRequested{})                                         // 15
	w.connect("0", 15)                                                                // 16
	w.say(zero, 1, events.Failed{Failure: events.Failure{Code: events.StartupCrash}}) // 17
	w.say(zero, 1, events.Parked{Failure: events.Failure{Code: events.StartupCrash}}) // 18
	w.say(server, 0, events.Withdrawn{})                                              // 19
	w.say(zero, 1, events.HasStopped{})                                               // 20
	want := []toldOf{{"1", "9", nowReady}, {"10", "11", nowOther}, {"11", "14", nowReady}, {"15", "18", nowFailed}, {"19", "20", nowReady}}
	if d := cmp.Diff(want, w.told(now())); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	if got := w.told(now()); got != nil {
		t.Errorf("told twice: %v", got)
	}
}

// What nobody could fulfil is told of in the end, and what ended long ago is not.
func TestConvergencesEnd(t *testing.T) {
	var w wisher
	w.say(events.ServerChain("s"), 0, events.Declared{Definition: events.Definition{Command: "x"}})
	since := wishesBegin.Add(time.Second)
	if got := w.told(since.Add(convergeWithin)); got != nil {
		t.Errorf("too early: %v", got)
	}
	if got := w.told(since.Add(convergeWithin + time.Second)); len(got) != 1 || got[0].Outcome != nowForgotten {
		t.Errorf("after its time: %v", got)
	}
	w.say(events.ServerChain("s"), 0, events.Withdrawn{})
	w.expire(wishesBegin.Add(2*time.Second + toldLate + time.Second))
	if got := w.told(wishesBegin.Add(2*time.Second + toldLate)); got != nil {
		t.Errorf("what ended long ago: %v", got)
	}
}
