// Package request says what can be asked of a controller and what it answers.
//
// A request is a NATS message to tf.api.<fleet>.<verb>, whose subject is served
// by every controller; any one of them answers. Its body is JSON:
//
//	{"server": "github", "request": "0197…", "definition": {…}, "actor": "…", "reason": "…"}
//
// A request is about a server, about a worker ("worker" in its place) or about
// the whole fleet (neither); [Move] names both a server and a worker.
//
// "request" is chosen by the caller. It makes a request safe to repeat: however
// often, and to whichever controller, it is sent with the same body, it causes
// one event, and every answer names that one. A repeat with another body is
// refused. A controller remembers the last 64 requests of a server, of a worker and
// of the fleet itself that caused an event.
//
// While the fleet is frozen, what would change what runs is refused ([Frozen]);
// [Stop] and [Disable] are not, nor is what changes nothing, nor cordons.
//
// An answer is {"seq": 17, …}: the sequence of the event that the request
// caused, for which every view can be waited on. An error is an answer with the
// headers of a NATS micro service (Nats-Service-Error, Nats-Service-Error-Code)
// and the body of an [Error].
package request

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/toolfleet/toolfleet/events"
)

// Verb is what a request asks for.
type Verb string

// The verbs about a server. All but Declare are about one that the fleet has.
const (
	// Declare asks for the fleet to have the server with that definition, in the
	// place of the one it may have.
	Declare Verb = "declare"
	// Withdraw asks for the fleet to have the server no more.
	Withdraw Verb = "withdraw"
	// Enable allows the server to run; whether it does is another question.
	Enable Verb = "enable"
	// Disable forbids it.
	Disable Verb = "disable"
	// Start asks for an enabled server to run.
	Start Verb = "start"
	// Stop asks for it not to run.
	Stop Verb = "stop"
	// Restart asks every instance of a running server to reconnect once.
	Restart Verb = "restart"
	// Move asks for an instance of a running server to run on a certain worker. It
	// is granted only where it fits there now, and holds for the next assignment of
	// the server: afterwards nothing keeps it there.
	Move Verb = "move"
)

// The verbs about a worker's host, which the fleet knows. What they ask for
// outlasts a restart of the worker.
const (
	// Cordon asks for nothing new to be placed there.
	Cordon Verb = "cordon"
	// Drain asks for that, and for what runs there to move elsewhere.
	Drain Verb = "drain"
	// Uncordon ends both.
	Uncordon Verb = "uncordon"
)

// The verbs about the fleet.
const (
	// Freeze asks for nothing to be started, restarted, moved or updated.
	Freeze Verb = "freeze"
	// Unfreeze ends that.
	Unfreeze Verb = "unfreeze"
)

// Verbs returns all verbs.
func Verbs() []Verb {
	return []Verb{
		Declare, Withdraw, Enable, Disable, Start, Stop, Restart, Move,
		Cordon, Drain, Uncordon, Freeze, Unfreeze,
	}
}

// Object is what requests of a verb are about.
type Object int

// The objects of requests.
const (
	Server Object = iota
	Worker
	Fleet
)

// Object returns what requests of the verb are about.
func (v Verb) Object() Object {
	switch v {
	case Cordon, Drain, Uncordon:
		return Worker
	case Freeze, Unfreeze:
		return Fleet
	default:
		return Server
	}
}

// Prefix is what the subjects of a fleet's requests begin with, without the dot
// before the verb.
func Prefix(f events.FleetID) string { return "tf.api." + string(f) }

// Subject returns the subject of a fleet's requests with a verb.
func Subject(f events.FleetID, v Verb) string { return Prefix(f) + "." + string(v) }

// Request is one request.
type Request struct {
	// Verb is part of the subject.
	Verb Verb `json:"-"`
	// Server and Worker are the ids as they were given; they may turn out to be
	// none. Which of them there is, the verb says.
	Server string `json:"server,omitzero"`
	Worker string `json:"worker,omitzero"`
	// Definition, for Declare: unresolved, and without literal secrets.
	Definition *events.Definition `json:"definition,omitzero"`
	// ID is chosen by the caller, 1 to 128 bytes.
	ID events.RequestID `json:"request"`
	// Actor is who asks, and Reason the actor's own words, if any.
	Actor  string `json:"actor,omitzero"`
	Reason string `json:"reason,omitzero"`
}

// About is the request in words, such as stop "github".
func (q *Request) About() string {
	about := string(q.Verb)
	switch {
	case q.Verb == Move:
		return fmt.Sprintf("%s %q to %q", about, q.Server, q.Worker)
	case q.Verb.Object() == Worker:
		return fmt.Sprintf("%s %q", about, q.Worker)
	case q.Verb.Object() == Fleet:
		return about + " the fleet"
	default:
		return fmt.Sprintf("%s %q", about, q.Server)
	}
}

// Bounds of a request's texts, in bytes: they become headers of an event.
const (
	maxID     = 128
	maxName   = 4 << 10
	maxActor  = 256
	maxReason = 1 << 10
)

// Check returns nil, or an [*Error] with the code [InvalidRequest] for a request
// that says nothing that could be decided on. Whether its server and definition
// are any good is not looked at.
func (q *Request) Check() error {
	for _, t := range []struct {
		name, text string
		least, max int
	}{
		{"request", string(q.ID), 1, maxID},
		{"server", q.Server, 0, maxName},
		{"worker", q.Worker, 0, maxName},
		{"actor", q.Actor, 0, maxActor},
		{"reason", q.Reason, 0, maxReason},
	} {
		switch {
		case len(t.text) < t.least:
			return Errorf(InvalidRequest, "%s is missing: choose an id, so that the request can be repeated", t.name)
		case len(t.text) > t.max:
			return Errorf(InvalidRequest, "%s has %d bytes: at most %d are allowed", t.name, len(t.text), t.max)
		case !utf8.ValidString(t.text):
			return Errorf(InvalidRequest, "%s is no valid UTF-8", t.name)
		}
	}
	if (q.Definition != nil) != (q.Verb == Declare) {
		return Errorf(InvalidRequest, "%s: a definition belongs to declare, and to nothing else", q.Verb)
	}
	if !slices.Contains(Verbs(), q.Verb) {
		return Errorf(InvalidRequest, "%q is no verb", strings.ToValidUTF8(string(q.Verb), "?"))
	}
	if q.Server != "" && q.Verb.Object() != Server {
		return Errorf(InvalidRequest, "%s is not about a server", q.Verb)
	}
	if q.Worker != "" && q.Verb.Object() != Worker && q.Verb != Move {
		return Errorf(InvalidRequest, "%s is not about a worker", q.Verb)
	}
	return nil
}

// Answer is the answer to a request that was granted.
type Answer struct {
	// Seq is the event that the request caused, now or when it was first made;
	// where nothing had to change, the last one that changed what should run.
	Seq events.Seq `json:"seq"`
	// Repeated says that the request was answered before.
	Repeated bool `json:"repeated,omitzero"`
	// Unchanged says that everything was as it asks for already.
	Unchanged bool `json:"unchanged,omitzero"`
}
