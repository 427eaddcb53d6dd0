package story

import (
	"fmt"
	"slices"

	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/projections"
)

// States of a tool beside those of [projections.ToolsState].
const (
	ToolGone        = "gone"        // it was listed, and is no more
	ToolQuarantined = "quarantined" // the server lists it, but it cannot be used
	ToolFiltered    = "filtered"    // the definition leaves it out
	ToolAbsent      = "absent"      // its server offers nothing at the moment
)

// tool answers for a tool of a server, or returns nil if the subject is none of
// that server's.
func (t *teller) tool(s *projections.Server) *Answer {
	name, known := t.ownName(s.ID)
	if name == "" {
		return nil
	}
	if a := t.filtered(s, name); a != nil {
		return a
	}
	best := t.lister(s)
	if best == nil {
		return t.withServer(s, fmt.Sprintf("%s offers no tools", s.ID), ToolAbsent)
	}
	for _, q := range best.Tools.Quarantined.Items {
		if q.Name == name {
			a := t.answer(IsTool, ToolQuarantined, fmt.Sprintf("%s lists it, but it was left out: %s%s", s.ID, q.Reason, because(q.Path)), t.lastList(best))
			a.Help = "this is to be mended in the server"
			return a
		}
	}
	switch listed, from := t.listed(best, name); {
	case listed && s.Offer(best) == "":
		return t.withServer(s, fmt.Sprintf("%s has the tool, but is not offered", s.ID), ToolAbsent)
	case listed && s.Offer(best) == projections.ToolsLive:
		return t.answer(IsTool, string(projections.ToolsLive), fmt.Sprintf("%s offers it", s.ID), from)
	case listed:
		return t.withServer(s, fmt.Sprintf("%s has the tool, but does not work at the moment", s.ID), string(s.Offer(best)))
	case from != nil:
		a := t.answer(IsTool, ToolGone, fmt.Sprintf("%s had it, and has not listed it any more since %s", s.ID, clock(from.Time)), from)
		a.Help = "the server itself took it away: see what it is, or was updated to"
		return a
	case known:
		return t.withServer(s, fmt.Sprintf("%s has not listed it since it was last connected", s.ID), ToolGone)
	default:
		a := t.withServer(s, fmt.Sprintf("%s never listed a tool of that name", s.ID), IsUnknown)
		a.Help = fmt.Sprintf("toolfleet tools %s names those it has", s.ID)
		return a
	}
}

// withServer is an answer about a tool that rests on what its server does.
func (t *teller) withServer(s *projections.Server, summary, state string) *Answer {
	a := t.server(s)
	a.Kind, a.State = IsTool, state
	a.Summary = summary + ": " + a.Summary
	return a
}

// ownName returns what a server calls the tool that the subject names, and
// whether the history has heard of it; "" if the subject cannot be one of its
// tools.
func (t *teller) ownName(id events.ServerID) (name string, known bool) {
	is := func(own string) bool { return projections.Qualified.Name(id, own) == t.Subject }
	for i := range t.History.InstancesOf(id) {
		for _, r := range t.chains[events.InstanceChain(id, i.Instance)] {
			b, ok := r.Body.(events.ToolsListed)
			if !ok {
				continue
			}
			for _, own := range t.mentioned(&b.Listing) {
				if is(own) {
					return own, true
				}
			}
		}
	}
	plain := string(id) + "__"
	if len(t.Subject) > len(plain) && t.Subject[:len(plain)] == plain {
		return t.Subject[len(plain):], false
	}
	return "", false
}

// mentioned returns the names of the tools that a list speaks of.
func (t *teller) mentioned(l *events.Listing) []string {
	names := slices.Concat(l.Added.Names, l.Removed.Names)
	for _, q := range l.Quarantined.Items {
		names = append(names, q.Name)
	}
	if len(l.Added.Names) < l.Added.Count && t.Names != nil {
		all, _ := t.Names(l.Digest)
		names = append(names, all...)
	}
	return names
}

// filtered answers for a tool that the definition leaves out.
func (t *teller) filtered(s *projections.Server, name string) *Answer {
	d := s.Definition
	if d == nil {
		return nil
	}
	why := ""
	switch {
	case slices.Contains(d.DisabledTools, name):
		why = "disabledTools names it"
	case len(d.EnabledTools) > 0 && !slices.Contains(d.EnabledTools, name):
		why = "enabledTools does not name it"
	default:
		return nil
	}
	// The event since which the definition does.
	var since *events.Record
	for _, r := range t.chains[events.ServerChain(s.ID)] {
		switch b := r.Body.(type) {
		case events.Declared:
			since = r
		case events.Updated:
			if !slices.Equal(b.From.DisabledTools, b.To.DisabledTools) || !slices.Equal(b.From.EnabledTools, b.To.EnabledTools) {
				since = r
			}
		default:
		}
	}
	a := t.answer(IsTool, ToolFiltered, fmt.Sprintf("the definition of %s leaves it out: %s", s.ID, why), since)
	a.Help = "change that member of the definition, and apply it"
	return a
}

// lister returns the instance whose tools a server offers, or would offer, or nil
// if none has listed any.
func (t *teller) lister(s *projections.Server) *projections.Instance {
	var best *projections.Instance
	for i := range t.History.InstancesOf(s.ID) {
		if i.Tools.Seq > 0 && (best == nil || s.Offer(i) == projections.ToolsLive && s.Offer(best) != projections.ToolsLive) {
			best = i
		}
	}
	return best
}

func (t *teller) lastList(i *projections.Instance) *events.Record {
	return t.at(events.InstanceChain(i.Server, i.Instance), i.Tools.Seq)
}

// listed says whether the tool is in the last list of an instance, and returns
// the event since which it is, or is not; nil if that is not known.
func (t *teller) listed(i *projections.Instance, name string) (is bool, since *events.Record) {
	for _, r := range t.chains[events.InstanceChain(i.Server, i.Instance)] {
		b, ok := r.Body.(events.ToolsListed)
		if !ok {
			continue
		}
		was := is
		switch {
		case slices.Contains(b.Added.Names, name):
			is = true
		case slices.Contains(b.Removed.Names, name):
			is = false
		case cut(&b.Listing):
			is = t.inList(b.Digest, name, is)
		case b.From == "":
			is = false
		default:
			continue // it is as it was
		}
		if is != was {
			since = r
		}
	}
	return is, since
}

// cut says whether a list added or removed more than it names.
func cut(l *events.Listing) bool {
	return len(l.Added.Names) < l.Added.Count || len(l.Removed.Names) < l.Removed.Count
}

// inList says whether a list has the tool; where the list cannot be read it is as
// it was.
func (t *teller) inList(d events.Digest, name string, was bool) bool {
	if t.Names == nil {
		return was
	}
	names, known := t.Names(d)
	if !known {
		return was
	}
	return slices.Contains(names, name)
}
