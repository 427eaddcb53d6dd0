package events

import (
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// Body is what an event says. The set of bodies is closed: a switch over it is
// exhaustive or has a default. A field is added, never renamed or retyped; a
// new meaning is a new kind or version.
//
//sumtype:decl
type Body interface{ kind() Kind }

// Bodies of a definition's chain.
type (
	// Declared says that the fleet has a server of that definition.
	Declared struct {
		Definition Definition `json:"definition"`
	}
	// Updated replaces the definition. Until an [UpdateSettled] or
	// [UpdateRolledBack] follows, From may be restored.
	Updated struct {
		From Definition `json:"from"`
		To   Definition `json:"to"`
	}
	// UpdateSettled says that the replacement stays.
	UpdateSettled struct{}
	// UpdateRolledBack says that the former definition is back, and why.
	UpdateRolledBack struct {
		Failure Failure `json:"failure"`
	}
	// Enabled says that the server may run.
	Enabled struct{}
	// Disabled says that the server must not run, whatever else is wanted.
	Disabled struct{}
	// Withdrawn says that the fleet no longer has the server.
	Withdrawn struct{}
	// Rejected says that a definition could not be accepted, on the chain of
	// its id, or on the fleet's where that is no id.
	Rejected struct {
		// ID as it was given.
		ID      string    `json:"id"`
		Reasons []Problem `json:"reasons"`
		Source  *Source   `json:"source,omitzero"`
	}
	// RestartRequested asks every instance to reconnect once.
	RestartRequested struct{}
	// StartRequested asks for the server to run.
	StartRequested struct{}
	// StopRequested asks for the server to stop.
	StopRequested struct{}
	// MoveRequested asks for the server to run on another worker.
	MoveRequested struct {
		// Worker that it should run on.
		Worker WorkerID `json:"worker"`
	}
)

// Bodies of an instance's chain. Assigned, Released and Lost are written by
// controllers, all others by the owner.
type (
	// Assigned makes a worker the owner, under a new epoch. It ends whatever
	// connection there was.
	Assigned struct {
		Worker      WorkerID    `json:"worker"`
		Incarnation Incarnation `json:"incarnation"`
		Epoch       Epoch       `json:"epoch"`
		Reason      string      `json:"reason,omitzero"`
	}
	// Connecting is appended, and acknowledged, before anything is spawned or
	// dialled.
	Connecting struct {
		// Attempt counts the attempts of this owner, from 1.
		Attempt int `json:"attempt"`
		// Generation and Definition are those of the [Command] that it obeys.
		Generation Seq    `json:"generation"`
		Definition Digest `json:"definition"`
	}
	// Connected is the end of the handshake. The instance is ready after its
	// first complete list of tools.
	Connected struct {
		// Protocol is the MCP revision, such as "2025-11-25".
		Protocol string `json:"protocol"`
		// Era is "handshake" for revisions with initialize, else "stateless".
		Era string `json:"era"`
		// ServerInfo and Capabilities are as the server sent them.
		ServerInfo   jsontext.Value `json:"serverInfo,omitzero"`
		Capabilities jsontext.Value `json:"capabilities,omitzero"`
		Instructions string         `json:"instructions,omitzero"`
		// PID of a stdio server's process; URL of another server, unresolved as
		// its definition has it.
		PID int    `json:"pid,omitzero"`
		URL string `json:"url,omitzero"`
	}
	// ToolsListed is a complete list of the tools of a connection.
	ToolsListed struct {
		Listing
	}
	// ResourcesListed is a complete list of resources and templates.
	ResourcesListed struct {
		Listing
	}
	// PromptsListed is a complete list of prompts.
	PromptsListed struct {
		Listing
	}
	// Degraded says that the instance works, but not fully.
	Degraded struct {
		Failure Failure `json:"failure"`
	}
	// Recovered ends Degraded.
	Recovered struct{}
	// Failed ends a connection, or the attempt to make one.
	Failed struct {
		Failure Failure `json:"failure"`
		// Attempt is the number of the attempt that it was.
		Attempt int `json:"attempt"`
		// Exit is the process's exit status, if it ended by itself.
		Exit *int `json:"exit,omitzero"`
		// Signal is the name of the signal that ended the process, or "".
		Signal string `json:"signal,omitzero"`
		// StderrTail is the end of its stderr: bounded, cleaned and scrubbed.
		StderrTail string `json:"stderrTail,omitzero"`
	}
	// RestartScheduled announces the next attempt, and when it is made.
	RestartScheduled struct {
		// DelayMs counts from the event's time, in milliseconds.
		DelayMs int64 `json:"delayMs"`
		// Attempt is the number that the next attempt will have.
		Attempt int `json:"attempt"`
	}
	// Restarted follows the first complete list of tools after a failure or a
	// change of owner, and says how long there was none.
	Restarted struct {
		// Attempt is the number of the attempt that succeeded.
		Attempt int `json:"attempt"`
		// DowntimeMs is in milliseconds.
		DowntimeMs int64 `json:"downtimeMs"`
	}
	// AuthRequired says that the server waits for credentials.
	AuthRequired struct {
		// Hint is for people, and holds no secret.
		Hint string `json:"hint,omitzero"`
	}
	// Parked says that the server is not tried again soon.
	Parked struct {
		Failure Failure `json:"failure"`
		// ProbeMs is the time until the next quiet attempt, in milliseconds; 0 is
		// never.
		ProbeMs int64 `json:"probeMs,omitzero"`
	}
	// Stopping says that the owner began to stop.
	Stopping struct {
		Reason string `json:"reason,omitzero"`
	}
	// HasStopped says that nothing of the instance runs. ([Stopped] is a [Want].)
	HasStopped struct {
		// How is "idle" when nothing ran, else "closed", "terminated" or "killed".
		How string `json:"how"`
	}
	// Released ends the ownership of an instance that stopped.
	Released struct {
		Reason string `json:"reason,omitzero"`
	}
	// Lost ends the ownership of an instance whose worker is lost; on a
	// worker's chain it says that the worker is.
	Lost struct {
		// Worker that is lost.
		Worker WorkerID `json:"worker"`
	}
)

// Bodies of a worker's chain.
type (
	// Joined says that a worker's incarnation is there and nothing of an earlier
	// one still runs.
	Joined struct {
		Host        string            `json:"host"`
		Incarnation Incarnation       `json:"incarnation"`
		Labels      map[string]string `json:"labels,omitempty"`
		// Versions of toolfleet, Go and MCP, by name.
		Versions map[string]string `json:"versions,omitempty"`
		// Capacity is the most instances it takes; 0 is no limit.
		Capacity int `json:"capacity,omitzero"`
		// Recipients are the age recipients whose identity it holds.
		Recipients []string `json:"recipients,omitempty"`
	}
	// Left says that the worker stopped everything and goes.
	Left struct {
		Incarnation Incarnation `json:"incarnation"`
		Reason      string      `json:"reason,omitzero"`
	}
	// Draining says that instances are being moved away: until Uncordoned or, if
	// the worker wrote it of itself, until the end of its incarnation.
	Draining struct {
		// Incarnation of the worker that goes; "" where somebody else wants the host
		// drained.
		Incarnation Incarnation `json:"incarnation,omitzero"`
	}
	// Cordoned says that nothing new is placed there.
	Cordoned struct{}
	// Uncordoned ends Cordoned and Draining.
	Uncordoned struct{}
)

// Bodies of the fleet's chain.
type (
	// Frozen stops automatic restarts, moves and updates.
	Frozen struct{}
	// Unfrozen ends Frozen.
	Unfrozen struct{}
	// SourceFailed says that a source of definitions could not be read; its last
	// good entries stay.
	SourceFailed struct {
		Source Source `json:"source"`
		Error  string `json:"error"`
	}
	// Discovered reports what a source held.
	Discovered struct {
		Source   Source     `json:"source"`
		Accepted []ServerID `json:"accepted,omitempty"`
		// Rejected counts the definitions that could not be accepted.
		Rejected int `json:"rejected,omitzero"`
	}
	// LedBy says which controller leads from here on.
	LedBy struct {
		Controller  string      `json:"controller"`
		Incarnation Incarnation `json:"incarnation"`
	}
)

// Unknown is the body of an event whose kind or version this build does not
// know; [Event.Data] holds it.
type Unknown struct {
	// Type is the event's whole ce-type.
	Type string
}

// Undecodable is the body of a message that is no valid event. It has its place
// in the chain all the same.
type Undecodable struct {
	// Reason is for people.
	Reason string
}

// Listing is what a complete list of tools, resources or prompts was, and how
// it differs from the last one of the chain under any owner or definition. The
// items themselves are in the blob store.
type Listing struct {
	// Digest of the items; also their key in the blob store.
	Digest Digest `json:"digest"`
	Count  int    `json:"count"`
	// From is the digest of the list compared with, or "" when there is none or
	// it could not be read; then all items are added.
	From        Digest      `json:"from,omitzero"`
	Added       Names       `json:"added,omitzero"`
	Removed     Names       `json:"removed,omitzero"`
	Changed     Changes     `json:"changed,omitzero"`
	Quarantined Quarantines `json:"quarantined,omitzero"`
}

// MaxNames is how many names a list in an event holds; more are only counted.
const MaxNames = 256

// Names are names of tools, resources or prompts, the first [MaxNames] of Count.
type Names struct {
	Count int      `json:"count"`
	Names []string `json:"names,omitempty"`
}

// Changes are items whose definition differs, the first [MaxNames] of Count.
type Changes struct {
	Count int      `json:"count"`
	Items []Change `json:"items,omitempty"`
}

// Quarantines are items that were left out, the first [MaxNames] of Count.
type Quarantines struct {
	Count int          `json:"count"`
	Items []Quarantine `json:"items,omitempty"`
}

// Change is one item with the canonical digests of its two definitions.
type Change struct {
	Name string `json:"name"`
	From Digest `json:"from"`
	To   Digest `json:"to"`
}

// Quarantine is an item that was left out of a list, and why.
type Quarantine struct {
	Name string `json:"name"`
	// Path is the JSON pointer of the offending member of the item, or "".
	Path   string `json:"path,omitzero"`
	Reason string `json:"reason"`
}

// Delay returns DelayMs as a duration.
func (r RestartScheduled) Delay() time.Duration { return time.Duration(r.DelayMs) * time.Millisecond }
