package story

import (
	"slices"
	"strings"
	"time"

	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/projections"
)

// Question is what is asked about something in a fleet.
type Question struct {
	// Subject is the id of a server or worker, or the qualified name of a tool.
	Subject string
	// History is folded up to the moment that is asked about.
	History *projections.History
	// Records are the events of that history, in order, of which [Concerns] says
	// that they matter.
	Records []events.Record
	// Now is that moment.
	Now time.Time
	// Waiting says why an instance that is wanted has no owner, or "". Nil says
	// nothing.
	Waiting func(events.ServerID, events.InstanceID) string
	// Names returns the names of the tools in a list, by its digest; false where
	// the list cannot be read. Nil knows only what the events tell: the first
	// [events.MaxNames] of what was added and removed.
	Names func(events.Digest) ([]string, bool)
}

// Kinds of subject.
const (
	IsServer  = "server"
	IsWorker  = "worker"
	IsTool    = "tool"
	IsUnknown = "unknown" // the fleet has and had nothing of that name
)

// Answer says why something is as it is.
type Answer struct {
	Subject string `json:"subject"`
	// Kind of the subject: [IsServer], [IsWorker], [IsTool] or [IsUnknown].
	Kind string `json:"kind"`
	// State in one word: that of a server, worker or tool, or "unknown".
	State string `json:"state"`
	// Summary is one sentence.
	Summary string `json:"summary"`
	// Because are the events that led to it, the last one first: each because of
	// the next, down to what a person asked for, as far as the history tells.
	Because []Step `json:"because"`
	// Help says what usually helps; empty where nothing is wrong.
	Help string `json:"help"`
}

// Step is one event of an [Answer].
type Step struct {
	Seq   events.Seq  `json:"seq"`
	Time  time.Time   `json:"time"`
	Kind  events.Kind `json:"kind"`
	Chain string      `json:"chain"`
	// Text says what happened.
	Text string `json:"text"`
	// Actor asked for it, with that reason; empty where nobody did.
	Actor  string `json:"actor"`
	Reason string `json:"reason"`
}

// Concerns says whether an answer about the subject may rest on the event.
func Concerns(subject string, r *events.Record) bool {
	switch r.Chain.Kind() {
	case events.OfWorker, events.OfFleet:
		return true
	default:
		id := string(r.Chain.Server())
		return id == subject || mayBeOf(subject, events.ServerID(id))
	}
}

// mayBeOf says whether the name of a tool can be that of a server: names begin
// with the server's id, unless even that was cut.
func mayBeOf(name string, id events.ServerID) bool {
	const kept = 40 // less than what is kept of a name that is cut
	prefix := string(id) + "__"
	return strings.HasPrefix(name, prefix[:min(len(prefix), kept)])
}

// Why answers a question. There always is an answer: of what the fleet does not
// know, it says that.
func Why(q *Question) *Answer {
	t := newTeller(q)
	if s := q.History.Server(events.ServerID(q.Subject)); s != nil {
		return t.server(s)
	}
	if w := q.History.Worker(events.WorkerID(q.Subject)); w != nil {
		return t.worker(w)
	}
	for s := range q.History.Servers() {
		if !mayBeOf(q.Subject, s.ID) {
			continue
		}
		if a := t.tool(s); a != nil {
			return a
		}
	}
	return t.unknown()
}

// teller looks things up in the events of a question.
type teller struct {
	*Question
	byID   map[string]*events.Record
	chains map[events.Chain][]*events.Record
}

func newTeller(q *Question) *teller {
	t := &teller{Question: q, byID: make(map[string]*events.Record), chains: make(map[events.Chain][]*events.Record)}
	for i := range q.Records {
		r := &q.Records[i]
		t.byID[string(r.ID)] = r
		t.chains[r.Chain] = append(t.chains[r.Chain], r)
	}
	return t
}

// at returns the event of a chain at a sequence, or nil.
func (t *teller) at(c events.Chain, seq events.Seq) *events.Record {
	for _, r := range t.chains[c] {
		if r.Seq == seq {
			return r
		}
	}
	return nil
}

// before returns the last event of a chain before a sequence of which that holds,
// or nil.
func (t *teller) before(c events.Chain, seq events.Seq, that func(*events.Record) bool) *events.Record {
	for _, r := range slices.Backward(t.chains[c]) {
		if r.Seq < seq && that(r) {
			return r
		}
	}
	return nil
}

// answer is an answer whose steps begin with an event, which may be nil.
func (t *teller) answer(kind, state, summary string, first *events.Record) *Answer {
	a := &Answer{Subject: t.Subject, Kind: kind, State: state, Summary: summary, Because: []Step{}}
	t.trace(a, first)
	return a
}

// trace adds an event and what led to it.
func (t *teller) trace(a *Answer, r *events.Record) {
	for ; r != nil && !a.has(r.Seq); r = t.ledTo(r) {
		a.Because = append(a.Because, t.step(r))
	}
}

// add adds an event on its own.
func (t *teller) add(a *Answer, r *events.Record) {
	if r != nil && !a.has(r.Seq) {
		a.Because = append(a.Because, t.step(r))
	}
}

func (a *Answer) has(seq events.Seq) bool {
	for i := range a.Because {
		if a.Because[i].Seq == seq {
			return true
		}
	}
	return false
}

// planner is the actor of what a controller decides by itself.
const planner = "system:plan"

func (t *teller) step(r *events.Record) Step {
	s := Step{Seq: r.Seq, Time: r.Time, Kind: r.Kind(), Chain: r.Chain.String(), Text: t.words(r), Reason: r.Reason}
	if r.Actor != planner {
		s.Actor = r.Actor
	}
	return s
}

// ledTo returns the event that led to another one, or nil if that is where it
// began, or is not known.
func (t *teller) ledTo(r *events.Record) *events.Record {
	cause := t.byID[r.Cause]
	if cause != nil && cause.Seq >= r.Seq {
		cause = nil // unreachable unless a history was made up
	}
	switch r.Body.(type) {
	case events.Parked, events.RestartScheduled, events.Connecting, events.Connected, events.ToolsListed, events.Restarted:
		// Whatever came last: a failure, or what was asked for since.
		if f := t.failureBefore(r); f != nil && (cause == nil || f.Seq > cause.Seq) {
			return f
		}
	case events.Assigned:
		if lost := t.before(r.Chain, r.Seq, anything); lost != nil && lost.Kind() == events.KindLost {
			return lost
		}
	default:
	}
	return cause
}

// failureBefore returns the failure that an event follows: of the same owner, and
// with no working connection between them.
func (t *teller) failureBefore(r *events.Record) *events.Record {
	found := t.before(r.Chain, r.Seq, func(x *events.Record) bool {
		switch x.Body.(type) {
		case events.Failed, events.AuthRequired, events.Assigned, events.ToolsListed, events.HasStopped:
			return true
		default:
			return false
		}
	})
	if found == nil || found.Kind() != events.KindFailed && found.Kind() != events.KindAuthRequired {
		return nil
	}
	return found
}

func anything(*events.Record) bool { return true }

// unknown is the answer about what the fleet does not know.
func (t *teller) unknown() *Answer {
	a := t.answer(IsUnknown, IsUnknown, "the fleet has no server, worker or tool of that name, and never had one", nil)
	for _, r := range t.chains[events.FleetChain()] {
		if b, ok := r.Body.(events.Rejected); ok && b.ID == t.Subject {
			a.Kind, a.State, a.Because = IsServer, string(projections.Rejected), nil
			a.Summary = "its definition was refused: " + problems(b.Reasons)
			a.Help = "correct what is named, and apply it again"
			t.trace(a, r)
		}
	}
	if a.Kind == IsUnknown {
		a.Help = "toolfleet apply -f FILE declares servers; toolfleet get servers names those there are"
	}
	return a
}
