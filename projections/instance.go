package projections

import (
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/toolfleet/toolfleet/events"
)

// Instance is the fold of the chain of one running copy of a server.
type Instance struct {
	Server   events.ServerID   `json:"server"`
	Instance events.InstanceID `json:"instance"`
	Progress

	State State `json:"state,omitzero"`
	// Since is when the instance came into its state.
	Since time.Time `json:"since,omitzero"`

	// Worker, Incarnation and Epoch are those of the owner; for an instance
	// without one ([State.Owned]), of the last.
	Worker      events.WorkerID    `json:"worker,omitzero"`
	Incarnation events.Incarnation `json:"incarnation,omitzero"`
	Epoch       events.Epoch       `json:"epoch,omitzero"`
	// AssignedAt and Reason are those of the assignment.
	AssignedAt time.Time `json:"assignedAt,omitzero"`
	Reason     string    `json:"reason,omitzero"`

	// Attempt is the number of the current or last attempt to connect, as its
	// owner counts; Generation and Definition are what it connects to.
	Attempt    int           `json:"attempt,omitzero"`
	Generation events.Seq    `json:"generation,omitzero"`
	Definition events.Digest `json:"definition,omitzero"`
	// Next is the next attempt, for one that is backing off or parked.
	Next *Next `json:"next,omitzero"`

	// Connection is the open one, from connected on.
	Connection *Connection `json:"connection,omitzero"`
	// ReadySince is when the instance became ready, or zero while it is not. Of
	// one that was ready before, DownSince is when that ended.
	ReadySince time.Time `json:"readySince,omitzero"`
	DownSince  time.Time `json:"downSince,omitzero"`

	// Tools are those of the definition that the instance was last connected
	// to; Lists are the last ones of that and of other definitions, the newest
	// last.
	Tools Catalogue `json:"tools,omitzero"`
	Lists []Listed  `json:"lists,omitempty"`
	// Resources, with templates, and Prompts are those last listed for the
	// definition, if any were.
	Resources Catalogue `json:"resources,omitzero"`
	Prompts   Catalogue `json:"prompts,omitzero"`

	// Failure is why the instance does not work as it should, until it does or
	// is stopped or assigned anew. LastFailure stays.
	Failure     *Fault `json:"failure,omitzero"`
	LastFailure *Fault `json:"lastFailure,omitzero"`
	// Hint tells what an instance that requires credentials waits for.
	Hint string `json:"hint,omitzero"`
	// How is how the instance stopped, see [events.HasStopped].
	How string `json:"how,omitzero"`

	// Broken says that the instance failed, or that its owner ended without a
	// word, and that it was neither mended by a restart nor stopped since.
	Broken bool `json:"broken,omitzero"`

	// Counters over the whole chain: attempts to connect, failures, and
	// restarts after a failure that made the instance ready again; one that was
	// asked for is none. FailuresInRow counts those since it was last ready, or
	// assigned.
	Attempts      int `json:"attempts,omitzero"`
	Failures      int `json:"failures,omitzero"`
	FailuresInRow int `json:"failuresInRow,omitzero"`
	Restarts      int `json:"restarts,omitzero"`
	// LastDowntimeMs is how long the instance was not ready before its last
	// restart, whatever led to it.
	LastDowntimeMs int64 `json:"lastDowntimeMs,omitzero"`
}

// Connection is an open connection to an MCP server; what is not said here is as
// in [events.Connected].
type Connection struct {
	// Seq of the connected event, and its time.
	Seq   events.Seq `json:"seq"`
	Since time.Time  `json:"since,omitzero"`

	Protocol     string         `json:"protocol,omitzero"`
	Era          string         `json:"era,omitzero"`
	ServerInfo   jsontext.Value `json:"serverInfo,omitzero"`
	Capabilities jsontext.Value `json:"capabilities,omitzero"`
	Instructions string         `json:"instructions,omitzero"`
	PID          int            `json:"pid,omitzero"`
	URL          string         `json:"url,omitzero"`
}

// Next is an attempt to connect that is to come.
type Next struct {
	At time.Time `json:"at"`
	// Attempt is its number; 0 for the probe of a parked instance.
	Attempt int `json:"attempt,omitzero"`
}

// Stuck says whether a stop did not come to its end: the instance is given to
// nobody until it does.
func (i *Instance) Stuck() bool {
	return i.State == Failed && i.Failure != nil && i.Failure.Code == events.StopHung
}

// EvolveInstance folds the next event of an instance's chain.
func EvolveInstance(i Instance, r events.Record) Instance {
	if r.Chain.Kind() != events.OfInstance ||
		i.Server != "" && (i.Server != r.Chain.Server() || i.Instance != r.Chain.Instance()) ||
		!i.advance(&r) {
		return i
	}
	i.Server, i.Instance = r.Chain.Server(), r.Chain.Instance()
	if _, broken := r.Body.(events.Undecodable); broken {
		i.unreadable(&r) // whatever its epoch, which cannot be trusted
		return i
	}
	if a, ok := r.Body.(events.Assigned); ok {
		i.assign(&r, a)
		return i
	}
	if r.Epoch < i.Epoch || i.unreadable(&r) || !i.State.Owned() {
		return i
	}
	i.Updated = when(&r)
	i.fold(&r)
	i.appraise()
	return i
}

func (i *Instance) assign(r *events.Record, a events.Assigned) {
	if a.Epoch <= i.Epoch && i.State != "" {
		return
	}
	i.Broken = i.Broken || i.State.Owned() && i.State != Assigned && i.State != Stopped
	i.Connection = nil
	i.enter(r, Assigned)
	i.Updated = i.Since
	i.Worker, i.Incarnation, i.Epoch = a.Worker, a.Incarnation, a.Epoch
	i.AssignedAt, i.Reason = i.Since, text(a.Reason, maxMessage)
	i.Attempt, i.FailuresInRow = 0, 0
	i.Failure = nil
	i.appraise()
}

func (i *Instance) fold(r *events.Record) {
	switch b := r.Body.(type) {
	case events.Connecting:
		i.connect(r, &b)
	case events.Connected:
		i.connected(r, &b)
	case events.ToolsListed:
		i.listTools(r, &b.Listing)
	case events.ResourcesListed:
		i.list(r, &i.Resources, &b.Listing)
	case events.PromptsListed:
		i.list(r, &i.Prompts, &b.Listing)
	case events.Degraded:
		i.degrade(r, b.Failure)
	case events.Recovered:
		if i.State == Degraded {
			i.enter(r, Ready)
			i.Failure = nil
		}
	case events.Restarted:
		if i.Broken {
			i.Restarts++
		}
		i.Broken, i.LastDowntimeMs = false, b.DowntimeMs
	default:
		i.foldEnd(r)
	}
}

// foldEnd folds what ends a connection, or keeps one from being made.
func (i *Instance) foldEnd(r *events.Record) {
	switch b := r.Body.(type) {
	case events.Failed:
		i.fail(r, &b)
	case events.RestartScheduled:
		i.Connection = nil
		i.enter(r, BackingOff)
		i.Next = &Next{At: i.Updated.Add(b.Delay()), Attempt: b.Attempt}
	case events.Parked:
		i.Connection = nil
		i.enter(r, Parked)
		if i.Failure == nil || i.Failure.Code != b.Failure.Code { // else the failed event told more of it
			i.Failure = newFault(r, b.Failure)
		}
		if b.ProbeMs > 0 {
			i.Next = &Next{At: i.Updated.Add(time.Duration(b.ProbeMs) * time.Millisecond)}
		}
	case events.AuthRequired:
		i.Connection = nil
		i.enter(r, AuthRequired)
		i.Broken = true
		i.Hint = text(b.Hint, maxMessage)
	case events.Stopping:
		i.enter(r, Stopping)
	case events.HasStopped:
		i.Connection = nil
		i.enter(r, Stopped)
		i.Failure, i.Broken, i.How = nil, false, text(b.How, maxName)
	case events.Released:
		i.Connection = nil
		i.enter(r, Released)
	case events.Lost:
		i.Connection = nil
		i.enter(r, Lost)
		i.Broken = true
	default: // unreachable unless the catalogue got a kind that this fold lacks
	}
}

// enter changes the state. What belongs to the former one alone is forgotten.
func (i *Instance) enter(r *events.Record, s State) {
	if i.State != s {
		i.State, i.Since = s, when(r)
	}
	if !s.Working() && !i.ReadySince.IsZero() {
		i.ReadySince, i.DownSince = time.Time{}, when(r)
	}
	i.Next, i.Hint, i.How = nil, "", ""
}

func (i *Instance) connect(r *events.Record, b *events.Connecting) {
	i.Connection = nil
	i.enter(r, Connecting)
	i.Attempt, i.Generation, i.Definition = b.Attempt, b.Generation, b.Definition
	i.Attempts++
	i.recall(r)
}

func (i *Instance) connected(r *events.Record, b *events.Connected) {
	if i.State != Connecting || i.outdated(r) {
		return
	}
	i.Connection = &Connection{
		Seq: r.Seq, Since: when(r),
		Protocol: b.Protocol, Era: b.Era,
		ServerInfo: b.ServerInfo, Capabilities: b.Capabilities, Instructions: b.Instructions,
		PID: b.PID, URL: b.URL,
	}
	i.enter(r, Listing)
}

// outdated says whether the event belongs to an earlier attempt.
func (i *Instance) outdated(r *events.Record) bool {
	return r.Attempt != 0 && r.Attempt < i.Attempt
}

// listens says whether a list that the event reports is one of the open
// connection.
func (i *Instance) listens(r *events.Record) bool { return i.Connection != nil && !i.outdated(r) }

// becomeReady follows the first complete list of tools of a connection.
func (i *Instance) becomeReady(r *events.Record) {
	i.enter(r, Ready)
	i.ReadySince, i.DownSince = when(r), time.Time{}
	i.Failure, i.FailuresInRow = nil, 0
}

func (i *Instance) degrade(r *events.Record, f events.Failure) {
	if i.Connection == nil {
		return
	}
	i.Failure = newFault(r, f)
	i.LastFailure = i.Failure
	if i.State == Ready {
		i.enter(r, Degraded)
	}
}

func (i *Instance) fail(r *events.Record, b *events.Failed) {
	i.Connection = nil
	i.enter(r, Failed)
	i.Broken = true
	f := newFault(r, b.Failure)
	f.Exit, f.Signal, f.StderrTail = b.Exit, text(b.Signal, maxName), tail(b.StderrTail, maxStderr)
	if b.Attempt != 0 {
		f.Attempt = b.Attempt
	}
	i.Failure, i.LastFailure = f, f
	i.Failures++
	i.FailuresInRow++
}
