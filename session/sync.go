package session

import (
	"cmp"
	"context"
	"slices"

	"github.com/cockroachdb/errors"

	"github.com/toolfleet/toolfleet/events"
)

// Registry is a host's own collection of tools, kept by [Session.Sync]. A
// session compares registries by ==: use a pointer.
type Registry interface {
	// Replace makes these the tools of a server, in place of those it had; none
	// removes them. With an error it refuses: then it has what it had before.
	// Nobody may change the tools.
	Replace(server events.ServerID, tools []Tool) error
}

// Sync brings a registry up to date with the session's tools as they are when
// Sync is called. Only servers whose tools differ from those that the registry
// was given last are replaced, each as a whole: none where nothing changed. Call
// it between two steps of an agent: what a step has seen then stays until its
// end.
//
// Calls are made one at a time, whatever the registry. One that had to wait and
// would be older than what the registry has, does nothing.
//
// When the registry refuses a server, those that were replaced before in the
// same call get back what they had, so that the registry is as it was, and the
// error is the registry's. The next Sync tries again. A registry that refuses
// that as well is given the server anew by the next Sync, and the error has both.
//
// After [Session.Close] Sync does nothing. Its error is else the context's, if it
// ended before it was this call's turn.
func (s *Session) Sync(ctx context.Context, r Registry) error {
	now, _ := s.load()
	select {
	case s.syncing <- struct{}{}: // held over the registry's calls: this is the queue for them
		defer func() { <-s.syncing }()
	case <-ctx.Done():
		return errors.Wrap(ctx.Err(), "wait for another sync of the tools")
	}
	if s.life.Err() != nil {
		return nil
	}
	m := s.mirrors[r]
	if m == nil {
		m = &mirror{has: make(map[events.ServerID][]Tool), unsure: make(map[events.ServerID]bool)}
		s.mirrors[r] = m
	}
	return m.apply(r, now)
}

// mirror is what a registry has.
type mirror struct {
	number uint64 // of the moment that it was brought to
	has    map[events.ServerID][]Tool
	// unsure are servers of which it is not known what the registry has.
	unsure map[events.ServerID]bool
}

// replacement is what a registry is to be given.
type replacement struct {
	server events.ServerID
	tools  []Tool
}

// apply gives the registry what changed, or leaves it as it was.
func (m *mirror) apply(r Registry, now *moment) error {
	if now.number < m.number {
		return nil
	}
	changes := m.changes(now.catalogue)
	for n, c := range changes {
		if err := r.Replace(c.server, c.tools); err != nil {
			err = errors.Wrapf(err, "replace the tools of server %s", c.server)
			return errors.CombineErrors(err, m.rollBack(r, changes[:n]))
		}
	}
	for _, c := range changes {
		delete(m.unsure, c.server)
		m.has[c.server] = c.tools
		if len(c.tools) == 0 {
			delete(m.has, c.server)
		}
	}
	m.number = now.number
	return nil
}

// changes returns what differs, removals first: they make room for names.
func (m *mirror) changes(now *catalogue) (changes []replacement) {
	next := make(map[events.ServerID][]Tool, len(now.members))
	for id := range m.has {
		next[id] = nil // if the session sees it no more
	}
	for id := range m.unsure {
		next[id] = nil
	}
	for i := range now.members {
		next[now.members[i].server.ID] = now.members[i].shown
	}
	for id, tools := range next {
		if m.unsure[id] || !slices.EqualFunc(m.has[id], tools, func(a, b Tool) bool { return sameTool(&a, &b) }) {
			changes = append(changes, replacement{id, slices.Clip(tools)})
		}
	}
	slices.SortFunc(changes, func(a, b replacement) int {
		return cmp.Or(compareBool(len(b.tools) == 0, len(a.tools) == 0), cmp.Compare(a.server, b.server))
	})
	return changes
}

// rollBack gives the registry what it had, the last change first.
func (m *mirror) rollBack(r Registry, changes []replacement) (err error) {
	for _, c := range slices.Backward(changes) {
		if e := r.Replace(c.server, m.has[c.server]); e != nil {
			m.unsure[c.server] = true
			err = errors.CombineErrors(err, errors.Wrapf(e, "give server %s its former tools again", c.server))
		}
	}
	return err
}
