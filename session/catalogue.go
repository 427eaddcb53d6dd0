package session

import (
	"bytes"
	"cmp"
	"iter"
	"maps"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/projections"
)

// fleet is what a catalogue is made from: the fleet's views at one moment.
type fleet interface {
	// Servers and InstancesOf yield them in the order of their ids.
	Servers() iter.Seq[*projections.Server]
	InstancesOf(events.ServerID) iter.Seq[*projections.Instance]
	// Tools returns an instance's tools as its server sent them, with the digest
	// of the list, or false where they are not known, or not yet.
	Tools(events.ServerID, events.InstanceID) ([]jsontext.Value, events.Digest, bool)
}

// catalogue is what a session offers. It is a value: [catalogue.next] makes
// another one, and nothing that is reachable from it is written to again.
type catalogue struct {
	tools []Tool // in the order of their names
	// members are the servers that the session sees, in the order of their ids.
	members []member
}

// member is a server that a session sees, as it was at one moment.
type member struct {
	server    *projections.Server
	instances []*projections.Instance
	// list is what it offers; the zero list if nothing.
	list list
}

// list is the tools that one instance offers.
type list struct {
	instance events.InstanceID
	digest   events.Digest
	// current says that it is the instance's last list, and not one before while
	// that one is on its way.
	current bool
	state   projections.ToolsState
	path    string
	tools   []Tool // in the order of their names
}

// viewpoint says what a session sees of the fleet.
type viewpoint struct {
	chooser
	project string
	scheme  projections.Scheme
}

// next returns the catalogue of a fleet, and whether it tells something else
// than c does: of tools, or of failures. Each server's tools are replaced as a
// whole.
func (c *catalogue) next(f fleet, v *viewpoint) (n *catalogue, changed bool) {
	n = &catalogue{}
	for _, s := range v.visible(f) {
		m := member{server: s, instances: slices.Collect(f.InstancesOf(s.ID))}
		var before list
		if known := c.member(s.ID); known != nil {
			before = known.list
		}
		if i := v.choose(s, m.instances, before.instance); i != nil {
			m.list = v.list(f, s, i, before)
		}
		n.members = append(n.members, m)
		n.tools = append(n.tools, m.list.tools...)
	}
	slices.SortFunc(n.tools, byName)
	if !slices.EqualFunc(c.tools, n.tools, same) {
		return n, true
	}
	n.tools = c.tools
	return n, !maps.Equal(c.troubles(), n.troubles())
}

func byName(a, b Tool) int { return cmp.Compare(a.Name, b.Name) }

func same(a, b Tool) bool {
	return a.Name == b.Name && a.Server == b.Server && a.Tool == b.Tool && a.State == b.State && a.Path == b.Path &&
		bytes.Equal(a.Definition, b.Definition)
}

// list returns the tools of an instance. Those that were read before are taken
// again, also while newer ones are on their way: until then they do not become
// live, since they may not be what the connection offers.
func (v *viewpoint) list(f fleet, s *projections.Server, i *projections.Instance, before list) list {
	l := list{instance: i.Instance, digest: before.digest, tools: before.tools, state: s.Offer(i), path: pathOf(s)}
	items, digest, known := f.Tools(s.ID, i.Instance)
	switch {
	case i.Tools.Count == 0:
		l.digest, l.tools = i.Tools.Digest, nil
	case known && digest == i.Tools.Digest && digest != before.digest:
		l.digest, l.tools = digest, v.describe(s.ID, items, before.tools)
	}
	l.current = l.digest == i.Tools.Digest
	if l.state == projections.ToolsLive && !l.current {
		l.state = before.state
	}
	return l.label()
}

// label returns the list with its state and path on each tool.
func (l list) label() list {
	labelled := func(t Tool) bool { return t.State == l.state && t.Path == l.path }
	if !slices.ContainsFunc(l.tools, func(t Tool) bool { return !labelled(t) }) {
		return l
	}
	l.tools = slices.Clone(l.tools)
	for n := range l.tools {
		l.tools[n].State, l.tools[n].Path = l.state, l.path
	}
	return l
}

// describe reads and names the tools of a server. Those that are as they were
// before are taken again: mostly one of many has changed.
func (v *viewpoint) describe(id events.ServerID, items []jsontext.Value, before []Tool) []Tool {
	read := make(map[string]*Tool, len(before))
	for i := range before {
		read[string(before[i].Definition)] = &before[i]
	}
	tools := make([]Tool, 0, len(items))
	named := make(map[string]bool, len(items))
	for _, item := range items {
		var t Tool
		if known := read[string(item)]; known != nil {
			t = *known
		} else if described, ok := describe(item); ok {
			t = described
			t.Name, t.Server = v.scheme.Name(id, t.Tool), id
		}
		if t.Tool == "" || named[t.Tool] {
			continue // unreachable unless a worker let a list through that names a tool twice, or not
		}
		named[t.Tool] = true
		tools = append(tools, t)
	}
	slices.SortFunc(tools, byName)
	return tools
}

// visible returns the servers that a session sees: the fleet's and its
// project's, except that one of the project hides the fleet's of the same name.
func (v *viewpoint) visible(f fleet) []*projections.Server {
	all := slices.Collect(f.Servers())
	hidden := make(map[string]bool)
	for _, s := range all {
		if v.project != "" && s.Exists() && s.Definition.Scope == events.ProjectScope(v.project) {
			hidden[nameOf(s)] = true
		}
	}
	return slices.DeleteFunc(all, func(s *projections.Server) bool { return !s.Exists() || !v.sees(s, hidden) })
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

// member returns what is known of a server, or nil if the session does not see
// it.
func (c *catalogue) member(id events.ServerID) *member {
	i, ok := slices.BinarySearchFunc(c.members, id, func(m member, id events.ServerID) int { return cmp.Compare(m.server.ID, id) })
	if !ok {
		return nil
	}
	return &c.members[i]
}

// status returns the server as it is shown.
func (m *member) status() projections.Status {
	return projections.NewStatus(m.server, slices.Values(m.instances))
}

// trouble is why a server does not work, without what differs from one attempt
// to the next.
type trouble struct {
	code  events.Code
	phase events.Phase
}

// troubles returns the servers that do not work as they should.
func (c *catalogue) troubles() map[events.ServerID]trouble {
	t := make(map[events.ServerID]trouble)
	for i := range c.members {
		if f := failureOf(c.members[i].instances); f != nil {
			t[c.members[i].server.ID] = trouble{f.Code, f.Phase}
		}
	}
	return t
}

// failureOf returns why an instance does not work as it should, or nil.
func failureOf(instances []*projections.Instance) *projections.Fault {
	for _, i := range instances {
		if i.Failure != nil {
			return i.Failure
		}
	}
	return nil
}
