package session

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/projections"
)

// R9, R25
func TestStatus(t *testing.T) {
	bubble(t, func(t *testing.T, f *scene, _ *owners, s *Session) {
		f.declare("db")
		f.ready("db", "0", "w", "query")
		f.connecting("git", "0", "w")
		failure := events.NewFailure(events.CommandNotFound, events.PhaseSpawn, "git-mcp is not on the PATH")
		f.tell(events.InstanceChain("git", "0"), events.Failed{Failure: failure}, events.Parked{Failure: failure})
		n := s.Status()
		if len(n.Servers) != 2 || n.AsOf.Seq != f.seq {
			t.Fatalf("got %+v", n)
		}
		if db := n.Servers[0]; db.ID != "db" || db.State != projections.Ready || db.Status != "connected" || db.Failure != nil || len(db.Instances) != 1 {
			t.Errorf("db: %+v", db)
		}
		git := n.Servers[1]
		if git.State != projections.Parked || git.Status != "disconnected" || git.Failure == nil || git.Failure.Failure != failure {
			t.Errorf("git: %+v", git)
		}
	})
}

// R22: what a session tells is of one moment, and stays what it was for a step
// that goes on with it.
func TestStatusIsOfOneMoment(t *testing.T) {
	bubble(t, func(t *testing.T, f *scene, _ *owners, s *Session) {
		f.ready("git", "0", "w", "log")
		told := f.told
		f.told = nil // the session sees nothing for a while
		f.tell(events.InstanceChain("git", "0"), events.Failed{Failure: events.NewFailure(events.Killed, events.PhaseRun, "")})
		before := s.Status()
		if tools, seq := s.Tools(); seq != before.AsOf.Seq || !cmp.Equal(tools, before.Tools) {
			t.Errorf("tools as of %d, status as of %d", seq, before.AsOf.Seq)
		}
		state := func(n Status) string { return string(n.Servers[0].State) + " " + string(n.Tools[0].State) }
		if got := state(before); got != "ready live" {
			t.Errorf("before: %s", got)
		}
		told()
		if got := state(s.Status()); got != "failed stale" {
			t.Errorf("after: %s", got)
		}
		if got := state(before); got != "ready live" {
			t.Errorf("what was returned before is now %s", got)
		}
	})
}

// R9
func TestFailuresAreTold(t *testing.T) {
	bubble(t, func(t *testing.T, f *scene, _ *owners, s *Session) {
		var log bytes.Buffer
		s.options.Logger = slog.New(slog.NewTextHandler(&log, nil))
		lines := func() int { return strings.Count(log.String(), "\n") }
		signalled := func() bool {
			select {
			case <-s.Changes():
				return true
			default:
				return false
			}
		}
		chain := events.InstanceChain("git", "0")
		fail := func(code events.Code) {
			f.tell(chain, events.Failed{Failure: events.NewFailure(code, events.PhaseSpawn, "attempt "+f.seq.String())},
				events.RestartScheduled{}, events.Connecting{Attempt: 2, Definition: f.Server("git").Digest})
		}
		f.connecting("git", "0", "w")
		fail(events.StartupCrash)
		if lines() != 0 {
			t.Errorf("Open returns this failure, and it was logged: %s", &log)
		}
		signalled()
		s.opened = true
		fail(events.StartupCrash)
		if lines() != 0 || signalled() {
			t.Errorf("the same failure is news: %s", &log)
		}
		f.list("git", "0", "log")
		if !signalled() {
			t.Error("nobody was told that the server works")
		}
		fail(events.StartupCrash)
		fail(events.StartupCrash)
		if lines() != 1 || !signalled() || !strings.Contains(log.String(), "server=git") || !strings.Contains(log.String(), "startup_crash") {
			t.Errorf("want one line and a signal, got %s", &log)
		}
		fail(events.CommandNotFound)
		if lines() != 2 || !signalled() {
			t.Errorf("want another line for another failure, got %s", &log)
		}
	})
}
