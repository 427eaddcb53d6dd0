package session

import (
	"slices"

	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/projections"
)

// known returns a tool that is not offered by that name, but known by it: one
// whose server does not work, or one by the name that it has on its own, or beside
// those of servers that do not work.
func (s *Session) known(now *moment, name string) (Tool, bool) {
	tools := withheld(s.fleet, now.catalogue, toolList, func(id events.ServerID, data []byte) []Tool {
		return readTools(id, readArray(data), nil)
	}, func(m *member) []Tool { return m.tools.list })
	return byKnownName(tools, (*Tool).id, s.viewpoint(), name)
}

// knownPrompt is the same for a prompt.
func (s *Session) knownPrompt(now *moment, name string) (Prompt, bool) {
	prompts := withheld(s.fleet, now.catalogue, promptList, func(id events.ServerID, data []byte) []Prompt {
		return readPrompts(id, data)
	}, func(m *member) []Prompt { return m.prompts.list })
	return byKnownName(prompts, (*Prompt).id, &viewpoint{scheme: s.options.Scheme}, name)
}

// withheld returns what the members of a catalogue list, and of those that list
// nothing what their instances listed last for the same definition.
func withheld[T any](f fleet, c *catalogue, kind listKind, read func(events.ServerID, []byte) []T, listed func(*member) []T) (all []T) {
	for i := range c.members {
		m := &c.members[i]
		if list := listed(m); len(list) > 0 {
			all = append(all, list...)
			continue
		}
		for _, n := range m.instances {
			if l := f.List(kind, n.Server, n.Instance); l.data != nil && l.definition == m.server.Digest {
				all = append(all, read(n.Server, l.data)...)
				break
			}
		}
	}
	return all
}

// byKnownName returns the item that has the name in this list, or else on its own.
func byKnownName[T any](list []T, id func(*T) projections.ToolID, v *viewpoint, name string) (item T, ok bool) {
	if slices.Contains(v.reserved, name) {
		return item, false
	}
	ids := make([]projections.ToolID, 0, len(list))
	for i := range list {
		ids = append(ids, id(&list[i]))
	}
	at := slices.IndexFunc(v.scheme.Names(ids, v.reserved), func(n projections.ToolName) bool { return n.Name == name })
	if at < 0 {
		at = slices.IndexFunc(ids, func(t projections.ToolID) bool { return v.scheme.Name(t.Server, t.Tool) == name })
	}
	if at < 0 {
		return item, false
	}
	return list[at], true
}
