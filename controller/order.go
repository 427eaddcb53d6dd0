package controller

import (
	"maps"
	"slices"

	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/projections"
)

// run commands the owner to run the definition in force.
func (p *planner) run(s *projections.Server, i *projections.Instance) {
	c := p.running(s)
	p.order(s, i, c, func(last *events.Command, _ origin) bool { return sameRun(last, c) })
}

func (p *planner) running(s *projections.Server) *events.Command {
	return &events.Command{
		Want: events.Running, Definition: s.Definition, Digest: s.Digest,
		Generation: s.Generation, Restart: s.Restart, Frozen: p.frozen,
	}
}

// sameRun compares commands to run; everything else follows from the generation.
func sameRun(a, b *events.Command) bool {
	return a.Want == events.Running && a.Generation == b.Generation && a.Frozen == b.Frozen
}

// linger has an instance go on as it was commanded last, until another one has
// taken its place. A worker that drains is told so, by a command that goes back to
// that: it need not wonder whether anybody heard.
func (p *planner) linger(s *projections.Server, i *projections.Instance) {
	c := p.running(s)
	if last := p.commands[addressOf(i)].Command; last != nil && last.Epoch == i.Epoch && last.Want == events.Running {
		c.Definition, c.Digest, c.Generation, c.Restart = last.Definition, last.Digest, last.Generation, last.Restart
	}
	p.order(s, i, c, func(last *events.Command, by origin) bool {
		return sameRun(last, c) && (!p.owner(i).Draining || last.Cause == string(by.ID))
	})
}

// stop commands the owner to stop, and takes the instance away once it did.
func (p *planner) stop(s *projections.Server, i *projections.Instance) {
	commanded := p.order(s, i, &events.Command{Want: events.Stopped, Generation: s.Generation, Restart: s.Restart},
		func(last *events.Command, _ origin) bool { return last.Want == events.Stopped })
	if commanded && i.State == projections.Stopped {
		p.append(s, i, events.Released{Reason: p.whyStopped(s, i)}, events.ServerChain(s.ID))
	}
}

func (p *planner) whyStopped(s *projections.Server, i *projections.Instance) string {
	switch {
	case s.Withdrawn:
		return "the server is withdrawn"
	case !s.Enabled:
		return "the server is disabled"
	case s.Wanted() == events.Stopped:
		return "the server is stopped"
	case p.owner(i).Draining:
		return "its worker drains"
	case !suits(s.Definition, p.owner(i)):
		return "its placement: " + unsuitable(s.Definition, p.owner(i))
	case p.target(s) != nil:
		return "it moves to " + string(s.Move.Worker)
	default:
		return "another one is in its place, or fewer are wanted"
	}
}

// order wants a command for the owner of an instance, unless the last one says
// the same. It reports whether it does.
func (p *planner) order(
	s *projections.Server, i *projections.Instance, c *events.Command, same func(last *events.Command, by origin) bool,
) bool {
	to := addressOf(i)
	c.Incarnation, c.Epoch = i.Incarnation, i.Epoch
	causes := []events.Chain{events.ServerChain(s.ID), events.InstanceChain(i.Server, i.Instance)}
	if p.owner(i).Draining {
		causes = append(causes, events.WorkerChain(i.Worker))
	}
	by := p.view.latest(causes...)
	last := p.commands[to]
	if last.Command != nil {
		if last.Command.Epoch == c.Epoch && last.Command.Incarnation == c.Incarnation && same(last.Command, by) {
			return true
		}
		if c.Older(last.Command) {
			return false // a controller that has seen more commanded it
		}
	}
	c.Cause, c.Trace = string(by.ID), by.Trace
	p.decide(Order{To: to, Command: c, Seen: last.Seq})
	return false
}

// addressOf returns where the owner of an instance is commanded.
func addressOf(i *projections.Instance) events.Address {
	return events.Address{Worker: i.Worker, Server: i.Server, Instance: i.Instance}
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
