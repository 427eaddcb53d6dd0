// Package goal says what a server has to come to, and whether it did: the part of
// a command that waits.
package goal

import (
	"context"
	"fmt"
	"strings"

	"github.com/cockroachdb/errors"

	"github.com/toolfleet/toolfleet/cmd/internal/show"
	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/projections"
	"github.com/toolfleet/toolfleet/projections/kvview"
)

// Goal looks at a server; nil is one that the fleet does not have. It returns
// words when the goal is reached, an error when it will not be, and neither as
// long as it may be.
type Goal func(*projections.Status) (words string, err error)

// errGone is the error of a server that is not there any more.
var errGone = errors.New("the fleet does not have it any more")

// Ready is reached by a server that works and, if it was asked to begin anew by
// the event since, has done so. It is missed by one that began anew and failed, or
// that will not begin by itself. What an attempt from before the event comes to
// counts neither way.
func Ready(since events.Seq) Goal {
	return func(s *projections.Status) (string, error) {
		switch {
		case s == nil:
			return "", errGone
		case s.State.Working() && renewed(s, since):
			return works(s), nil
		default:
			return "", missed(s, since)
		}
	}
}

func works(s *projections.Status) string {
	return string(s.State) + ", " + show.Count(s.Tools, "tool")
}

// renewed says whether every instance that is to connect after the event has.
func renewed(s *projections.Status, since events.Seq) bool {
	for i := range s.Instances {
		if n := &s.Instances[i]; n.State.Owned() && n.Generation < since {
			return false
		}
	}
	return true
}

// missed returns why a server will not be ready.
func missed(s *projections.Status, since events.Seq) error {
	if f := failedSince(s, since); f != nil {
		return errors.WithHintf(told(string(s.State), s.ID, f), "toolfleet explain %s", f.Code)
	}
	switch s.State {
	case projections.Disabled:
		return errors.WithHintf(errors.New("it is disabled"), "toolfleet enable %s", s.ID)
	case projections.Stopped:
		if s.Want == events.Stopped {
			return errors.WithHintf(errors.New("it is stopped"), "toolfleet start %s", s.ID)
		}
	case projections.Rejected:
		return errors.New("its definition was rejected")
	case projections.AuthRequired, projections.Parked:
		if renewed(s, since) { // else it is about to begin anew
			return givenUp(s)
		}
	default:
	}
	return nil
}

// failedSince returns a failure of an attempt that began because of the event, or
// of the stop that has to come before that.
func failedSince(s *projections.Status, since events.Seq) *projections.Fault {
	for i := range s.Instances {
		n := &s.Instances[i]
		if f := n.Failure; since > 0 && f != nil && f.Seq > since && (n.Generation >= since || f.Code == events.StopHung) {
			return f
		}
	}
	return nil
}

// givenUp returns why a server that its worker gave up is not tried again.
func givenUp(s *projections.Status) error {
	if s.State == projections.AuthRequired {
		return errors.New("it waits for credentials")
	}
	for i := range s.Instances {
		if s.Instances[i].Next != nil {
			return nil // it is
		}
	}
	if s.Failure == nil {
		return nil // unreachable: what is parked failed
	}
	return errors.WithHintf(told("parked", s.ID, s.Failure), "toolfleet restart %s tries again", s.ID)
}

// told is a failure for people, with the last line that the server wrote to its
// stderr: that often names the cause.
func told(state string, id events.ServerID, f *projections.Fault) error {
	stderr := strings.TrimSpace(f.StderrTail)
	if stderr == "" {
		return errors.Newf("%s: %v", state, f.Failure)
	}
	last := stderr[strings.LastIndexByte(stderr, '\n')+1:]
	return errors.WithHintf(errors.Newf("%s: %v; its last words: %s", state, f.Failure, last), "toolfleet logs %s", id)
}

// Settled is reached by a server that is as the definition which the event put
// in force wants it: ready, or stopped. It is missed by one whose update was
// rolled back.
func Settled(since events.Seq) Goal {
	return func(s *projections.Status) (string, error) {
		switch {
		case s == nil:
			return "", errGone
		case s.Rollback != nil && s.Rollback.Updated == since:
			return "", errors.Newf("the former definition is back: %v", s.Rollback.Failure)
		case s.Want == events.Stopped:
			return Stopped(s)
		case s.State.Working() && !s.Updating && connected(s):
			return works(s), nil // a change of labels, say, needs no new connection
		default:
			return Ready(since)(s)
		}
	}
}

// connected says whether the instances are connected by the definition in force,
// whatever event put it there.
func connected(s *projections.Status) bool {
	for i := range s.Instances {
		if n := &s.Instances[i]; n.State.Owned() && n.Definition != s.Definition {
			return false
		}
	}
	return true
}

// Stopped is reached by a server of which nothing runs.
func Stopped(s *projections.Status) (string, error) {
	switch {
	case s == nil:
		return "", errGone
	case s.State == projections.Stopped, s.State == projections.Disabled, s.State == projections.Rejected:
		return string(s.State), nil
	case s.State == projections.Failed && s.Failure != nil && s.Failure.Code == events.StopHung:
		return "", errors.WithHintf(errors.Newf("%v", s.Failure.Failure), "toolfleet explain %s", events.StopHung)
	default:
		return "", nil
	}
}

// Gone is reached by a server that the fleet does not have, and of which nothing
// runs.
func Gone(s *projections.Status) (string, error) {
	if s == nil || s.State == projections.Withdrawn {
		return "gone", nil
	}
	return "", nil
}

// Await waits until a server reaches a goal or misses it. When the context ends
// first, the error tells what the server is then. The reader must be running.
func Await(ctx context.Context, r *kvview.Reader, id events.ServerID, reached Goal) (string, error) {
	changes := r.Changes()
	defer r.Forget(changes)
	for {
		var now *projections.Status
		if s, ok := r.Status(id); ok && (s.State != projections.Withdrawn || len(s.Instances) > 0) {
			now = &s
		}
		if words, err := reached(now); words != "" || err != nil {
			return words, err
		}
		select {
		case <-changes:
		case <-ctx.Done():
			return "", errors.Wrap(ctx.Err(), still(now))
		}
	}
}

func still(s *projections.Status) string {
	if s == nil {
		return "the fleet does not have it yet"
	}
	if s.Failure != nil {
		return fmt.Sprintf("it is %s, after %v", s.State, s.Failure.Failure)
	}
	return fmt.Sprintf("it is %s", s.State)
}
