package controller

import (
	"cmp"
	"slices"
	"strconv"

	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/projections"
)

// crowd are the instances of a server that is to have a number of them, whose
// owners are there.
type crowd struct {
	*planner
	server *projections.Server
	count  int
	// staying are at most count; leaving have to go, the first of them first.
	staying, leaving []*projections.Instance
	// target is the worker that an instance has been asked to move to, or nil.
	target *projections.Worker
}

// some plans the instances of a server that is to have a number of them; held
// more are about to be taken from workers that are gone.
func (p *planner) some(s *projections.Server, count, held int, owned []*projections.Instance) {
	c := &crowd{planner: p, server: s, count: count, target: p.target(s)}
	c.divide(owned)
	missing := count - len(c.staying) - held
	for _, i := range c.staying {
		p.run(s, i)
	}
	var working []*projections.Instance // of the leaving
	for _, i := range c.leaving {
		switch {
		case !c.surges() || !i.State.Working() || p.told(i):
			if !c.surges() {
				missing-- // it is to run again in the place of itself
			}
			p.stop(s, i)
		default:
			working = append(working, i)
		}
	}
	unplaced := c.fill(missing)
	c.part(working, unplaced)
	if !c.overlaps() || len(c.leaving) == 0 {
		p.settle(s, count, c.staying)
	}
}

// divide says who stays: as many as are wanted of those that may, the better
// ones.
func (c *crowd) divide(owned []*projections.Instance) {
	slices.SortFunc(owned, func(a, b *projections.Instance) int { return c.compare(a, b) })
	for _, i := range owned {
		if (len(c.staying) < c.count || c.frozen && c.count > 0) && c.mayStay(i) {
			c.staying = append(c.staying, i)
		} else {
			c.leaving = append(c.leaving, i)
		}
	}
	if c.target != nil && !c.frozen && len(c.staying) == c.count && len(c.leaving) == 0 && c.count > 0 {
		// The replacement of any other that had to go would go there. It is the one
		// that was told already, if one was: the next plan does not change its mind.
		last := len(c.staying) - 1
		c.staying, c.leaving = c.staying[:last], c.staying[last:]
	}
	slices.Reverse(c.leaving)
}

// compare orders instances: those that had better stay come first. What was told
// to stop goes on with that, what was moved stays there, and of those that do
// their work the lower ordinals stay.
func (c *crowd) compare(a, b *projections.Instance) int {
	return cmp.Or(
		first(!c.told(a), !c.told(b)),
		first(c.arrived(a), c.arrived(b)),
		first(!c.outdated(a), !c.outdated(b)),
		first(a.State.Working(), b.State.Working()),
		cmp.Compare(ordinal(a.Instance), ordinal(b.Instance)),
	)
}

// first orders what is true before what is not.
func first(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	default:
		return 1
	}
}

// ordinal returns the number that an instance is named by; -1 if it is none.
func ordinal(n events.InstanceID) int {
	k, err := strconv.Atoi(string(n))
	if err != nil || strconv.Itoa(k) != string(n) {
		return -1
	}
	return k
}

func (c *crowd) mayStay(i *projections.Instance) bool {
	if c.frozen {
		return !c.told(i)
	}
	// One that is named by its worker was one of each.
	owner := c.owner(i)
	return ordinal(i.Instance) >= 0 && suits(c.server.Definition, owner) && !owner.Draining && !c.outdated(i)
}

// told says whether the owner was commanded to stop the instance.
func (p *planner) told(i *projections.Instance) bool {
	last := p.commands[addressOf(i)].Command
	return last != nil && last.Epoch == i.Epoch && last.Incarnation == i.Incarnation && last.Want == events.Stopped
}

// overlaps says whether an update is under way that replaces instances by others.
func (c *crowd) overlaps() bool {
	s := c.server
	return s.Update != nil && s.Definition != nil && s.Definition.Update == "overlap"
}

// surges says whether another instance takes the place of one before it goes.
func (c *crowd) surges() bool {
	return c.count > 0 && !c.frozen && (!c.server.Definition.IsStateful() || c.overlaps())
}

// outdated says whether an instance serves what an update replaces, and is to go
// on with that until another one serves what it is replaced by.
func (c *crowd) outdated(i *projections.Instance) bool {
	if !c.overlaps() || c.frozen || !i.State.Working() || i.Generation >= c.server.Update.Seq {
		return false
	}
	return !events.SameConnection(c.server.Update.From, c.server.Definition) || i.Definition != c.server.Digest
}

// target returns the worker that a server has been asked to move to, as long as
// that is to be done: until the next assignment of the server, and only while the
// worker has none of its instances and may take one.
func (p *planner) target(s *projections.Server) *projections.Worker {
	if s.Move == nil || p.isMoved(s) {
		return nil
	}
	w := p.view.History.Worker(s.Move.Worker)
	if w == nil || p.isLost(w) || p.holds[s.ID][w.ID] > 0 || refuses(w, p.load[w.ID]) != "" || !suits(s.Definition, w) {
		return nil
	}
	return w
}

// isMoved says whether an instance was assigned since the server was asked to
// move.
func (p *planner) isMoved(s *projections.Server) bool {
	for i := range p.view.History.InstancesOf(s.ID) {
		if p.view.assigned[events.InstanceChain(s.ID, i.Instance)] > s.Move.Seq {
			return true
		}
	}
	return false
}

// arrived says whether an instance is where the server was asked to move, and
// because of that.
func (c *crowd) arrived(i *projections.Instance) bool {
	m := c.server.Move
	return m != nil && i.Worker == m.Worker && c.view.assigned[events.InstanceChain(i.Server, i.Instance)] > m.Seq
}

// fill assigns so many instances, and returns for how many of them there is no
// worker.
func (c *crowd) fill(missing int) (unplaced int) {
	for k := 0; missing > 0; k++ {
		n := events.InstanceID(strconv.Itoa(k))
		if c.held(c.server, n) {
			continue
		}
		missing--
		x := wish{why: c.whyAssigned(n)}
		if c.target != nil {
			x.rather, x.why = c.target.ID, "it moves to "+string(c.target.ID)
			c.target = nil
		}
		if !c.assign(c.server, n, x) {
			unplaced++
		}
	}
	return unplaced
}

// part stops those that have to go and still work, as far as they are not needed
// any more, or nobody can take their place.
func (c *crowd) part(working []*projections.Instance, unplaced int) {
	spare := len(working) - c.count
	for _, i := range c.staying {
		if i.State.Working() {
			spare++
		}
	}
	for _, i := range working {
		switch {
		case spare > 0:
			spare--
			c.stop(c.server, i)
		case unplaced == 0:
			c.linger(c.server, i)
		case c.owner(i).Draining || !suits(c.server.Definition, c.owner(i)):
			unplaced--
			c.stop(c.server, i)
		default: // it is updated where it is
			unplaced--
			c.run(c.server, i)
		}
	}
}

// whyAssigned says why an instance is assigned now.
func (c *crowd) whyAssigned(n events.InstanceID) string {
	i := c.view.History.Instance(c.server.ID, n)
	if i != nil && i.State == projections.Lost {
		return "its worker was lost"
	}
	for _, other := range c.leaving {
		switch owner := c.owner(other); {
		case owner.Draining:
			return "worker " + string(owner.ID) + " drains"
		case !suits(c.server.Definition, owner):
			return "its placement excludes " + string(owner.ID)
		case c.outdated(other):
			return "an update replaces instance " + string(other.Instance)
		}
	}
	if i == nil || i.State != projections.Released {
		return "placed"
	}
	switch w := c.view.History.Worker(i.Worker); {
	case w == nil || !w.Present() || w.Incarnation != i.Incarnation:
		return "its worker left"
	case w.Draining:
		return "its worker drains"
	case !suits(c.server.Definition, w):
		return "its placement excludes " + string(w.ID)
	default:
		return "placed"
	}
}
