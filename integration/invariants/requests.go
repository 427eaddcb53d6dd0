package invariants

import (
	"context"
	"fmt"

	"github.com/toolfleet/toolfleet/controller/request"
	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/events/jetlog"
	"github.com/toolfleet/toolfleet/projections"
)

// Accepted is a request that was granted.
type Accepted struct {
	// Server or Worker is what the request is about; the fleet if there is neither.
	Server events.ServerID
	Worker events.WorkerID
	ID     events.RequestID
	Answer request.Answer
}

func (a *Accepted) chain() events.Chain {
	switch {
	case a.Server != "":
		return events.ServerChain(a.Server)
	case a.Worker != "":
		return events.WorkerChain(a.Worker)
	default:
		return events.FleetChain()
	}
}

// Requests is invariant 4: every request that was granted is one event of the
// chain of what it is about, and whatever the last ones of a server ask for is done, or
// failed and says so. Servers that are to be ready are so when it is called: it
// is about a quiet fleet.
func Requests(ctx context.Context, log *jetlog.Log, accepted []Accepted) error {
	all, err := history(ctx, log)
	if err != nil {
		return err
	}
	var h projections.History
	for _, r := range all {
		h.Apply(r)
	}
	var wrong []string
	for _, a := range accepted {
		wrong = append(wrong, a.check(all)...)
	}
	for s := range h.Servers() {
		wrong = append(wrong, unfinished(&h, s)...)
	}
	return complain("4, every accepted request ends in an event", wrong)
}

// check returns what is wrong with the answer to a request.
func (a *Accepted) check(all []events.Record) []string {
	if a.Answer.Unchanged {
		return nil
	}
	if a.Answer.Seq == 0 || a.Answer.Seq > events.Seq(len(all)) {
		return []string{fmt.Sprintf("request %s of %s was answered with event %d, which is not there", a.ID, a.chain(), a.Answer.Seq)}
	}
	if r := &all[a.Answer.Seq-1]; r.Chain != a.chain() || r.Correlation != a.ID {
		return []string{fmt.Sprintf("request %s of %s was answered with event %d, which is %s of request %s on %s",
			a.ID, a.chain(), a.Answer.Seq, r.Kind(), r.Correlation, r.Chain)}
	}
	return nil
}

// unfinished returns what a server was asked for and is not done.
func unfinished(h *projections.History, s *projections.Server) (wrong []string) {
	say := func(format string, args ...any) {
		wrong = append(wrong, string(s.ID)+": "+fmt.Sprintf(format, args...))
	}
	if s.Update != nil {
		say("the update of event %d is neither settled nor rolled back", s.Update.Seq)
	}
	runs := 0
	for i := range h.InstancesOf(s.ID) {
		switch {
		case i.State.Owned() && i.State != projections.Stopped:
			runs++
		default:
			continue
		}
		switch {
		case s.Wanted() == events.Stopped:
			say("instance %s is %s, and should be stopped", i.Instance, i.State)
		case !final(i.State):
			say("instance %s is %s", i.Instance, i.State)
		case !present(h.Worker(i.Worker), i.Incarnation):
			say("instance %s is that of a worker that is gone", i.Instance)
		case i.Definition != s.Digest:
			say("instance %s runs another definition", i.Instance)
		case i.Connection != nil && i.Connection.Seq < s.Restart:
			say("instance %s was not restarted for event %d", i.Instance, s.Restart)
		}
	}
	switch want := wanted(h, s); {
	case want > 0 && runs == 0:
		say("it should run, and has no instance")
	case runs != want:
		say("it has %d instances, and should have %d", runs, want)
	}
	return wrong
}

// wanted returns how many instances a server should have. It is about fleets that
// have a worker for each of them.
func wanted(h *projections.History, s *projections.Server) (n int) {
	if s.Wanted() != events.Running {
		return 0
	}
	var replicas events.Replicas
	if p := s.Definition.Placement; p != nil {
		replicas = p.Replicas
	}
	n, counted := replicas.Count()
	if !counted {
		for i := range h.InstancesOf(s.ID) { // one on each: a lost worker lacks none
			if present(h.Worker(i.Worker), i.Incarnation) && i.State.Owned() {
				n++
			}
		}
	}
	return n
}

func present(w *projections.Worker, i events.Incarnation) bool {
	return w != nil && w.Present() && w.Incarnation == i
}

// final says whether an instance in the state waits for nobody.
func final(s projections.State) bool {
	return s.Working() || s == projections.Parked || s == projections.AuthRequired
}
