package show

import (
	"time"

	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/events/callwire"
)

// Call is a call in flight as it is shown, and the JSON shape of that.
type Call struct {
	Call     string             `json:"call"`
	Server   events.ServerID    `json:"server"`
	Instance events.InstanceID  `json:"instance"`
	Worker   events.WorkerID    `json:"worker"`
	Method   string             `json:"method"`
	Tool     string             `json:"tool"`
	Actor    string             `json:"actor"`
	Began    time.Time          `json:"began"`
	State    callwire.CallState `json:"state"`
	// ForMs is how long it has been going on, by this host's clock.
	ForMs int64 `json:"forMs"`
}

// NewCall returns what a worker tells of a call, at a moment.
func NewCall(w events.WorkerID, c *callwire.InFlight, now time.Time) Call {
	return Call{
		c.Call, c.Server, c.Instance, w, c.Method, c.Tool, c.Actor, c.Began, c.State,
		max(0, now.Sub(c.Began).Milliseconds()),
	}
}

// Calls is the view of calls in flight.
var Calls = &View[Call]{
	Name:   func(c *Call) string { return c.Call },
	Member: "call",
	Object: func(c *Call) any { return c },
	None:   "no call is in flight",
	Columns: []Column[Call]{
		{Heading: "CALL", Cell: func(c *Call) string { return c.Call }},
		{Heading: "SERVER", Cell: func(c *Call) string { return string(c.Server) }},
		{Heading: "TOOL", Cell: func(c *Call) string { return c.Tool }},
		{Heading: "ACTOR", Cell: func(c *Call) string { return c.Actor }},
		{Heading: "FOR", Cell: func(c *Call) string { return millis(c.ForMs).Round(100 * time.Millisecond).String() }},
		{Heading: "STATE", Cell: func(c *Call) string { return string(c.State) }},
		{Heading: "METHOD", Wide: true, Cell: func(c *Call) string { return c.Method }},
		{Heading: "INSTANCE", Wide: true, Cell: func(c *Call) string { return string(c.Instance) }},
		{Heading: "WORKER", Wide: true, Cell: func(c *Call) string { return string(c.Worker) }},
	},
}
