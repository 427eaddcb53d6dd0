package projections

import (
	"slices"
	"time"

	"github.com/toolfleet/toolfleet/events"
)

// Listed is a complete list of tools, resources or prompts of an instance.
type Listed struct {
	// Digest of the items: their key in the blob store.
	Digest events.Digest `json:"digest,omitzero"`
	Count  int           `json:"count,omitzero"`
	// Definition that the instance was connected to.
	Definition events.Digest `json:"definition,omitzero"`
	// Seq of the last event that reported the list, and its time.
	Seq  events.Seq `json:"seq,omitzero"`
	Time time.Time  `json:"time,omitzero"`
}

// Catalogue is what an instance offers of one kind: tools, resources or prompts.
type Catalogue struct {
	State ToolsState `json:"state,omitzero"`
	Listed
	// Changed is the event since which Definition, Digest and Count are what
	// they are.
	Changed events.Seq `json:"changed,omitzero"`
	// Quarantined are items that were left out, the first 16 of its Count.
	Quarantined events.Quarantines `json:"quarantined,omitzero"`
}

// ToolsState says what a list of an instance is worth: of tools, or likewise of
// resources or prompts. The zero ToolsState is that of an instance that offers
// none.
type ToolsState string

// The states of lists.
const (
	// ToolsLive are those of a connection that works.
	ToolsLive ToolsState = "live"
	// ToolsDeferred are those of the last connection to the same definition. The
	// next one is under way, and nothing went wrong so far.
	ToolsDeferred ToolsState = "deferred"
	// ToolsStale are those of a connection that was lost, while it is being
	// made again.
	ToolsStale ToolsState = "stale"
)

const (
	// listsKept is how many definitions' lists an instance remembers: an update
	// and its rollback need two.
	listsKept = 4
	// quarantinedKept bounds the tools shown as left out; the event has them
	// all.
	quarantinedKept = 16
)

func (i *Instance) newListed(r *events.Record, l *events.Listing) Listed {
	return Listed{Digest: l.Digest, Count: l.Count, Definition: i.Definition, Seq: r.Seq, Time: when(r)}
}

// listTools takes a complete list of tools; the first of a connection makes the
// instance ready.
func (i *Instance) listTools(r *events.Record, l *events.Listing) {
	if !i.list(r, &i.Tools, l) {
		return
	}
	i.Lists = remember(i.Lists, i.Tools.Listed)
	if i.State == Listing {
		i.becomeReady(r)
	}
}

// list takes a complete list, unless it is none of the open connection.
func (i *Instance) list(r *events.Record, c *Catalogue, l *events.Listing) bool {
	if !i.listens(r) {
		return false
	}
	c.set(r, i.newListed(r, l))
	c.Quarantined = quarantined(l.Quarantined)
	return true
}

// recall sets the lists to those last taken for the definition that the instance
// now connects to, or to none. Of resources and prompts none of another
// definition is remembered: nobody waits for them before they are listed.
func (i *Instance) recall(r *events.Record) {
	for _, c := range []*Catalogue{&i.Resources, &i.Prompts} {
		if c.Seq != 0 && c.Definition != i.Definition {
			c.set(r, Listed{})
			c.Quarantined = events.Quarantines{}
		}
	}
	if i.Tools.Definition == i.Definition && i.Tools.Seq != 0 {
		return
	}
	n := Listed{Definition: i.Definition}
	for _, l := range i.Lists {
		if l.Definition == i.Definition {
			n = l
		}
	}
	i.Tools.set(r, n)
	i.Tools.Quarantined = events.Quarantines{}
}

func (c *Catalogue) set(r *events.Record, n Listed) {
	if c.Definition != n.Definition || c.Digest != n.Digest || c.Count != n.Count {
		c.Changed = r.Seq
	}
	c.Listed = n
}

// remember returns the lists with a new one, which replaces that of the same
// definition.
func remember(lists []Listed, n Listed) []Listed {
	kept := make([]Listed, 0, min(len(lists)+1, listsKept+1))
	for _, l := range lists {
		if l.Definition != n.Definition {
			kept = append(kept, l)
		}
	}
	kept = append(kept, n)
	return kept[max(0, len(kept)-listsKept):]
}

func quarantined(q events.Quarantines) events.Quarantines {
	if len(q.Items) == 0 {
		return events.Quarantines{Count: q.Count}
	}
	kept := slices.Clone(q.Items[:min(len(q.Items), quarantinedKept)])
	for n := range kept {
		kept[n].Name = text(kept[n].Name, maxName)
		kept[n].Path = text(kept[n].Path, maxName)
		kept[n].Reason = text(kept[n].Reason, maxName)
	}
	return events.Quarantines{Count: q.Count, Items: kept}
}

// appraise says what the lists are worth now. Resources and prompts are listed
// after tools; until then those of a connection that works are of the last one.
func (i *Instance) appraise() {
	i.Tools.State = i.stateOf(&i.Tools)
	for _, c := range []*Catalogue{&i.Resources, &i.Prompts} {
		switch c.State = i.stateOf(c); {
		case c.Count == 0:
			c.State = ""
		case c.State == ToolsLive && c.Seq < i.Connection.Seq:
			c.State = ToolsDeferred
		}
	}
}

func (i *Instance) stateOf(c *Catalogue) ToolsState {
	if i.State.Working() {
		return ToolsLive
	}
	if c.Count == 0 {
		return "" // an empty list says nothing about the next one
	}
	return i.outlook()
}

// outlook returns what the last list of an instance that does not work is worth.
func (i *Instance) outlook() ToolsState {
	switch i.State {
	case Assigned, Connecting, Listing:
		if i.Failure == nil {
			return ToolsDeferred
		}
		return ToolsStale
	case BackingOff, Lost:
		return ToolsStale
	case Failed:
		if i.Failure != nil && i.Failure.Retry {
			return ToolsStale
		}
	case Stopping:
		if i.Connection != nil {
			return ToolsStale
		}
	default:
	}
	return ""
}

// Offer returns what an instance's tools are worth in the light of its server's
// definition: those of one that should run but has no owner, or just stopped,
// are deferred if they are the same definition's, and nothing but live tools
// remains of a server that should not run.
func (s *Server) Offer(i *Instance) ToolsState { return s.Worth(i, &i.Tools) }

// Worth is [Server.Offer] for one of the instance's catalogues: &i.Resources, say.
func (s *Server) Worth(i *Instance, c *Catalogue) ToolsState {
	switch {
	case c.State == ToolsLive:
		return ToolsLive
	case s.Wanted() != events.Running, c.Count == 0, c.Definition != s.Digest:
		return ""
	case c.State != "":
		return c.State
	case i.State == Stopped, i.State == Released:
		return ToolsDeferred
	default:
		return ""
	}
}
