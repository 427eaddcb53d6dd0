// Package request says what can be asked of a controller and what it answers.
//
// A request is a NATS message to tf.api.<fleet>.<verb>, whose subject is served
// by every controller; any one of them answers. Its body is JSON:
//
//	{"server": "github", "request": "0197…", "definition": {…}, "actor": "…", "reason": "…"}
//
// "request" is chosen by the caller. It makes a request safe to repeat: however
// often, and to whichever controller, it is sent with the same body, it causes
// one event, and every answer names that one. A repeat with another body is
// refused. A controller remembers the last 64 requests of a server that caused
// an event.
//
// An answer is {"seq": 17, …}: the sequence of the event that the request
// caused, for which every view can be waited on. An error is an answer with the
// headers of a NATS micro service (Nats-Service-Error, Nats-Service-Error-Code)
// and the body of an [Error].
package request

import (
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/toolfleet/toolfleet/events"
)

// Verb is what a request asks for.
type Verb string

// The verbs. All but Declare are about a server that the fleet has.
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
)

// Verbs returns all verbs.
func Verbs() []Verb { return []Verb{Declare, Withdraw, Enable, Disable, Start, Stop, Restart} }

// Prefix is what the subjects of a fleet's requests begin with, without the dot
// before the verb.
func Prefix(f events.FleetID) string { return "tf.api." + string(f) }

// Subject returns the subject of a fleet's requests with a verb.
func Subject(f events.FleetID, v Verb) string { return Prefix(f) + "." + string(v) }

// Request is one request.
type Request struct {
	// Verb is part of the subject.
	Verb Verb `json:"-"`
	// Server is the id as it was given; it may turn out to be none.
	Server string `json:"server"`
	// Definition, for Declare: unresolved, and without literal secrets.
	Definition *events.Definition `json:"definition,omitzero"`
	// ID is chosen by the caller, 1 to 128 bytes.
	ID events.RequestID `json:"request"`
	// Actor is who asks, and Reason the actor's own words, if any.
	Actor  string `json:"actor,omitzero"`
	Reason string `json:"reason,omitzero"`
}

// Bounds of a request's texts, in bytes: they become headers of an event.
const (
	maxID     = 128
	maxServer = 4 << 10
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
		{"server", q.Server, 0, maxServer},
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
