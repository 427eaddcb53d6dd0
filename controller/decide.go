package controller

import (
	"bytes"
	"slices"

	"github.com/cockroachdb/errors"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/toolfleet/toolfleet/controller/request"
	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/projections"
)

// rule says how the requests of a verb are decided about a server that the
// fleet has.
type rule struct {
	// refuse returns why the request cannot be granted, or nil.
	refuse func(*projections.History, *projections.Server, *request.Request) error
	// done says that the server is as the request asks for already.
	done func(*projections.History, *projections.Server, *request.Request) bool
	// event is what the request causes.
	event func(*projections.Server, *request.Request) events.Body
	// thawed says that the request is refused while the fleet is frozen.
	thawed bool
}

var rules = map[request.Verb]rule{
	request.Declare:  {never, isDeclared, declared, true},
	request.Withdraw: {never, notYet, always(events.Withdrawn{}), true},
	request.Enable:   {never, isEnabled, always(events.Enabled{}), true},
	request.Disable:  {never, isDisabled, always(events.Disabled{}), false},
	request.Start:    {ifDisabled, wants(events.Running), always(events.StartRequested{}), true},
	request.Stop:     {never, wants(events.Stopped), always(events.StopRequested{}), false},
	request.Restart:  {ifNotRunning, notYet, always(events.RestartRequested{}), true},
	request.Move:     {ifItDoesNotFit, isThere, moved, true},
}

// decide returns the events that a request causes, all on the chain that
// [chainOf] names, and the answer that goes with them: its Seq is to be set to
// that of the last event, if there is one. An error is the answer as well; one
// with events is a rejection that has to be written down. Errors are
// [*request.Error]s.
func decide(h *projections.History, q *request.Request) ([]events.Event, request.Answer, error) {
	answered, answer, err := repeated(h, q)
	if answered || err != nil {
		return nil, answer, err
	}
	switch q.Verb.Object() {
	case request.Worker:
		return decideWorker(h, q)
	case request.Fleet:
		return decideFleet(h, q)
	default:
		return decideServer(h, q)
	}
}

func decideServer(h *projections.History, q *request.Request) ([]events.Event, request.Answer, error) {
	if problems := problemsOf(q); len(problems) > 0 {
		e, err := reject(h, q, problems)
		return e, request.Answer{}, err
	}
	id := events.ServerID(q.Server)
	s := h.Server(id)
	if s == nil {
		s = &projections.Server{ID: id}
	}
	r := rules[q.Verb]
	switch {
	case !s.Exists() && q.Verb != request.Declare:
		return nil, request.Answer{}, request.Errorf(request.UnknownServer, "the fleet has no server %q", q.Server)
	case s.Exists():
		if err := r.refuse(h, s, q); err != nil {
			return nil, request.Answer{}, err
		}
		if r.done(h, s, q) {
			return nil, request.Answer{Seq: s.Generation, Unchanged: true}, nil
		}
	}
	if r.thawed {
		if err := ifFrozen(h); err != nil {
			return nil, request.Answer{}, err
		}
	}
	return []events.Event{eventOf(q, r.event(s, q))}, request.Answer{}, nil
}

// chainOf returns the chain that a request is decided on: that of what it is
// about, or the fleet's where the id cannot be one.
func chainOf(q *request.Request) events.Chain {
	switch q.Verb.Object() {
	case request.Worker:
		if id, err := events.ParseWorkerID(q.Worker); err == nil {
			return events.WorkerChain(id)
		}
	case request.Server:
		if id, err := events.ParseServerID(q.Server); err == nil {
			return events.ServerChain(id)
		}
	case request.Fleet:
	}
	return events.FleetChain()
}

// repeated answers a request whose id the chain remembers.
func repeated(h *projections.History, q *request.Request) (answered bool, a request.Answer, err error) {
	requests := requestsOf(h, chainOf(q))
	i := slices.IndexFunc(requests, func(r projections.Request) bool { return r.ID == q.ID })
	if i < 0 {
		return false, request.Answer{}, nil
	}
	r := requests[i]
	// Of a rejection the chain does not remember what was asked: a request that
	// would be rejected now is taken for the same.
	if problems := problemsOf(q); r.Asked == "" && len(problems) > 0 {
		return true, request.Answer{}, rejection(q, problems, r.Seq)
	}
	if r.Asked != asked(q) {
		return true, request.Answer{}, request.Errorf(request.RequestReused,
			"request %q was used for something else: choose another id", q.ID)
	}
	return true, request.Answer{Seq: r.Seq, Repeated: true}, nil
}

func requestsOf(h *projections.History, c events.Chain) projections.Requests {
	switch {
	case c.Kind() == events.OfFleet:
		return h.Fleet().Requests
	case c.Kind() == events.OfServer && h.Server(c.Server()) != nil:
		return h.Server(c.Server()).Requests
	case c.Kind() == events.OfWorker && h.Worker(c.Worker()) != nil:
		return h.Worker(c.Worker()).Requests
	default:
		return nil
	}
}

// asked returns the digest of what a request asks for, as the fold of its
// events has it.
func asked(q *request.Request) events.Digest {
	switch {
	case q.Verb == request.Declare:
		return projections.Asked(events.Declared{Definition: *q.Definition})
	case q.Verb.Object() == request.Server:
		return projections.Asked(rules[q.Verb].event(nil, q))
	default:
		return projections.Asked(wishes[q.Verb])
	}
}

func eventOf(q *request.Request, b events.Body) events.Event {
	return events.Event{Chain: chainOf(q), Body: b, Correlation: q.ID, Actor: q.Actor, Reason: q.Reason}
}

// problemsOf returns why a request can be granted in no state at all.
func problemsOf(q *request.Request) []events.Problem {
	if q.Verb.Object() != request.Server {
		return nil
	}
	if _, err := events.ParseServerID(q.Server); err != nil {
		return []events.Problem{{Code: events.InvalidID, Message: err.Error()}}
	}
	if q.Verb != request.Declare {
		return nil
	}
	var invalid *events.InvalidDefinitionError
	if errors.As(q.Definition.Validate(events.ServerID(q.Server)), &invalid) {
		return invalid.Problems
	}
	return nil
}

// reject answers a request with problems. A definition that cannot be accepted
// is written down, once for as long as nothing else happens to it.
func reject(h *projections.History, q *request.Request, problems []events.Problem) ([]events.Event, error) {
	if q.Verb != request.Declare {
		return nil, request.Errorf(request.UnknownServer, "the fleet has no server %q: %s", q.Server, problems[0].Message)
	}
	body := events.Rejected{ID: cut(q.Server, maxRejectedID), Reasons: problems, Source: q.Definition.Source}
	last := lastRejection(h, q)
	if last != nil && sameJSON(last.Source, body.Source) && sameJSON(last.Reasons, problems[:min(len(problems), reasonsKept)]) {
		return nil, rejection(q, problems, last.Seq)
	}
	return []events.Event{eventOf(q, body)}, rejection(q, problems, 0)
}

const (
	// maxRejectedID bounds what is kept of an id that was given, in bytes.
	maxRejectedID = 200
	// reasonsKept is how many reasons the fold of a rejection has.
	reasonsKept = 16
)

func lastRejection(h *projections.History, q *request.Request) *projections.Rejection {
	if id := chainOf(q).Server(); id != "" {
		if s := h.Server(id); s != nil {
			return s.Rejection
		}
		return nil
	}
	all := h.Fleet().Rejections
	for i := range all {
		if r := &all[len(all)-1-i]; r.ID == cut(q.Server, maxRejectedID) {
			return r
		}
	}
	return nil
}

func rejection(q *request.Request, problems []events.Problem, seq events.Seq) error {
	invalid := events.InvalidDefinitionError{Server: q.Server, Problems: problems}
	return &request.Error{Code: request.InvalidDefinition, Message: invalid.Error(), Problems: problems, Seq: seq}
}

func cut(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	for limit > 0 && s[limit]&0xC0 == 0x80 {
		limit-- // not inside a character
	}
	return s[:limit]
}

func never(*projections.History, *projections.Server, *request.Request) error { return nil }

func notYet(*projections.History, *projections.Server, *request.Request) bool { return false }

func always(b events.Body) func(*projections.Server, *request.Request) events.Body {
	return func(*projections.Server, *request.Request) events.Body { return b }
}

func isEnabled(_ *projections.History, s *projections.Server, _ *request.Request) bool {
	return s.Enabled
}

func isDisabled(_ *projections.History, s *projections.Server, _ *request.Request) bool {
	return !s.Enabled
}

func wants(w events.Want) func(*projections.History, *projections.Server, *request.Request) bool {
	return func(_ *projections.History, s *projections.Server, _ *request.Request) bool { return s.Want == w }
}

func ifDisabled(_ *projections.History, s *projections.Server, _ *request.Request) error {
	if s.Enabled {
		return nil
	}
	return request.Errorf(request.ServerDisabled, "server %q is disabled: enable it first", s.ID)
}

func ifNotRunning(h *projections.History, s *projections.Server, q *request.Request) error {
	if err := ifDisabled(h, s, q); err != nil {
		return err
	}
	if s.Want == events.Stopped {
		return request.Errorf(request.ServerStopped, "server %q is stopped: start it", s.ID)
	}
	return nil
}

func isDeclared(_ *projections.History, s *projections.Server, q *request.Request) bool {
	return sameDefinition(s.Definition, q.Definition)
}

// declared declares a server, or replaces the definition that it has.
func declared(s *projections.Server, q *request.Request) events.Body {
	if s.Exists() {
		return events.Updated{From: *s.Definition, To: *q.Definition}
	}
	return events.Declared{Definition: *q.Definition}
}

// sameDefinition says whether two definitions say the same. The line that they
// were found in is no part of it: it moves with whatever stands before it.
func sameDefinition(a, b *events.Definition) bool { return sameJSON(withoutLine(a), withoutLine(b)) }

func withoutLine(d *events.Definition) *events.Definition {
	if d.Source == nil {
		return d
	}
	c, source := *d, *d.Source
	source.Line = 0
	c.Source = &source
	return &c
}

func sameJSON(a, b any) bool {
	x, errA := canonical(a)
	y, errB := canonical(b)
	return errA == nil && errB == nil && bytes.Equal(x, y)
}

func canonical(v any) (jsontext.Value, error) {
	data, err := json.Marshal(v, json.Deterministic(true))
	if err != nil {
		return nil, err
	}
	c := jsontext.Value(data)
	err = c.Canonicalize()
	return c, err
}
