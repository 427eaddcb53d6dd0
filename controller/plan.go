package controller

import (
	"cmp"

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
// Of a server that has a number of instances, ordinals are names, which of them
// there are is of no consequence. Where a server is stateless, or its update is to
// overlap, another instance takes the place of one that has to go before that one
// is stopped (a surge): it gets the lowest ordinal that is not assigned. Where
// nobody may take it there is no surge.
//
// While the fleet is frozen, nothing is assigned, moved or replaced; what is to
// run goes on, and what is to stop is stopped.
//
// The history must be a whole prefix of the log, and commands at most older than
// it: then no decision undoes one of a controller that has seen more.
func Plan(v *View, commands Commands, lost Lost) []Decision {
	decisions, _ := plan(v, commands, lost)
	return decisions
}

// Waiting says why the instances have no owner that are wanted and have none: of
// each of them, in words for people. It is as good as the history that it is
// given, which needs to hold no more than the states of servers, instances,
// workers and the fleet.
func Waiting(h *projections.History) map[events.Chain]string {
	_, waiting := plan(&View{History: *h}, nil, nil)
	return waiting
}

// plan is Plan, and says why the instances wait that are wanted and have no
// owner.
func plan(v *View, commands Commands, lost Lost) ([]Decision, map[events.Chain]string) {
	p := planner{
		view: v, commands: commands, lost: lost,
		frozen:  v.History.Fleet().Frozen != nil,
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
	frozen   bool
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
	var owned []*projections.Instance // by workers that are there
	held := 0                         // by workers that are gone, until that is written down
	for _, i := range instances {
		if !i.State.Owned() {
			continue
		}
		switch owner := p.owner(i); {
		case owner == nil:
			p.disown(s, i)
			held++
		case p.isLost(owner):
			held++
		default:
			owned = append(owned, i)
		}
	}
	var count int
	counted := true
	if s.Wanted() == events.Running {
		count, counted = replicasOf(s.Definition).Count()
	}
	if counted {
		p.some(s, min(count, events.MaxReplicas), held, owned)
	} else {
		p.each(s, owned)
	}
}

// each plans the instances of a server that runs once on each worker that is
// there and eligible. A worker that is gone lacks nothing.
func (p *planner) each(s *projections.Server, owned []*projections.Instance) {
	has := make(map[events.InstanceID]*projections.Instance, len(owned))
	for _, i := range owned {
		has[i.Instance] = i
	}
	wanted := 0
	var kept []*projections.Instance
	for _, w := range p.workers {
		n := events.InstanceID(w.ID)
		i := has[n]
		keeps := i != nil && i.Worker == w.ID && (p.frozen && !p.told(i) || !w.Draining && suits(s.Definition, w))
		switch {
		case keeps:
			kept = append(kept, i)
			p.run(s, i)
			delete(has, n)
		case i == nil && w.Eligible() && suits(s.Definition, w) && !p.held(s, n):
			p.assign(s, n, wish{only: w.ID, why: "one on each worker"})
		case !w.Eligible() || !suits(s.Definition, w):
			continue
		}
		wanted++
	}
	for _, i := range owned {
		if has[i.Instance] == i {
			p.stop(s, i)
		}
	}
	p.settle(s, wanted, kept)
}

// held says whether an instance still has an owner that is gone.
func (p *planner) held(s *projections.Server, n events.InstanceID) bool {
	i := p.view.History.Instance(s.ID, n)
	return i != nil && i.State.Owned()
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

// wish is what an assignment has to regard.
type wish struct {
	// only is the one worker that may have the instance, "" for any; rather is one
	// that gets it if it may.
	only, rather events.WorkerID
	// why the instance is assigned at all.
	why string
}

// assign gives an instance without an owner to a worker, and says whether there
// is one that may take it.
func (p *planner) assign(s *projections.Server, n events.InstanceID, x wish) bool {
	if p.frozen {
		p.waiting[events.InstanceChain(s.ID, n)] = "the fleet is frozen"
		return false
	}
	var fit []*projections.Worker
	var reasons []string // of those that do not fit
	for _, w := range p.workers {
		if x.only != "" && x.only != w.ID {
			continue
		}
		reason := cmp.Or(refuses(w, p.load[w.ID]), unsuitable(s.Definition, w))
		if reason == "" {
			fit = append(fit, w)
		} else {
			reasons = append(reasons, reason)
		}
	}
	id, why := choose(s.ID, n, fit, p.holds[s.ID], x.rather)
	if id == "" {
		p.waiting[events.InstanceChain(s.ID, n)] = nobody(reasons)
		return false
	}
	i := p.view.History.Instance(s.ID, n)
	if i == nil {
		i = &projections.Instance{Server: s.ID, Instance: n}
	}
	p.take(s.ID, id, 1)
	p.append(s, i, events.Assigned{
		Worker: id, Incarnation: p.view.History.Worker(id).Incarnation, Epoch: i.Epoch + 1, Reason: x.why + ": " + why,
	}, events.ServerChain(s.ID))
	return true
}

// append wants an event on the chain of an instance, caused by the last decisive
// event of another chain.
func (p *planner) append(s *projections.Server, i *projections.Instance, b events.Body, by events.Chain) {
	epoch := i.Epoch
	if a, ok := b.(events.Assigned); ok {
		epoch = a.Epoch
	}
	cause, chain := p.view.origins[by], events.InstanceChain(i.Server, i.Instance)
	p.decide(Append{
		Event: events.Event{
			Chain: chain, Body: b, Epoch: epoch, Actor: PlanActor,
			Cause: string(cause.ID), Correlation: cause.Correlation,
			// What follows from a loss belongs to the trace of that, not to the one in
			// which the server was declared, perhaps a year ago.
			Trace: p.view.latest(by, chain).Trace,
		},
		Tip: i.Tip,
	})
}
