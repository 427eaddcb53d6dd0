package projections

import (
	"iter"
	"time"

	"github.com/toolfleet/toolfleet/events"
)

// Status is a server as it is shown: its definition joined with its instances.
type Status struct {
	ID events.ServerID `json:"id"`
	// State is that of the instance that makes most of the server available, or
	// one that only a server has. Status is its coarse form.
	State  State `json:"state"`
	Status Reach `json:"status"`
	// Want is what the server should do, Enabled whether it may.
	Want    events.Want `json:"want"`
	Enabled bool        `json:"enabled"`

	Scope     events.Scope     `json:"scope,omitzero"`
	Source    *events.Source   `json:"source,omitzero"`
	Transport events.Transport `json:"transport,omitzero"`
	// Definition is the digest of the definition in force; Generation and, below,
	// Declared to Reason are those of [Server].
	Definition events.Digest `json:"definition,omitzero"`
	Generation events.Seq    `json:"generation,omitzero"`
	// Seq is the newest event that is part of this.
	Seq      events.Seq `json:"seq"`
	Declared time.Time  `json:"declared,omitzero"`
	Changed  time.Time  `json:"changed,omitzero"`
	Actor    string     `json:"actor,omitzero"`
	Reason   string     `json:"reason,omitzero"`
	// Updating says that an update is neither settled nor rolled back.
	Updating  bool       `json:"updating,omitzero"`
	Rollback  *Rollback  `json:"rollback,omitzero"`
	Rejection *Rejection `json:"rejection,omitzero"`

	// Of the instance that State is that of: its tools, as far as they are
	// offered, and where they come from.
	Tools      int             `json:"tools"`
	ToolsState ToolsState      `json:"toolsState,omitzero"`
	Worker     events.WorkerID `json:"worker,omitzero"`
	Epoch      events.Epoch    `json:"epoch,omitzero"`
	PID        int             `json:"pid,omitzero"`
	URL        string          `json:"url,omitzero"`
	Protocol   string          `json:"protocol,omitzero"`
	// Failure of that instance, or else of one that should work and does not.
	Failure *Fault `json:"failure,omitzero"`
	// Restarts of all instances.
	Restarts int `json:"restarts"`
	// Waiting is why an instance that is wanted has no owner, if one has none. Only
	// who knows the workers fills it in: [NewStatus] does not.
	Waiting string `json:"waiting,omitzero"`

	Instances []InstanceStatus `json:"instances"`
}

// InstanceStatus is an instance as it is shown. Its members are those of
// [Instance] of the same name, but for what is said here; Quarantine is that of
// its tools.
type InstanceStatus struct {
	Instance events.InstanceID `json:"instance"`
	State    State             `json:"state"`
	// Status is the coarse form of State.
	Status Reach     `json:"status"`
	Since  time.Time `json:"since,omitzero"`

	Worker      events.WorkerID    `json:"worker,omitzero"`
	Incarnation events.Incarnation `json:"incarnation,omitzero"`
	Epoch       events.Epoch       `json:"epoch,omitzero"`
	Definition  events.Digest      `json:"definition,omitzero"`
	Generation  events.Seq         `json:"generation,omitzero"`

	// Tools counts the tools that are offered, and ToolsState says what they are
	// worth ([Server.Offer]); Protocol, PID and URL are of the open connection.
	Tools       int                `json:"tools"`
	ToolsState  ToolsState         `json:"toolsState,omitzero"`
	Protocol    string             `json:"protocol,omitzero"`
	PID         int                `json:"pid,omitzero"`
	URL         string             `json:"url,omitzero"`
	ReadySince  time.Time          `json:"readySince,omitzero"`
	Next        *Next              `json:"next,omitzero"`
	Hint        string             `json:"hint,omitzero"`
	Failure     *Fault             `json:"failure,omitzero"`
	LastFailure *Fault             `json:"lastFailure,omitzero"`
	Attempts    int                `json:"attempts,omitzero"`
	Restarts    int                `json:"restarts"`
	Quarantine  events.Quarantines `json:"quarantined,omitzero"`
}

// NewStatus joins a server with its instances, which come in the order of their
// ids.
func NewStatus(s *Server, instances iter.Seq[*Instance]) Status {
	n := Status{
		ID: s.ID, Want: s.Wanted(), Enabled: s.Enabled,
		Definition: s.Digest, Generation: s.Generation, Seq: s.Seq,
		Declared: s.Declared, Changed: s.Changed, Actor: s.Actor, Reason: s.Reason,
		Updating: s.Update != nil, Rollback: s.Rollback, Rejection: s.Rejection,
		Instances: []InstanceStatus{},
	}
	if d := s.Definition; d != nil {
		n.Scope, n.Source, n.Transport = d.Scope, d.Source, d.Transport()
		if n.Scope == "" {
			n.Scope = events.FleetScope
		}
	}
	var best *Instance
	for i := range instances {
		n.Instances = append(n.Instances, newInstanceStatus(s, i))
		n.Seq = max(n.Seq, i.Seq)
		n.Restarts += i.Restarts
		if best == nil || i.State.rank() > best.State.rank() {
			best = i
		}
		if i.Failure != nil && n.Failure == nil && i.State.Owned() {
			n.Failure = i.Failure
		}
	}
	n.speak(s, best)
	n.Status = n.State.Reach()
	return n
}

// speak fills in what one instance says for the server.
func (n *Status) speak(s *Server, best *Instance) {
	n.State = s.stateWith(best)
	if best == nil {
		return
	}
	n.ToolsState = s.Offer(best)
	if n.ToolsState != "" {
		n.Tools = best.Tools.Count
	}
	if best.Failure != nil {
		n.Failure = best.Failure
	}
	if best.State.Owned() {
		n.Worker, n.Epoch = best.Worker, best.Epoch
	}
	if c := best.Connection; c != nil {
		n.PID, n.URL, n.Protocol = c.PID, c.URL, c.Protocol
	}
}

// stateWith returns the state of a server of which that is the best instance.
// What still runs, or does not end, is told even of a server that should not.
func (s *Server) stateWith(best *Instance) State {
	if best != nil && best.State.Owned() && best.State != Stopped {
		return best.State
	}
	switch {
	case s.Withdrawn:
		return Withdrawn
	case s.Definition == nil && s.Rejection != nil:
		return Rejected
	case s.Definition == nil:
		return Withdrawn // only instances are known of it
	case !s.Enabled:
		return Disabled
	case s.Wanted() == events.Stopped:
		return Stopped
	default:
		return Deferred
	}
}

func newInstanceStatus(s *Server, i *Instance) InstanceStatus {
	n := InstanceStatus{
		Instance: i.Instance, State: i.State, Status: i.State.Reach(), Since: i.Since,
		Worker: i.Worker, Incarnation: i.Incarnation, Epoch: i.Epoch,
		Definition: i.Definition, Generation: i.Generation,
		ToolsState: s.Offer(i), ReadySince: i.ReadySince, Next: i.Next, Hint: i.Hint,
		Failure: i.Failure, LastFailure: i.LastFailure, Attempts: i.Attempts, Restarts: i.Restarts,
		Quarantine: i.Tools.Quarantined,
	}
	if n.ToolsState != "" {
		n.Tools = i.Tools.Count
	}
	if c := i.Connection; c != nil {
		n.PID, n.URL, n.Protocol = c.PID, c.URL, c.Protocol
	}
	return n
}
