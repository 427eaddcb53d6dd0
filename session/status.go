package session

import (
	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/projections"
	"github.com/toolfleet/toolfleet/projections/kvview"
)

// Status is what a session knows at one moment. Nobody may change what it refers
// to.
type Status struct {
	// AsOf is the position in the fleet's history that all of it is at least as
	// new as, and when that was known. While projectors are away it grows old
	// ([kvview.AsOf.Behind]).
	AsOf kvview.AsOf
	// Tools are sorted by name, as [Session.Tools] returns them.
	Tools []Tool
	// Servers are those that the session sees, in the order of their ids, each
	// with its state and, if it does not work, why.
	Servers []projections.Status
}

// Status returns what the session knows now: its tools and servers as of one
// moment.
func (s *Session) Status() Status {
	now, _ := s.load()
	n := Status{AsOf: now.asOf, Tools: now.catalogue.tools}
	for i := range now.catalogue.members {
		n.Servers = append(n.Servers, now.catalogue.members[i].status())
	}
	return n
}

// Pending returns the servers that are starting and whose tools nobody knows:
// the list lacks them.
func (s *Session) Pending() []events.ServerID {
	now, _ := s.load()
	return now.catalogue.starting(func(m *member) bool { return len(m.list.tools) == 0 })
}

// starting returns the servers that should work, do not yet, and of which that
// holds. One that failed and is tried again does so, too.
func (c *catalogue) starting(that func(*member) bool) (ids []events.ServerID) {
	for i := range c.members {
		m := &c.members[i]
		if n := m.status(); !m.ready(&n) && n.Status != projections.IsDisconnected && that(m) {
			ids = append(ids, n.ID)
		}
	}
	return ids
}

// ready says whether a server works and its tools are there.
func (m *member) ready(n *projections.Status) bool {
	return n.Status == projections.IsConnected && m.list.current
}

// hopeful says whether a server that is not ready is expected to be so by
// itself, soon. What is parked may come back, too, but nobody knows when.
func hopeful(n *projections.Status) bool {
	switch n.State {
	case projections.Disabled, projections.Withdrawn, projections.Rejected, projections.Parked, projections.AuthRequired:
		return false
	case projections.Failed:
		return n.Want == events.Running && n.Failure != nil && n.Failure.Retry
	default:
		return n.Want == events.Running
	}
}
