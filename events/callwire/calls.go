package callwire

import (
	"time"

	"github.com/toolfleet/toolfleet/events"
)

// The tools of requests about calls in flight.
const (
	ListCalls  = "calls"
	CancelCall = "cancel"
)

// MaxListed is how many calls in flight are listed, the longest first.
const MaxListed = 1000

// InFlight is a call that a worker is at.
type InFlight struct {
	// Call is its id.
	Call     string            `json:"call"`
	Server   events.ServerID   `json:"server"`
	Instance events.InstanceID `json:"instance"`
	// Method is that of MCP, Tool what the [Request] said.
	Method string    `json:"method"`
	Tool   string    `json:"tool"`
	Actor  string    `json:"actor"`
	Began  time.Time `json:"began"`
	State  CallState `json:"state"`
}

// CallState says how far a call in flight is.
type CallState string

// The states of calls in flight.
const (
	// CallWaiting says that as many calls of the instance are at its server as may
	// be, and that the server has not seen this one.
	CallWaiting CallState = "waiting"
	// CallSent says that the call is at the server, or on its way there.
	CallSent CallState = "sent"
)

// CallsResult lists calls in flight, the longest first.
type CallsResult struct {
	Calls []InFlight `json:"calls"`
	// More is how many there are beside the [MaxListed].
	More int `json:"more,omitzero"`
}

// CancelRequest asks a worker to cancel a call as if its caller did.
type CancelRequest struct {
	Call string `json:"call"`
}

// CancelResult says whether there was such a call. What became of it is told to
// its caller.
type CancelResult struct {
	Cancelled bool `json:"cancelled"`
}
