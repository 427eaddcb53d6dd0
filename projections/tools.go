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

// Tools are the tools of an instance.
type Tools struct {
	State ToolsState `json:"state,omitzero"`
	Listed
	// Changed is the event since which Definition, Digest and Count are what
	// they are.
	Changed events.Seq `json:"changed,omitzero"`
	// Quarantined are tools that were left out, the first 16 of its Count.
	Quarantined events.Quarantines `json:"quarantined,omitzero"`
}

// ToolsState says what the listed tools of an instance are worth. The zero
// ToolsState is that of an instance that offers none.
type ToolsState string

// The states of tools.
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
	if !i.listens(r) {
		return
	}
	n := i.newListed(r, l)
	i.setTools(r, n)
	i.Tools.Quarantined = quarantined(l.Quarantined)
	i.Lists = remember(i.Lists, n)
	if i.State == Listing {
		i.becomeReady(r)
	}
}

// recallTools sets the tools to those last listed for the definition that the
// instance now connects to, or to none.
func (i *Instance) recallTools(r *events.Record) {
	if i.Tools.Definition == i.Definition && i.Tools.Seq != 0 {
		return
	}
	n := Listed{Definition: i.Definition}
	for _, l := range i.Lists {
		if l.Definition == i.Definition {
			n = l
		}
	}
	i.setTools(r, n)
	i.Tools.Quarantined = events.Quarantines{}
}

func (i *Instance) setTools(r *events.Record, n Listed) {
	if o := &i.Tools; o.Definition != n.Definition || o.Digest != n.Digest || o.Count != n.Count {
		o.Changed = r.Seq
	}
	i.Tools.Listed = n
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

func (i *Instance) toolsState() ToolsState {
	if i.State.Working() {
		return ToolsLive
	}
	if i.Tools.Count == 0 {
		return "" // an empty list says nothing about the next one
	}
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
func (s *Server) Offer(i *Instance) ToolsState {
	switch {
	case i.Tools.State == ToolsLive:
		return ToolsLive
	case s.Wanted() != events.Running, i.Tools.Count == 0, i.Tools.Definition != s.Digest:
		return ""
	case i.Tools.State != "":
		return i.Tools.State
	case i.State == Stopped, i.State == Released:
		return ToolsDeferred
	default:
		return ""
	}
}
