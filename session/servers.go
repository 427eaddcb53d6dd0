package session

import (
	"context"
	"iter"
	"time"

	"github.com/cockroachdb/errors"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/projections"
)

// Servers returns the servers that the session sees, in the order of their ids:
// each with its state and, if it does not work, why.
func (s *Session) Servers() []projections.Status {
	var list []projections.Status
	v := viewpoint{project: s.options.Project}
	for server := range v.visible(s.fleet) {
		list = append(list, projections.NewStatus(server, s.fleet.InstancesOf(server.ID)))
	}
	return list
}

// Pending returns the servers that are starting and whose tools nobody knows:
// the list lacks them.
func (s *Session) Pending() []events.ServerID {
	return s.starting(func(n *projections.Status) bool { return n.Tools == 0 })
}

// Wait returns nil as soon as the session has seen the fleet's history up to a
// position, such as that of a request's answer; else the context's error.
func (s *Session) Wait(ctx context.Context, seq events.Seq) error {
	for {
		now, moved := s.load()
		if now.seq >= seq {
			return nil
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return errors.Wrapf(ctx.Err(), "wait for event %d", seq)
		}
	}
}

// starting returns the servers that should work, do not yet, and of which that
// holds.
func (s *Session) starting(that func(*projections.Status) bool) (ids []events.ServerID) {
	for _, n := range s.Servers() {
		if n.Status == projections.IsConnecting && that(&n) {
			ids = append(ids, n.ID)
		}
	}
	return ids
}

// gate waits for servers that are starting, as the options say.
func (s *Session) gate(ctx context.Context) error {
	every := func(*projections.Status) bool { return true }
	if err := s.until(ctx, s.options.Wait, func() bool { return s.satisfied() || len(s.starting(every)) == 0 }); err != nil {
		return err
	}
	return s.until(ctx, s.options.StartupWait, func() bool { return s.satisfied() || len(s.Pending()) == 0 })
}

// satisfied says whether the session offers the tools that it was opened for.
func (s *Session) satisfied() bool {
	now, _ := s.load()
	for _, name := range s.options.Need {
		if _, ok := now.catalogue.find(name); !ok {
			return false
		}
	}
	return len(s.options.Need) > 0
}

// until waits until something holds, or the limit has passed; its error is that
// of a context that ended before.
func (s *Session) until(ctx context.Context, limit time.Duration, holds func() bool) error {
	if limit <= 0 {
		return nil
	}
	over := time.NewTimer(limit)
	defer over.Stop()
	for {
		_, moved := s.load()
		if holds() {
			return nil
		}
		select {
		case <-moved:
		case <-over.C:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// none is a fleet that has nothing.
type none struct{}

func (none) Servers() iter.Seq[*projections.Server] { return func(func(*projections.Server) bool) {} }

func (none) Server(events.ServerID) *projections.Server { return nil }

func (none) InstancesOf(events.ServerID) iter.Seq[*projections.Instance] {
	return func(func(*projections.Instance) bool) {}
}

func (none) Instance(events.ServerID, events.InstanceID) *projections.Instance { return nil }

func (none) Tools(events.ServerID, events.InstanceID) ([]jsontext.Value, events.Digest, bool) {
	return nil, "", false
}
