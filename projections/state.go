package projections

// State is what an instance, or a server as a whole, does.
type State string

// The states of an instance. The zero State is that of one that was never
// assigned.
const (
	// Assigned: it has an owner, who did nothing yet.
	Assigned State = "assigned"
	// Connecting: its owner resolves, spawns, dials or shakes hands.
	Connecting State = "connecting"
	// Listing: the handshake is done, the first list of tools is not.
	Listing State = "listing"
	// Ready: connected, and the tools of this connection are listed.
	Ready State = "ready"
	// Degraded: as ready, but something does not work.
	Degraded State = "degraded"
	// BackingOff: it failed, and the next attempt is scheduled.
	BackingOff State = "backing-off"
	// Parked: it failed so often that it is tried rarely, or no more.
	Parked State = "parked"
	// AuthRequired: it waits for credentials.
	AuthRequired State = "auth-required"
	// Stopping: its owner closes it.
	Stopping State = "stopping"
	// Stopped: nothing of it runs; it still has its owner.
	Stopped State = "stopped"
	// Failed: its connection, or the attempt to make one, just ended.
	Failed State = "failed"
	// Released: it stopped and has no owner.
	Released State = "released"
	// Lost: its owner is lost; it has none.
	Lost State = "lost"
)

// The states that only a server as a whole has.
const (
	// Deferred: it should run, and has no instance with an owner.
	Deferred State = "deferred"
	// Disabled: it must not run.
	Disabled State = "disabled"
	// Withdrawn: the fleet no longer has it.
	Withdrawn State = "withdrawn"
	// Rejected: its definition could not be accepted, and there is no other.
	Rejected State = "rejected"
)

// Owned says whether an instance in the state has an owner: in every state but
// the zero one, Released, Lost and those of a server as a whole.
func (s State) Owned() bool {
	switch s {
	case "", Released, Lost, Deferred, Disabled, Withdrawn, Rejected:
		return false
	default:
		return true
	}
}

// Working says whether an instance in the state answers calls.
func (s State) Working() bool { return s == Ready || s == Degraded }

// Reach is a state for callers that want to know only whether calls work.
type Reach string

// The three values of Reach.
const (
	IsConnected    Reach = "connected"    // calls work
	IsConnecting   Reach = "connecting"   // they do not yet, and nobody needs to do anything
	IsDisconnected Reach = "disconnected" // they do not
)

// Reach returns the coarse form of the state: [IsConnected] for Ready and
// Degraded, [IsConnecting] for Assigned, Connecting, Listing, BackingOff and
// Deferred, else [IsDisconnected].
func (s State) Reach() Reach {
	switch s {
	case Ready, Degraded:
		return IsConnected
	case Assigned, Connecting, Listing, BackingOff, Deferred:
		return IsConnecting
	default:
		return IsDisconnected
	}
}

// rank orders states by how much of a server they make available; of several
// instances the highest speaks for the server.
func (s State) rank() int {
	for i, t := range ranks {
		if s == t {
			return i
		}
	}
	return -1
}

var ranks = [...]State{
	"", Released, Lost, Stopped, Stopping, Failed, AuthRequired, Parked,
	BackingOff, Assigned, Connecting, Listing, Degraded, Ready,
}
