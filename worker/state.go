package worker

import (
	"time"

	"github.com/toolfleet/toolfleet/events"
)

// Stage is where an instance is in its life.
type Stage string

// The stages. An instance that is Gone has another owner: whatever still runs
// is being closed, and nothing is written any more.
const (
	Idle       Stage = "idle"
	Connecting Stage = "connecting"
	Listing    Stage = "listing"
	Ready      Stage = "ready"
	BackingOff Stage = "backing-off"
	Parked     Stage = "parked"
	Stopping   Stage = "stopping"
	Stopped    Stage = "stopped"
	Gone       Stage = "gone"
)

// Ref names one attempt to connect. Attempts are counted within an epoch.
type Ref struct {
	Epoch      events.Epoch
	Generation events.Seq
	Attempt    int
}

// State is that of an instance under one epoch. [Begin] makes one; only [Step]
// changes it.
type State struct {
	Stage Stage
	Epoch events.Epoch
	// Command is the last one accepted, nil before the first.
	Command *events.Command
	// Leased says whether the worker's lease holds.
	Leased bool
	// Leaving says that the worker goes: nothing is started any more.
	Leaving bool

	// Ref is the current or last attempt, Running the command it was begun for.
	Ref     Ref
	Running *events.Command
	// Live says that something of the attempt may exist: Connect was issued and
	// its Ended has not come.
	Live bool
	// Next is what follows Stopping.
	Next Next
	// Answered says that the chain has the stopped of this stage.
	Answered bool

	// Timer is the armed timer, 0 if none is; Timers counts them.
	Timer, Timers int
	// Owed says that an attempt is due and waits for the lease, or for a command
	// that is not frozen.
	Owed bool
	// Failures counts them since the instance was last stable, Probes those
	// made while parked.
	Failures, Probes int

	// Lists are those of the current connection.
	Lists [listKinds]ListState
	// Asked counts the questions that the server has left unanswered since it was
	// last heard, AskedAt is when the last one was. Pingless says that the
	// connection's are not ping.
	Asked    int
	AskedAt  time.Time
	Pingless bool
	// ReadySince is when the current connection became ready.
	ReadySince time.Time
	// DownSince is when the instance ceased to be ready, or zero.
	DownSince time.Time
	// Restarting says that a restarted is due at the next complete list.
	Restarting bool
	// Worked says that the server's tools were listed before.
	Worked bool
}

// ListState is how far a list is.
type ListState struct {
	// Relisting says that the list is being made or not yet acknowledged, Relist
	// that one more has to follow it.
	Relisting, Relist bool
	// Offered says that a complete list of the connection was given to the chain.
	Offered bool
}

// Next is what follows when a connection that is being closed is gone.
type Next string

// The continuations of Stopping.
const (
	ThenStop    Next = "stop"
	ThenConnect Next = "connect"
	ThenWait    Next = "wait" // for the lease
)

// Past is what the instance's chain says before this owner's first word.
type Past struct {
	// Attempt is the highest number used in the epoch.
	Attempt int
	// Answered says that the owner's last word in the epoch is stopped.
	Answered bool
	// Worked says that tools were listed for the server before.
	Worked bool
	// Restarting says that there was another owner, or a failure, since.
	Restarting bool
	// DownSince is when the instance was last ready, or zero.
	DownSince time.Time
}

// Begin returns the state of an instance that has had no command yet.
func Begin(e events.Epoch, p Past, leased bool) State {
	s := State{
		Stage: Idle, Epoch: e, Leased: leased, Ref: Ref{Epoch: e, Attempt: p.Attempt},
		Worked: p.Worked, Restarting: p.Restarting, DownSince: p.DownSince,
	}
	if p.Answered {
		s.Stage, s.Answered = Stopped, true
	}
	return s
}

// Input is something that happened. At and Rand, in [0, 1), are all that Step
// knows of time and chance. Ref is the attempt that it is about, if any.
type Input struct {
	At   time.Time
	Rand float64
	Ref  Ref
	What Happening
}

// Happening is what an input says.
//
//sumtype:decl
type Happening interface{ happening() }

// What can happen to an instance.
type (
	// Commanded is the last command of the instance's address.
	Commanded struct{ Command *events.Command }
	// Leaving says that the worker goes.
	Leaving struct{ Reason string }
	// LeaseChanged says whether the worker's lease holds now.
	LeaseChanged struct{ Held bool }
	// Disowned says that the chain has another owner, or none.
	Disowned struct{}
	// Elapsed is the end of a Sleep. Heard is when anything last came from the
	// server of a connection, Busy that a call may be what keeps it silent.
	Elapsed struct {
		Timer int
		Heard time.Time
		Busy  bool
	}

	// Appended acknowledges an Append.
	Appended struct{ Kind events.Kind }
	// Dialed is the end of the handshake.
	Dialed struct{ Connected events.Connected }
	// Listed is a complete list. Same says that it is the last one of the chain
	// again, or that the last one stays.
	Listed struct {
		Kind    ListKind
		Listing events.Listing
		Blob    []byte
		Same    bool

		items *catalogue // for the comparison with the next one
	}
	// ListChanged says that the server announced a change.
	ListChanged struct{ Kind ListKind }
	// PingUnknown says that the server knows no ping.
	PingUnknown struct{}
	// StopHung says that the connection could not be closed in time.
	StopHung struct{}
	// Ended says that nothing of the attempt is left, and why.
	Ended struct {
		Failure events.Failure
		Exit    *int
		Signal  string
		Stderr  string
		// How it ended when it was closed: see [events.HasStopped].
		How string
	}
)

func (Commanded) happening()    {}
func (Leaving) happening()      {}
func (LeaseChanged) happening() {}
func (Disowned) happening()     {}
func (Elapsed) happening()      {}
func (Appended) happening()     {}
func (Dialed) happening()       {}
func (Listed) happening()       {}
func (ListChanged) happening()  {}
func (PingUnknown) happening()  {}
func (StopHung) happening()     {}
func (Ended) happening()        {}

// Effect is something to do. Effects are done in order, but for their outcome
// nobody waits: it comes back as an input.
//
//sumtype:decl
type Effect interface{ effect() }

// What an instance can have done.
type (
	// Append writes to the instance's chain, after whatever was appended before.
	// A blob is stored first. Answered by Appended, or Disowned.
	Append struct {
		Ref   Ref
		Body  events.Body
		Blob  []byte
		Cause string
	}
	// Connect resolves the definition, spawns or dials, and shakes hands.
	// Answered by Dialed or Ended.
	Connect struct {
		Ref     Ref
		Command *events.Command
	}
	// List asks for all items of a list. Answered by Listed or Ended.
	List struct {
		Ref  Ref
		Kind ListKind
	}
	// Serve answers calls from now on, until the attempt ends or is closed.
	Serve struct{ Ref Ref }
	// Ask asks the server for a sign of life: by ping, or by a request that every
	// server answers. What it answers is only heard, but for PingUnknown.
	Ask struct {
		Ref  Ref
		Ping bool
	}
	// Break ends the attempt as one that failed. Answered by Ended with the
	// failure.
	Break struct {
		Ref     Ref
		Failure events.Failure
	}
	// Close ends the attempt: in peace, or (Now) by force. Answered by Ended,
	// before it perhaps by StopHung.
	Close struct {
		Ref Ref
		Now bool
	}
	// Sleep arms the timer, which replaces any that is armed. Answered by
	// Elapsed.
	Sleep struct {
		Timer int
		For   time.Duration
	}
	// Finish says that nothing remains to be done in this epoch.
	Finish struct{}
)

func (Append) effect()  {}
func (Connect) effect() {}
func (List) effect()    {}
func (Serve) effect()   {}
func (Ask) effect()     {}
func (Break) effect()   {}
func (Close) effect()   {}
func (Sleep) effect()   {}
func (Finish) effect()  {}
