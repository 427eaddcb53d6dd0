package session

import (
	"time"

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
	// Tools are sorted by name, as [Session.Tools] returns them. Total is how many
	// there are; where Options.MaxTools leaves some out, Omitted counts those by
	// server.
	Tools   []Tool
	Total   int
	Omitted map[events.ServerID]int
	// Renamed are the tools that do not have the name that they would, because the
	// host has reserved it: see [Tool.Reserved].
	Renamed []Tool
	// Resources, Templates and Prompts are as the session's methods return them.
	Resources []Resource
	Templates []Template
	Prompts   []Prompt
	// Servers are those that the session sees, in the order of their ids, each
	// with its state and, if it does not work, why.
	Servers []projections.Status
}

// Status returns what the session knows now: its tools and servers as of one
// moment.
func (s *Session) Status() Status {
	now, _ := s.load()
	c := now.catalogue
	n := Status{
		AsOf: now.asOf, Tools: c.tools, Total: len(c.all), Omitted: c.omitted(),
		Resources: c.resources, Templates: c.templates, Prompts: c.prompts,
	}
	for i := range c.all {
		if c.all[i].Reserved != "" {
			n.Renamed = append(n.Renamed, c.all[i])
		}
	}
	for i := range c.members {
		n.Servers = append(n.Servers, c.members[i].status())
	}
	return n
}

// Instructions returns what a server says of how it wants to be used, or "" if it
// says nothing or is not connected.
func (s *Session) Instructions(id events.ServerID) string {
	now, _ := s.load()
	if m := now.catalogue.member(id); m != nil {
		if i := m.used(); i != nil && i.Connection != nil {
			return i.Connection.Instructions
		}
	}
	return ""
}

// used returns the instance that the session uses, or nil.
func (m *member) used() *projections.Instance {
	for _, i := range m.instances {
		if i.Instance == m.instance {
			return i
		}
	}
	return nil
}

// Pending returns the servers that are starting and whose tools nobody knows: the
// list lacks them. One that no worker may take is not starting.
func (s *Session) Pending() []events.ServerID {
	now, _ := s.load()
	return now.catalogue.starting(func(m *member) bool { return len(m.tools.list) == 0 && !m.unplaced(time.Now()) })
}

// placeWithin is more than controllers need to place what can be placed.
const placeWithin = 3 * time.Second

// unplaced says whether nobody has taken the server for longer than placing takes:
// no worker may take it, and it is not starting.
func (m *member) unplaced(now time.Time) bool {
	n := m.status()
	since := n.Changed
	for _, i := range m.instances {
		if i.Since.After(since) {
			since = i.Since
		}
	}
	return n.State == projections.Deferred && now.Sub(since) > placeWithin
}

// Unlisted returns the servers that work and say that they have resources or
// prompts, but of which those of this connection are not listed yet: they are,
// shortly after the tools, unless the server fails to list them.
func (s *Session) Unlisted() (ids []events.ServerID) {
	now, _ := s.load()
	for i := range now.catalogue.members {
		if m := &now.catalogue.members[i]; m.expects(resourceList, m.resources.current) || m.expects(promptList, m.prompts.current) {
			ids = append(ids, m.server.ID)
		}
	}
	return ids
}

// expects says whether a list of the kind is still expected of the member, whose
// last one is current or not.
func (m *member) expects(kind listKind, current bool) bool {
	i := m.used()
	return i != nil && i.State.Working() && i.Connection != nil && declares(i.Connection.Capabilities, kind) &&
		(!current || catalogueOf(i, kind).Seq < i.Connection.Seq)
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
	return n.Status == projections.IsConnected && m.tools.current
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
