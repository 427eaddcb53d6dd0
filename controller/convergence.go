package controller

import (
	"time"

	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/projections"
)

// convergence is the way from a change of what should run to what runs: two
// events of the history, which tell when it began and how it ended whoever reads
// them, and whenever.
type convergence struct {
	server  events.ServerID
	wish    origin
	since   time.Time
	outcome conclusion
	// end is the event that ended it, if one did.
	end  events.Trace
	at   time.Time
	code events.Code
}

// conclusion is how a convergence ended.
type conclusion string

const (
	nowReady     conclusion = "ready"
	nowFailed    conclusion = "failed"
	nowOther     conclusion = "superseded"
	nowForgotten conclusion = "timeout"
)

const (
	// convergeWithin is how long is waited for what was wished for, as far as
	// telling of it goes.
	convergeWithin = 15 * time.Minute
	// toldLate is how long ago a convergence may have ended that is told of, by a
	// controller that begins to lead after that. Its predecessor may have told of
	// it, too, but back ends keep one of the two.
	toldLate = 10 * time.Minute
	// maxConverged bounds those that ended and were not told of.
	maxConverged = 1000
)

// convergences are those under way, and those that ended and were not told of.
type convergences struct {
	open  map[events.ServerID]*convergence
	ended []convergence
}

// apply takes a record that was just folded.
func (c *convergences) apply(v *View, r *events.Record) {
	id := r.Chain.Server()
	s := v.History.Server(id)
	if s == nil {
		return
	}
	x := c.open[id]
	if r.Chain.Kind() == events.OfServer {
		if s.Generation != r.Seq {
			return
		}
		if b, back := r.Body.(events.UpdateRolledBack); back && x != nil {
			c.close(x, r, nowFailed, b.Failure.Code)
		} else if x != nil {
			c.close(x, r, nowOther, "")
		}
		if c.open == nil {
			c.open = make(map[events.ServerID]*convergence)
		}
		x = &convergence{server: id, since: r.Time, wish: origin{Seq: r.Seq, ID: r.ID, Correlation: r.Correlation, Trace: r.Trace}}
		c.open[id] = x
	}
	if x == nil {
		return
	}
	if code := failing(v.History.Instance(id, r.Chain.Instance()), x.wish.Seq); code != "" {
		c.close(x, r, nowFailed, code)
	} else if converged(v, s, x.wish.Seq) {
		c.close(x, r, nowReady, "")
	}
}

func (c *convergences) close(x *convergence, r *events.Record, how conclusion, code events.Code) {
	delete(c.open, x.server)
	x.outcome, x.end, x.at, x.code = how, r.Trace, r.Time, code
	c.ended = append(c.ended, *x)
	if len(c.ended) > maxConverged {
		c.ended = c.ended[1:]
	}
}

// take returns those that ended and are worth telling of, once.
func (c *convergences) take(now time.Time) []convergence {
	c.expire(now)
	taken := c.ended
	c.ended = nil
	return taken
}

// expire ends those that have gone on for too long, and drops those that ended too
// long ago.
func (c *convergences) expire(now time.Time) {
	for id, x := range c.open {
		if now.Sub(x.since) > convergeWithin {
			delete(c.open, id)
			x.outcome, x.at = nowForgotten, x.since.Add(convergeWithin)
			c.ended = append(c.ended, *x)
		}
	}
	kept := c.ended[:0]
	for _, x := range c.ended {
		if now.Sub(x.at) <= toldLate {
			kept = append(kept, x)
		}
	}
	c.ended = kept
}

// failing says why an instance that follows a wish is not tried again soon.
func failing(i *projections.Instance, wish events.Seq) events.Code {
	if i == nil || i.Generation < wish {
		return ""
	}
	switch {
	case i.State == projections.AuthRequired:
		return events.AuthenticationNeeded
	case i.State == projections.Parked && i.Failure != nil:
		return i.Failure.Code
	default:
		return ""
	}
}

// converged says whether what runs of a server is what a wish asked for.
func converged(v *View, s *projections.Server, wish events.Seq) bool {
	running := s.Wanted() == events.Running
	same := s.Update != nil && events.SameConnection(s.Update.From, s.Definition)
	works := 0
	for i := range v.History.InstancesOf(s.ID) {
		switch {
		case !i.State.Owned(), i.State == projections.Stopped:
		case !running:
			return false
		case i.State.Working() && (i.Generation >= wish || same && i.Definition == s.Digest):
			works++
		}
	}
	if !running {
		return true
	}
	count, counted := replicasOf(s.Definition).Count()
	if counted {
		return works >= min(count, events.MaxReplicas)
	}
	count = 0
	for w := range v.History.Workers() {
		if w.Eligible() && suits(s.Definition, w) {
			count++
		}
	}
	return works >= max(count, 1)
}
