package session

import (
	"cmp"
	"slices"

	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/projections"
)

// offer puts what the members list into the catalogue, which follows on another:
// with names and states, and no more tools than the viewpoint wants.
func (c *catalogue) offer(before *catalogue, v *viewpoint) {
	c.nameTools(before, v)
	for i := range c.members {
		m := &c.members[i]
		m.show(before.member(m.server.ID))
		c.all = append(c.all, m.shown...)
		for _, r := range m.resources.list.resources {
			r.State = m.resources.state
			c.resources = append(c.resources, r)
		}
		for _, t := range m.resources.list.templates {
			t.State = m.resources.state
			c.templates = append(c.templates, t)
		}
		for _, p := range m.prompts.list {
			p.State = m.prompts.state
			c.prompts = append(c.prompts, p)
		}
	}
	slices.SortFunc(c.all, byName)
	c.namePrompts(v)
	c.limit(v.maxTools)
}

func byName(a, b Tool) int { return cmp.Compare(a.Name, b.Name) }

// nameTools names the tools of all members. While nobody's list is another one,
// names are what they were.
func (c *catalogue) nameTools(before *catalogue, v *viewpoint) {
	same := func(a, b member) bool { return a.server.ID == b.server.ID && a.tools.digest == b.tools.digest }
	if slices.EqualFunc(before.members, c.members, same) {
		for i := range c.members {
			c.members[i].names = before.members[i].names
		}
		return
	}
	var ids []projections.ToolID
	for i := range c.members {
		for _, t := range c.members[i].tools.list {
			ids = append(ids, t.id())
		}
	}
	names := v.scheme.Names(ids, v.reserved)
	for i := range c.members {
		m := &c.members[i]
		m.names, names = names[:len(m.tools.list)], names[len(m.tools.list):]
	}
}

// namePrompts names the prompts, and brings them into the order of their names.
func (c *catalogue) namePrompts(v *viewpoint) {
	ids := make([]projections.ToolID, 0, len(c.prompts))
	for i := range c.prompts {
		ids = append(ids, c.prompts[i].id())
	}
	for i, name := range v.scheme.Names(ids, nil) {
		c.prompts[i].Name = name.Name
	}
	slices.SortFunc(c.prompts, func(a, b Prompt) int { return cmp.Compare(a.Name, b.Name) })
}

// show makes the list of the member's tools that is shown; before is what it was
// earlier, or nil.
func (m *member) show(before *member) {
	if before != nil && m.tools.digest == before.tools.digest && m.tools.state == before.tools.state && m.path == before.path &&
		slices.Equal(m.names, before.names) && len(m.names) == len(before.shown) {
		m.shown = before.shown
		return
	}
	m.shown = slices.Clone(m.tools.list)
	for i := range m.shown {
		t := &m.shown[i]
		t.Name, t.Reserved, t.State, t.Path = m.names[i].Name, m.names[i].Reserved, m.tools.state, m.path
	}
	slices.SortFunc(m.shown, byName)
}

// limit shows the first tools in the order of their names, if there are more.
func (c *catalogue) limit(most int) {
	c.tools = c.all
	if most <= 0 || len(c.all) <= most {
		return
	}
	c.tools = c.all[:most:most]
	last := c.tools[most-1].Name
	for i := range c.members {
		m := &c.members[i]
		end, _ := slices.BinarySearchFunc(m.shown, last+"\x00", func(t Tool, name string) int { return cmp.Compare(t.Name, name) })
		m.shown = m.shown[:end:end]
	}
}

// omitted counts the tools that are not shown, by server.
func (c *catalogue) omitted() map[events.ServerID]int {
	if len(c.tools) == len(c.all) {
		return nil
	}
	omitted := make(map[events.ServerID]int)
	for i := range c.members {
		if m := &c.members[i]; len(m.shown) < len(m.tools.list) {
			omitted[m.server.ID] = len(m.tools.list) - len(m.shown)
		}
	}
	return omitted
}
