package controller

import (
	"cmp"
	"maps"
	"slices"
	"strconv"

	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/projections"
)

// Commands are the last commands of all addresses.
type Commands map[events.Address]events.CommandRecord

// Lost are the incarnations of workers that are lost, and not written down as
// lost so far.
type Lost map[events.WorkerID]events.Incarnation

// Decision is one thing that a plan wants done.
//
//sumtype:decl
type Decision interface{ decision() }

// What a plan can want.
type (
	// Append wants an event on a chain, after the tip that was planned on.
	Append struct {
		Event events.Event
		Tip   events.Tip
	}
	// Order wants a command, after the one that was planned on (0: none).
	Order struct {
		To      events.Address
		Command *events.Command
		Seen    events.Seq
	}
	// Purge wants the commands of an address removed that nobody follows any
	// more.
	Purge struct {
		Of   events.Address
		UpTo events.Seq
	}
)

func (Append) decision() {}
func (Order) decision()  {}
func (Purge) decision()  {}

// PlanActor is the actor of the events that a plan causes.
const PlanActor = "system:plan"

// Plan returns what has to be done next for the fleet to become what its
// definitions ask for; nothing, if it only has to be waited for or is done.
//
// It is level-based: it looks at what is, and at nothing that happened on the
// way. It may be interrupted anywhere, and made again by anyone from a later
// history. Decisions of one plan are independent of each other; what depends on
// them is in the plan that follows when they are in the history.
//
// An instance that is wanted and has no owner is assigned. One whose owner is
// there and may keep it is commanded to run the definition; one that may not, or
// is not wanted, is commanded to stop, and released after its owner said
// stopped. Only then is it assigned anew, with the next epoch. An owner that
// left, was lost, or joined with a new incarnation has nothing that runs: its
// instances are released or lost at once. A worker that turns out to be lost is
// written down as such, and until that is in the history nothing else is decided
// about it. An update is settled when what replaces
// works wherever it is wanted.
//
// The history must be a whole prefix of the log, and commands at most older than
// it: then no decision undoes one of a controller that has seen more.
func Plan(v *View, commands Commands, lost Lost) []Decision {
	decisions, _ := plan(v, commands, lost)
	return decisions
}

// plan is Plan, and says why the instances wait that are wanted and have no
// owner.
func plan(v *View, commands Commands, lost Lost) ([]Decision, map[events.Chain]string) {
	p := planner{
		view: v, commands: commands, lost: lost,
		load:    make(map[events.WorkerID]int),
		holds:   make(map[events.ServerID]map[events.WorkerID]int),
		waiting: make(map[events.Chain]string),
	}
	instances := make(map[events.ServerID][]*projections.Instance)
	for i := range v.History.Instances() {
		instances[i.Server] = append(instances[i.Server], i)
		if i.State.Owned() {
			p.take(i.Server, i.Worker, 1)
		}
	}
	for w := range v.History.Workers() {
		if p.isLost(w) {
			p.lose(w)
		} else {
			p.workers = append(p.workers, w)
		}
	}
	for s := range v.History.Servers() {
		p.server(s, instances[s.ID])
	}
	p.tidy()
	return p.decisions, p.waiting
}

type planner struct {
	view     *View
	commands Commands
	lost     Lost
	// workers are all but those that are being lost.
	workers []*projections.Worker
	// load counts the owned instances of a worker, holds those of one server.
	load      map[events.WorkerID]int
	holds     map[events.ServerID]map[events.WorkerID]int
	decisions []Decision
	// waiting are instances that nobody may take, with the reason.
	waiting map[events.Chain]string
}

func (p *planner) take(s events.ServerID, w events.WorkerID, n int) {
	p.load[w] += n
	if p.holds[s] == nil {
		p.holds[s] = make(map[events.WorkerID]int)
	}
	p.holds[s][w] += n
}

func (p *planner) decide(d Decision) { p.decisions = append(p.decisions, d) }

// server plans all instances of a server.
func (p *planner) server(s *projections.Server, instances []*projections.Instance) {
	wanted := p.wanted(s)
	missing := maps.Clone(wanted)
	var kept []*projections.Instance
	for _, i := range instances {
		if !i.State.Owned() {
			continue
		}
		delete(missing, i.Instance)
		only, isWanted := wanted[i.Instance]
		switch owner := p.owner(i); {
		case owner == nil:
			p.disown(s, i)
		case p.isLost(owner):
		case isWanted && (only == "" || only == i.Worker) && !owner.Draining && suits(s.Definition, owner):
			p.run(s, i)
			kept = append(kept, i)
		default:
			p.stop(s, i)
		}
	}
	for _, n := range slices.Sorted(maps.Keys(missing)) {
		p.assign(s, n, missing[n])
	}
	p.settle(s, len(wanted), kept)
}

// isLost says whether a worker is lost and the history says otherwise.
func (p *planner) isLost(w *projections.Worker) bool {
	return w.Present() && p.lost[w.ID] == w.Incarnation
}

// lose writes down that a worker is lost. No event led to that.
func (p *planner) lose(w *projections.Worker) {
	p.decide(Append{
		Event: events.Event{
			Chain: events.WorkerChain(w.ID), Body: events.Lost{Worker: w.ID},
			Actor: PlanActor, Reason: "its lease ended and was not renewed",
		},
		Tip: w.Tip,
	})
}

// lead writes down that this controller leads, unless the history says so.
func lead(v *View, self events.LedBy) []Decision {
	l := v.History.Fleet().Leader
	if self.Controller == "" || l != nil && l.Controller == self.Controller && l.Incarnation == self.Incarnation {
		return nil
	}
	return []Decision{Append{
		Event: events.Event{Chain: events.FleetChain(), Body: self, Actor: PlanActor},
		Tip:   v.History.Tip(events.FleetChain()),
	}}
}

// settle ends an update whose replacement works wherever it is wanted, which may
// be nowhere: as many of the instances that stay as are wanted. A connection that
// serves the former definition as well as the new one is such a replacement.
func (p *planner) settle(s *projections.Server, wanted int, kept []*projections.Instance) {
	if s.Update == nil {
		return
	}
	same := events.SameConnection(s.Update.From, s.Definition)
	for _, i := range kept {
		if i.State.Working() && (i.Generation >= s.Update.Seq || same && i.Definition == s.Digest) {
			wanted--
		}
	}
	if wanted > 0 {
		return
	}
	cause := p.view.origins[events.ServerChain(s.ID)]
	p.decide(Append{
		Event: events.Event{
			// The request's id stays that of the update alone.
			Chain: events.ServerChain(s.ID), Body: events.UpdateSettled{}, Actor: PlanActor,
			Cause: string(cause.ID), Trace: cause.Trace,
		},
		Tip: s.Tip,
	})
}

// wanted returns the instances that there should be, each with the only worker
// that it may have, or "".
func (p *planner) wanted(s *projections.Server) map[events.InstanceID]events.WorkerID {
	wanted := make(map[events.InstanceID]events.WorkerID)
	if s.Wanted() != events.Running {
		return wanted
	}
	var replicas events.Replicas
	if s.Definition.Placement != nil {
		replicas = s.Definition.Placement.Replicas
	}
	count, counted := replicas.Count()
	if counted {
		for n := range min(count, events.MaxReplicas) {
			wanted[events.InstanceID(strconv.Itoa(n))] = ""
		}
		return wanted
	}
	for _, w := range p.workers {
		if w.Present() && suits(s.Definition, w) {
			wanted[events.InstanceID(w.ID)] = w.ID
		}
	}
	return wanted
}

// owner returns the worker that owns an instance, or nil if that incarnation is
// gone.
func (p *planner) owner(i *projections.Instance) *projections.Worker {
	w := p.view.History.Worker(i.Worker)
	if w == nil || !w.Present() || w.Incarnation != i.Incarnation {
		return nil
	}
	return w
}

// disown ends the ownership of an incarnation that is gone. One that stopped the
// instance, or left, has ended it in order.
func (p *planner) disown(s *projections.Server, i *projections.Instance) {
	w := p.view.History.Worker(i.Worker)
	worker := events.WorkerChain(i.Worker)
	switch {
	case i.State == projections.Stopped:
		p.append(s, i, events.Released{Reason: "its worker is gone"}, worker)
	case w != nil && w.State == projections.WorkerLeft && w.Incarnation == i.Incarnation:
		p.append(s, i, events.Released{Reason: "its worker left"}, worker)
	default:
		p.append(s, i, events.Lost{Worker: i.Worker}, worker)
	}
}

func (p *planner) run(s *projections.Server, i *projections.Instance) {
	p.order(s, i, &events.Command{
		Want: events.Running, Definition: s.Definition, Digest: s.Digest,
		Generation: s.Generation, Restart: s.Restart,
	}, func(last *events.Command) bool {
		return last.Want == events.Running && last.Generation == s.Generation // which everything else follows from
	})
}

// stop commands the owner to stop, and takes the instance away once it did.
func (p *planner) stop(s *projections.Server, i *projections.Instance) {
	commanded := p.order(s, i, &events.Command{Want: events.Stopped, Generation: s.Generation, Restart: s.Restart},
		func(last *events.Command) bool { return last.Want == events.Stopped })
	if commanded && i.State == projections.Stopped {
		p.append(s, i, events.Released{Reason: whyStopped(s)}, events.ServerChain(s.ID))
	}
}

func whyStopped(s *projections.Server) string {
	switch {
	case s.Withdrawn:
		return "the server is withdrawn"
	case !s.Enabled:
		return "the server is disabled"
	case s.Wanted() == events.Stopped:
		return "the server is stopped"
	default:
		return "it is placed elsewhere"
	}
}

// order wants a command for the owner of an instance, unless the last one says
// the same. It reports whether it does.
func (p *planner) order(s *projections.Server, i *projections.Instance, c *events.Command, same func(last *events.Command) bool) bool {
	to := events.Address{Worker: i.Worker, Server: i.Server, Instance: i.Instance}
	c.Incarnation, c.Epoch = i.Incarnation, i.Epoch
	last := p.commands[to]
	if last.Command != nil {
		if last.Command.Epoch == c.Epoch && last.Command.Incarnation == c.Incarnation && same(last.Command) {
			return true
		}
		if c.Older(last.Command) {
			return false // a controller that has seen more commanded it
		}
	}
	cause := p.view.later(events.ServerChain(s.ID), events.InstanceChain(i.Server, i.Instance))
	c.Cause, c.Trace = string(cause.ID), cause.Trace
	p.decide(Order{To: to, Command: c, Seen: last.Seq})
	return false
}

// assign gives an instance without an owner to a worker, if there is one that
// may take it.
func (p *planner) assign(s *projections.Server, n events.InstanceID, only events.WorkerID) {
	var fit []*projections.Worker
	var reasons []string // of those that do not fit
	for _, w := range p.workers {
		if only != "" && only != w.ID {
			continue
		}
		reason := cmp.Or(refuses(w, p.load[w.ID]), unsuitable(s.Definition, w))
		if reason == "" {
			fit = append(fit, w)
		} else {
			reasons = append(reasons, reason)
		}
	}
	id, ok := Place(s.ID, n, fit, p.holds[s.ID])
	if !ok {
		p.waiting[events.InstanceChain(s.ID, n)] = nobody(reasons)
		return
	}
	i, reason := p.view.History.Instance(s.ID, n), "placed"
	switch {
	case i == nil:
		i = &projections.Instance{Server: s.ID, Instance: n}
	case i.State == projections.Lost:
		reason = "its worker was lost"
	case i.State == projections.Released:
		reason = "it was released"
	}
	p.take(s.ID, id, 1)
	w := p.view.History.Worker(id)
	p.append(s, i, events.Assigned{Worker: id, Incarnation: w.Incarnation, Epoch: i.Epoch + 1, Reason: reason}, events.ServerChain(s.ID))
}

// append wants an event on the chain of an instance, caused by the last decisive
// event of another chain.
func (p *planner) append(s *projections.Server, i *projections.Instance, b events.Body, by events.Chain) {
	epoch := i.Epoch
	if a, ok := b.(events.Assigned); ok {
		epoch = a.Epoch
	}
	cause := p.view.origins[by]
	p.decide(Append{
		Event: events.Event{
			Chain: events.InstanceChain(i.Server, i.Instance), Body: b, Epoch: epoch, Actor: PlanActor,
			Cause: string(cause.ID), Correlation: cause.Correlation, Trace: cause.Trace,
		},
		Tip: i.Tip,
	})
}

// tidy purges commands that nobody acts on: their epoch is over, and none of the
// same worker has followed it. One of an epoch that the history does not have
// yet is left alone.
func (p *planner) tidy() {
	for _, a := range slices.SortedFunc(maps.Keys(p.commands), compareAddresses) {
		c := p.commands[a]
		i := p.view.History.Instance(a.Server, a.Instance)
		if i == nil || c.Command.Epoch > i.Epoch || i.State.Owned() && i.Worker == a.Worker {
			continue
		}
		p.decide(Purge{Of: a, UpTo: c.Seq})
	}
}
