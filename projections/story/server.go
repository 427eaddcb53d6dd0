package story

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/projections"
)

// server answers for a server.
func (t *teller) server(s *projections.Server) *Answer {
	n := projections.NewStatus(s, t.History.InstancesOf(s.ID))
	var a *Answer
	if i := t.speaker(s, &n); i != nil {
		a = t.instance(s, i)
	} else {
		a = t.idle(s, n.State)
	}
	a.State = string(n.State)
	t.note(a, s)
	return a
}

// speaker returns the instance that a server's state is that of, or nil if it is
// the server's own.
func (t *teller) speaker(s *projections.Server, n *projections.Status) *projections.Instance {
	for i := range t.History.InstancesOf(s.ID) {
		if i.State == n.State && i.State.Owned() && (i.State != projections.Stopped || s.Wanted() == events.Running) && i.Worker == n.Worker {
			return i
		}
	}
	return nil
}

// note adds what stands in no line with the rest: who wanted the server as it is,
// what was refused since, and a freeze.
func (t *teller) note(a *Answer, s *projections.Server) {
	chain := events.ServerChain(s.ID)
	t.trace(a, t.at(chain, s.Generation))
	if s.Rejection != nil {
		t.add(a, t.at(chain, s.Rejection.Seq))
	}
	if s.Rollback != nil {
		t.add(a, t.at(chain, s.Rollback.Seq))
	}
	if f := t.History.Fleet().Frozen; f != nil && s.Wanted() == events.Running {
		t.add(a, t.at(events.FleetChain(), f.Seq))
	}
}

// idle answers for a server of which nothing runs, and whose own state says why.
func (t *teller) idle(s *projections.Server, state projections.State) *Answer {
	id := string(s.ID)
	first := t.at(events.ServerChain(s.ID), s.Generation)
	switch state {
	case projections.Rejected:
		a := t.answer(IsServer, "", id+" is not there: its definition was refused", t.at(events.ServerChain(s.ID), s.Rejection.Seq))
		a.Help = "correct what is named, and apply it again"
		return a
	case projections.Withdrawn:
		a := t.answer(IsServer, "", id+" is not there: the fleet had it, and it was removed", first)
		a.Help = "toolfleet apply -f FILE declares it again, or toolfleet rollback " + id
		return a
	case projections.Disabled:
		a := t.answer(IsServer, "", id+" does not run, because it is disabled", first)
		a.Help = "toolfleet enable " + id
		return a
	case projections.Stopped:
		return t.stopped(s)
	default:
		return t.waiting(s)
	}
}

// stopped answers for a server that is wanted stopped.
func (t *teller) stopped(s *projections.Server) *Answer {
	chain, id := events.ServerChain(s.ID), string(s.ID)
	why := "it was asked to stop"
	asked := t.before(chain, s.Seq+1, func(r *events.Record) bool { return r.Kind() == events.KindStopRequested })
	if asked == nil {
		why, asked = "its definition wants it stopped", t.at(chain, s.Generation)
	}
	a := t.answer(IsServer, "", id+" does not run, because "+why, asked)
	a.Help = "toolfleet start " + id
	return a
}

// waiting answers for a server that should run and has no owner.
func (t *teller) waiting(s *projections.Server) *Answer {
	a := t.answer(IsServer, "", string(s.ID)+" should run, but no worker has it", nil)
	for i := range t.History.InstancesOf(s.ID) {
		t.trace(a, t.entered(i))
	}
	why := ""
	if t.Waiting != nil {
		why = t.Waiting(s.ID, "0")
	}
	switch {
	case why != "":
		a.Summary += ": " + why
		a.Help = "start or uncordon a worker that fits, or change the placement: toolfleet get workers -o wide"
	case !t.hasWorker():
		a.Summary += ": no worker is there"
		a.Help = "start one: worker --server URL, or toolfleet up"
	default:
		a.Summary += ": a controller has still to give it to one"
		a.Help = "if that lasts, toolfleet doctor says whether a controller runs"
	}
	return a
}

func (t *teller) hasWorker() bool {
	for w := range t.History.Workers() {
		if w.Present() {
			return true
		}
	}
	return false
}

// entered returns the event by which an instance came into its state: that after
// which its fold first had it, and has had it since.
func (t *teller) entered(i *projections.Instance) *events.Record {
	var (
		state projections.Instance
		first *events.Record
	)
	for _, r := range t.chains[events.InstanceChain(i.Server, i.Instance)] {
		next := projections.EvolveInstance(state, *r)
		if next.State != state.State || !next.Since.Equal(state.Since) {
			first = r
		}
		state = next
	}
	return first
}

// instance answers for a server that has an owner.
func (t *teller) instance(s *projections.Server, i *projections.Instance) *Answer {
	first := t.entered(i)
	where := fmt.Sprintf("on worker %s since %s", i.Worker, clock(i.Since))
	a := t.answer(IsServer, "", "", first)
	id := nameOf(events.InstanceChain(i.Server, i.Instance))
	switch i.State {
	case projections.Ready:
		a.Summary = fmt.Sprintf("%s works %s, with %s", id, where, count(i.Tools.Count, "tool"))
		if i.Restarts > 0 {
			a.Summary += fmt.Sprintf("; it was restarted %s after failures", times(i.Restarts))
		}
	case projections.Degraded:
		a.Summary = fmt.Sprintf("%s works %s, but not fully: %s", id, where, faultWords(i.Failure))
		a.Help = help(i.Failure)
	case projections.Stopping, projections.Stopped:
		a.Summary = fmt.Sprintf("%s is %s %s", id, i.State, where)
	case projections.Assigned, projections.Connecting, projections.Listing:
		a.Summary = fmt.Sprintf("%s is being connected %s, attempt %d", id, where, max(i.Attempt, 1))
		if i.Failure != nil {
			a.Summary += ", after it failed: " + faultWords(i.Failure)
			a.Help = help(i.Failure)
		}
	default:
		t.broken(a, s, i, id)
	}
	return a
}

// broken answers for an instance that failed.
func (t *teller) broken(a *Answer, s *projections.Server, i *projections.Instance, id string) {
	again := ""
	if i.Next != nil {
		again = "; it is tried again at " + clock(i.Next.At)
		if i.Next.At.Before(t.Now) {
			again += ", which is over"
		}
	}
	a.Help = help(i.Failure)
	switch i.State {
	case projections.Parked:
		a.Summary = fmt.Sprintf("%s does not work and is parked, because it failed too often: %s%s", id, faultWords(i.Failure), again)
		if again == "" {
			a.Summary += "; it is not tried again by itself"
		}
		a.Help = strings.TrimSpace(a.Help + " toolfleet restart " + string(s.ID) + " tries it at once.")
	case projections.AuthRequired:
		a.Summary = id + " waits for credentials" + because(i.Hint)
		a.Help = cmp.Or(a.Help, "set or renew the secret that its definition refers to")
	case projections.BackingOff:
		a.Summary = fmt.Sprintf("%s does not work: %s%s", id, faultWords(i.Failure), again)
	default:
		a.Summary = fmt.Sprintf("%s does not work: %s", id, faultWords(i.Failure))
		if i.Stuck() {
			a.Summary = fmt.Sprintf("%s was told to stop and is still there, so no other worker gets it: %s", id, faultWords(i.Failure))
		}
	}
}

func times(n int) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}
