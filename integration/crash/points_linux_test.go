package crash

import (
	"testing"

	"github.com/toolfleet/toolfleet/controller/request"
	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/integration/invariants"
	"github.com/toolfleet/toolfleet/worker/mcptest"
)

// point is where a process is killed.
type point struct {
	name string
	// worker says that it is the worker, else it is the controller.
	worker bool
	// at is the message, stored whether it arrives; see [process.dieAt].
	at     func(*invariants.Publish) bool
	stored bool
	// during says what is asked for when it happens: a first declaration, or
	// something about a server that is ready.
	during request.Verb
	// starts is how often the server is started in all.
	starts int
	// anew is for what a process does when it starts.
	anew bool
}

const first = request.Verb("") // the first declaration

// points returns them anew: some count.
func points() []point {
	return []point{
		{"controller, before led-by", false, event(events.KindLedBy), false, first, 1, true},
		{"controller, declared is stored", false, event(events.KindDeclared), true, first, 1, false},
		{"controller, before assigned", false, event(events.KindAssigned), false, first, 1, false},
		{"controller, assigned is stored", false, event(events.KindAssigned), true, first, 1, false},
		{"controller, between assigned and its command", false, to("tf.cmd.", 1), false, first, 1, false},
		{"controller, the command is stored", false, to("tf.cmd.", 1), true, first, 1, false},
		{"controller, before a view is written", false, to(viewPuts, 4), false, first, 1, false},
		{"controller, between two views", false, to(viewPuts, 3), true, first, 1, false},
		{"controller, between views and position", false, to(viewPuts+"position", 2), false, first, 1, false},
		{"controller, updated is stored", false, event(events.KindUpdated), true, request.Declare, 2, false},
		{"controller, before the outcome of an update", false, event(events.KindUpdateSettled), false, request.Declare, 2, false},
		{"controller, the outcome is stored", false, event(events.KindUpdateSettled), true, request.Declare, 2, false},
		{"controller, withdrawn is stored", false, event(events.KindWithdrawn), true, request.Withdraw, 1, false},
		{"controller, before released", false, event(events.KindReleased), false, request.Withdraw, 1, false},

		{"worker, before joined", true, event(events.KindJoined), false, first, 1, true},
		{"worker, joined is stored", true, event(events.KindJoined), true, first, 1, true},
		{"worker, before connecting", true, event(events.KindConnecting), false, first, 1, false},
		{"worker, between connecting and the spawn", true, event(events.KindConnecting), true, first, 1, false},
		{"worker, before connected", true, event(events.KindConnected), false, first, 2, false},
		{"worker, connected is stored", true, event(events.KindConnected), true, first, 2, false},
		{"worker, between blob and event", true, event(events.KindToolsListed), false, first, 2, false},
		{"worker, tools are listed", true, event(events.KindToolsListed), true, first, 2, false},
		{"worker, between updated and its outcome", true, event(events.KindConnecting), true, request.Declare, 2, false},
		{"worker, before stopping", true, event(events.KindStopping), false, request.Withdraw, 1, false},
		{"worker, before stopped", true, event(events.KindStopped), false, request.Withdraw, 1, false},
		{"worker, stopped is stored", true, event(events.KindStopped), true, request.Stop, 1, false},
	}
}

// TestPoints kills a controller or a worker at each place, and starts it again.
// Whatever was asked for is done, once.
func TestPoints(t *testing.T) {
	t.Parallel()
	for _, p := range points() {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			c := r.start("controller", "c")
			w := r.start("worker", "w")
			dying := c
			if p.worker {
				dying = w
			}
			d := r.definition("s", mcptest.Script{Tools: []string{"one"}})
			if p.during != first {
				r.ask(request.Declare, "s", d)
				r.ready("s")
				r.settled()
			}
			if p.anew {
				dying.kill()
			}
			died := dying.dieAt(p.stored, p.at)
			if p.anew {
				dying.again()
			}
			answered := r.asking(r.next(p, d))
			died()
			dying.back()
			<-answered
			r.settled()
			r.starts("s", p.starts)
			r.ended(w, c)
		})
	}
}

// next is what is asked for at a point.
func (r *rig) next(p point, d *events.Definition) (request.Verb, events.ServerID, *events.Definition) {
	switch p.during {
	case first:
		return request.Declare, "s", d
	case request.Declare:
		return request.Declare, "s", r.definition("s", mcptest.Script{Tools: []string{"one", "two"}})
	default:
		return p.during, "s", nil
	}
}

// A server is removed, and added again under the same id, while its old process
// takes its time to stop: the new one waits for the end of the old.
func TestAgainWhileStopping(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"in peace", "the worker is killed", "the controller is killed"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			c := r.start("controller", "c")
			w := r.start("worker", "w")
			old := r.definition("s", mcptest.Script{Tools: []string{"old"}, Stubborn: true})
			old.GracePeriodMs = new(int64(1500))
			r.ask(request.Declare, "s", old)
			r.ready("s")
			r.ask(request.Withdraw, "s", nil)
			r.saw(r.last, "s", events.KindStopping)
			answered := r.asking(request.Declare, "s", r.definition("s", mcptest.Script{Tools: []string{"new"}}))
			switch name {
			case "the worker is killed":
				w.kill()
				w.back()
			case "the controller is killed":
				c.kill()
				c.back()
			}
			<-answered
			r.ready("s")
			r.settled()
			r.starts("s", 2)
			if tools, _ := r.session.Tools(); len(tools) != 1 || tools[0].Tool != "new" {
				t.Errorf("tools %+v", tools)
			}
			r.ended(w, c)
		})
	}
}
