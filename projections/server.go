package projections

import (
	"maps"
	"time"

	"github.com/toolfleet/toolfleet/events"
)

// Server is the fold of a definition's chain. A withdrawn server stays, without
// its definition, so that its place in the history and its requests are known.
type Server struct {
	ID events.ServerID `json:"id"`
	Progress

	// Definition is in force, unresolved; nil for a server that was withdrawn or
	// never declared. Digest is that of the definition.
	Definition *events.Definition `json:"definition,omitzero"`
	Digest     events.Digest      `json:"digest,omitzero"`
	// Enabled and Want are what was declared, updated or asked for last. A
	// disabled server does not run whatever Want is: see [Server.Wanted].
	Enabled bool        `json:"enabled,omitzero"`
	Want    events.Want `json:"want,omitzero"`
	// Withdrawn says that the fleet no longer has the server.
	Withdrawn bool `json:"withdrawn,omitzero"`

	// Generation is the last event that changed what should run or where;
	// Changed is its time, Actor and Reason are its own.
	Generation events.Seq `json:"generation,omitzero"`
	Changed    time.Time  `json:"changed,omitzero"`
	Actor      string     `json:"actor,omitzero"`
	Reason     string     `json:"reason,omitzero"`
	// Declared is when the fleet got the server.
	Declared time.Time `json:"declared,omitzero"`

	// Restart is the last restart-requested.
	Restart events.Seq `json:"restart,omitzero"`
	// Move is the last move-requested, until an update places the server
	// elsewhere or the server is withdrawn.
	Move *Move `json:"move,omitzero"`
	// Update is one that is neither settled nor rolled back.
	Update *Update `json:"update,omitzero"`
	// Rollback is how the last update ended, if it was rolled back.
	Rollback *Rollback `json:"rollback,omitzero"`
	// Rejection is a definition of this id that could not be accepted, until
	// another one is.
	Rejection *Rejection `json:"rejection,omitzero"`

	Requests Requests `json:"requests,omitempty"`
}

// Move is a wish for a server to run on a certain worker.
type Move struct {
	Worker events.WorkerID `json:"worker"`
	Seq    events.Seq      `json:"seq"`
}

// Update is a replacement of a definition that may be undone.
type Update struct {
	// Seq of the updated event.
	Seq  events.Seq `json:"seq"`
	Time time.Time  `json:"time,omitzero"`
	// From is the former definition, with its digest.
	From   *events.Definition `json:"from"`
	Digest events.Digest      `json:"digest"`
	// Request that asked for the update, if any.
	Request events.RequestID `json:"request,omitzero"`
}

// Rollback is an update that was undone.
type Rollback struct {
	// Seq of the update-rolled-back event; Updated is that of the update.
	Seq     events.Seq     `json:"seq"`
	Updated events.Seq     `json:"updated"`
	Time    time.Time      `json:"time,omitzero"`
	Failure events.Failure `json:"failure"`
}

// Exists says whether the fleet has the server.
func (s *Server) Exists() bool { return s.Definition != nil }

// Wanted returns the state that the server should be in.
func (s *Server) Wanted() events.Want {
	if s.Definition == nil || !s.Enabled || s.Want == events.Stopped {
		return events.Stopped
	}
	return events.Running
}

// EvolveServer folds the next event of a definition's chain.
func EvolveServer(s Server, r events.Record) Server {
	id := r.Chain.Server()
	if r.Chain.Kind() != events.OfServer || s.ID != "" && s.ID != id || !s.advance(&r) {
		return s
	}
	s.ID = id
	if s.unreadable(&r) {
		return s
	}
	s.Updated = when(&r)
	s.Requests = s.Requests.with(&r)
	s.fold(&r)
	return s
}

func (s *Server) fold(r *events.Record) {
	switch b := r.Body.(type) {
	case events.Declared:
		s.declare(r, &b.Definition)
	case events.Updated:
		s.update(r, &b)
	case events.UpdateSettled:
		s.Update = nil
	case events.UpdateRolledBack:
		s.rollBack(r, b.Failure)
	case events.Withdrawn:
		s.withdraw(r)
	case events.Rejected:
		n := newRejection(r, b)
		s.Rejection = &n
	default:
		if s.Definition != nil {
			s.foldWish(r)
		}
	}
}

// foldWish folds what is asked of a server that exists.
func (s *Server) foldWish(r *events.Record) {
	switch b := r.Body.(type) {
	case events.Enabled:
		s.Enabled = true
	case events.Disabled:
		s.Enabled = false
	case events.StartRequested:
		s.Want = events.Running
	case events.StopRequested:
		s.Want = events.Stopped
	case events.RestartRequested:
		s.Restart = r.Seq
	case events.MoveRequested:
		s.Move = &Move{Worker: b.Worker, Seq: r.Seq}
	default: // unreachable unless the catalogue got a kind that this fold lacks
		return
	}
	s.change(r)
}

// change notes the event as the one that decides what should run.
func (s *Server) change(r *events.Record) {
	s.Generation, s.Changed = r.Seq, when(r)
	s.Actor, s.Reason = text(r.Actor, maxName), text(r.Reason, maxMessage)
}

func (s *Server) declare(r *events.Record, d *events.Definition) {
	if s.Definition == nil {
		s.Declared = when(r)
	}
	s.Definition, s.Digest = d, d.Digest()
	s.Enabled, s.Want = !d.Disabled, wanted(d)
	s.Withdrawn, s.Update, s.Rollback, s.Rejection = false, nil, nil, nil
	s.change(r)
}

func (s *Server) update(r *events.Record, b *events.Updated) {
	s.Update = &Update{Seq: r.Seq, Time: when(r), From: &b.From, Digest: b.From.Digest(), Request: requestKey(r.Correlation)}
	if s.Definition == nil { // unreachable unless a controller updated what was not declared
		s.Declared = when(r)
	}
	s.replace(&b.From, &b.To)
	s.Withdrawn, s.Rollback, s.Rejection = false, nil, nil
	s.change(r)
}

// replace puts a definition in the place of another. What was asked for since
// the former one was declared stays, except where the two differ.
func (s *Server) replace(from, to *events.Definition) {
	if from.Disabled != to.Disabled {
		s.Enabled = !to.Disabled
	}
	if wanted(from) != wanted(to) {
		s.Want = wanted(to)
	}
	if !samePlacement(from.Placement, to.Placement) {
		s.Move = nil
	}
	s.Definition, s.Digest = to, to.Digest()
}

func (s *Server) rollBack(r *events.Record, f events.Failure) {
	if s.Update == nil || s.Definition == nil {
		return // settled, rolled back or withdrawn before
	}
	f.Message = text(f.Message, maxMessage)
	s.Rollback = &Rollback{Seq: r.Seq, Updated: s.Update.Seq, Time: when(r), Failure: f}
	s.replace(s.Definition, s.Update.From)
	s.Update = nil
	s.change(r)
}

func (s *Server) withdraw(r *events.Record) {
	s.Definition, s.Digest = nil, ""
	s.Enabled, s.Want, s.Withdrawn = false, "", true
	s.Move, s.Update, s.Rollback, s.Rejection = nil, nil, nil, nil
	s.Declared = time.Time{}
	s.change(r)
}

func wanted(d *events.Definition) events.Want {
	if d.Want == events.Stopped {
		return events.Stopped
	}
	return events.Running
}

func samePlacement(a, b *events.Placement) bool {
	var none events.Placement
	if a == nil {
		a = &none
	}
	if b == nil {
		b = &none
	}
	return a.Worker == b.Worker && a.Replicas == b.Replicas && maps.Equal(a.Labels, b.Labels)
}
