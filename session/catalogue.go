package session

import (
	"bytes"
	"cmp"
	"iter"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/projections"
)

// fleet is what a catalogue is made from: the fleet's views at one moment.
type fleet interface {
	Servers() iter.Seq[*projections.Server]
	Server(events.ServerID) *projections.Server
	InstancesOf(events.ServerID) iter.Seq[*projections.Instance]
	Instance(events.ServerID, events.InstanceID) *projections.Instance
	// Tools returns an instance's tools as its server sent them, with the digest
	// of the list, or false where they are not known, or not yet.
	Tools(events.ServerID, events.InstanceID) ([]jsontext.Value, events.Digest, bool)
}

// catalogue is what a session offers. It is a value: [catalogue.next] makes
// another one, and nothing that is reachable from it is written to again.
type catalogue struct {
	tools []Tool // in the order of their names
	// lists are the tools of each server that the session sees.
	lists map[events.ServerID]list
}

// list is the tools that one instance offers.
type list struct {
	instance events.InstanceID
	digest   events.Digest
	state    projections.ToolsState
	path     string
	tools    []Tool
}

// viewpoint says what a session sees of the fleet.
type viewpoint struct {
	chooser
	project string
	scheme  projections.Scheme
}

// next returns the catalogue of a fleet, and whether it offers something else
// than c does. Each server's tools are replaced as a whole.
func (c *catalogue) next(f fleet, v *viewpoint) (n *catalogue, changed bool) {
	n = &catalogue{lists: make(map[events.ServerID]list, len(c.lists))}
	for s := range v.visible(f) {
		before := c.lists[s.ID]
		i := v.choose(s, f.InstancesOf(s.ID), before.instance)
		if i == nil {
			continue
		}
		l := v.list(f, s, i, before)
		n.lists[s.ID] = l
		n.tools = append(n.tools, l.tools...)
	}
	slices.SortFunc(n.tools, func(a, b Tool) int { return cmp.Compare(a.Name, b.Name) })
	if slices.EqualFunc(c.tools, n.tools, same) {
		n.tools = c.tools
		return n, false
	}
	return n, true
}

func same(a, b Tool) bool {
	return a.Name == b.Name && a.Server == b.Server && a.Tool == b.Tool && a.State == b.State && a.Path == b.Path &&
		bytes.Equal(a.Definition, b.Definition)
}

// list returns the tools of an instance. Those that were read before are taken
// again, also while newer ones are on their way.
func (v *viewpoint) list(f fleet, s *projections.Server, i *projections.Instance, before list) list {
	l := list{instance: i.Instance, state: s.Offer(i), path: pathOf(s)}
	items, digest, known := f.Tools(s.ID, i.Instance)
	if !known || digest == before.digest {
		if l.digest, l.tools = before.digest, before.tools; l.state == before.state && l.path == before.path {
			return l
		}
		l.tools = slices.Clone(l.tools)
		for n := range l.tools {
			l.tools[n].State, l.tools[n].Path = l.state, l.path
		}
		return l
	}
	l.digest = digest
	named := make(map[string]bool, len(items))
	for _, item := range items {
		t, ok := describe(item)
		if !ok || named[t.Tool] {
			continue // unreachable unless a worker let a list through that names a tool twice, or not
		}
		named[t.Tool] = true
		t.Name, t.Server, t.State, t.Path = v.scheme.Name(s.ID, t.Tool), s.ID, l.state, l.path
		l.tools = append(l.tools, t)
	}
	return l
}

// visible returns the servers that a session sees: the fleet's and its
// project's, except that one of the project hides the fleet's of the same name.
func (v *viewpoint) visible(f fleet) iter.Seq[*projections.Server] {
	return func(yield func(*projections.Server) bool) {
		hidden := make(map[string]bool)
		if v.project != "" {
			for s := range f.Servers() {
				if s.Exists() && s.Definition.Scope == events.ProjectScope(v.project) {
					hidden[nameOf(s)] = true
				}
			}
		}
		for s := range f.Servers() {
			if s.Exists() && v.sees(s, hidden) && !yield(s) {
				return
			}
		}
	}
}

func (v *viewpoint) sees(s *projections.Server, hidden map[string]bool) bool {
	if project, ok := s.Definition.Scope.Project(); ok {
		return project == v.project
	}
	return !hidden[nameOf(s)]
}

// nameOf returns what a server is called where it was defined.
func nameOf(s *projections.Server) string {
	if name := s.Definition.Labels["name"]; name != "" {
		return name
	}
	return string(s.ID)
}

// find returns the tool of that name.
func (c *catalogue) find(name string) (Tool, bool) {
	i, ok := slices.BinarySearchFunc(c.tools, name, func(t Tool, name string) int { return cmp.Compare(t.Name, name) })
	if !ok {
		return Tool{}, false
	}
	return c.tools[i], true
}
