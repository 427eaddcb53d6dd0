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
	// List returns a list of an instance as its server sent it; without a digest
	// where none is known.
	List(listKind, events.ServerID, events.InstanceID) listing
}

// catalogue is what a session offers. It is a value: [catalogue.next] makes
// another one, and nothing that is reachable from it is written to again.
type catalogue struct {
	// all tools are in the order of their names; tools are those of them that are
	// shown.
	all, tools []Tool
	resources  []Resource // in the order of server and URI
	templates  []Template // in the order of server and template
	prompts    []Prompt   // in the order of their names
	// members are the servers that the session sees, in the order of their ids.
	members []member
}

// member is a server that a session sees, as it was at one moment.
type member struct {
	server    *projections.Server
	instances []*projections.Instance
	// instance is the one that is used, or empty. What it lists has no names and
	// no states yet.
	instance  events.InstanceID
	tools     held[[]Tool]
	resources held[resourceLists]
	prompts   held[[]Prompt]
	// names are those of its tools, shown the tools that the session shows of it,
	// in the order of their names.
	names []projections.ToolName
	shown []Tool
	path  string
}

// viewpoint says what a session sees of the fleet, and how.
type viewpoint struct {
	chooser
	project  string
	scheme   projections.Scheme
	reserved []string
	maxTools int
}

func newViewpoint(o *Options) *viewpoint {
	return &viewpoint{
		chooser: chooser{session: o.ID, host: o.Host},
		project: o.Project, scheme: o.Scheme, reserved: o.Reserved, maxTools: o.MaxTools,
	}
}

// next returns the catalogue of a fleet, and whether it tells something else
// than c does: of what is listed, or of failures. Each server's lists are replaced
// as a whole.
func (c *catalogue) next(f fleet, v *viewpoint) (n *catalogue, changed bool) {
	n = &catalogue{}
	for _, s := range v.visible(f) {
		m := member{server: s, instances: slices.Collect(f.InstancesOf(s.ID)), path: pathOf(s)}
		known := c.member(s.ID)
		if known == nil {
			known = &member{}
		}
		if i := v.choose(s, m.instances, known.instance); i != nil {
			m.use(f, i, known)
		}
		n.members = append(n.members, m)
	}
	n.offer(c, v)
	omitted := !maps.Equal(c.omitted(), n.omitted())
	changed = keep(c.all, &n.all, sameTool)
	changed = keep(c.tools, &n.tools, sameTool) || changed
	changed = keep(c.resources, &n.resources, sameResource) || changed
	changed = keep(c.templates, &n.templates, sameTemplate) || changed
	changed = keep(c.prompts, &n.prompts, samePrompt) || changed
	return n, changed || omitted || !maps.Equal(c.troubles(), n.troubles())
}

// keep puts the former list in the place of one that is the same.
func keep[T any](before []T, now *[]T, same func(a, b *T) bool) (changed bool) {
	if len(before) != len(*now) {
		return true
	}
	for i := range before {
		if !same(&before[i], &(*now)[i]) {
			return true
		}
	}
	*now = before
	return false
}

func sameTool(a, b *Tool) bool {
	return a.Name == b.Name && a.Server == b.Server && a.Tool == b.Tool && a.State == b.State && a.Path == b.Path &&
		a.Reserved == b.Reserved && bytes.Equal(a.Definition, b.Definition)
}

func sameResource(a, b *Resource) bool {
	return a.Server == b.Server && a.URI == b.URI && a.State == b.State && bytes.Equal(a.Definition, b.Definition)
}

func sameTemplate(a, b *Template) bool {
	return a.Server == b.Server && a.URITemplate == b.URITemplate && a.State == b.State && bytes.Equal(a.Definition, b.Definition)
}

func samePrompt(a, b *Prompt) bool {
	return a.Name == b.Name && a.Server == b.Server && a.Prompt == b.Prompt && a.State == b.State && bytes.Equal(a.Definition, b.Definition)
}

// use takes what an instance lists.
func (m *member) use(f fleet, i *projections.Instance, before *member) {
	s := m.server
	m.instance = i.Instance
	m.tools = before.tools.next(s, i, toolList, f.List(toolList, s.ID, i.Instance), func(data jsontext.Value, known []Tool) []Tool {
		return readTools(s.ID, readArray(data), known)
	})
	m.resources = before.resources.next(s, i, resourceList, f.List(resourceList, s.ID, i.Instance),
		func(data jsontext.Value, _ resourceLists) resourceLists { return readResources(s.ID, data) })
	m.prompts = before.prompts.next(s, i, promptList, f.List(promptList, s.ID, i.Instance),
		func(data jsontext.Value, _ []Prompt) []Prompt { return readPrompts(s.ID, data) })
}

// readTools reads the tools of a server. Those that are as they were before are
// taken again: mostly one of many has changed.
func readTools(id events.ServerID, items []jsontext.Value, before []Tool) []Tool {
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
			t.Server = id
		}
		if t.Tool == "" || named[t.Tool] {
			continue // unreachable unless a worker let a list through that names a tool twice, or not
		}
		named[t.Tool] = true
		tools = append(tools, t)
	}
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

// find returns the tool of that name, whether it is shown or not.
func (c *catalogue) find(name string) (Tool, bool) {
	i, ok := slices.BinarySearchFunc(c.all, name, func(t Tool, name string) int { return cmp.Compare(t.Name, name) })
	if !ok {
		return Tool{}, false
	}
	return c.all[i], true
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
