package session

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/errors"

	"github.com/toolfleet/toolfleet/events"
)

// waiting returns what a wait ends with.
func waiting(wait func() error) <-chan error {
	done := make(chan error, 1)
	go func() { done <- wait() }()
	synctest.Wait()
	return done
}

func going(t *testing.T, done <-chan error) {
	t.Helper()
	synctest.Wait()
	select {
	case err := <-done:
		t.Fatalf("the wait has ended: %v", err)
	default:
	}
}

// R24
func TestWaitReady(t *testing.T) {
	bubble(t, func(t *testing.T, f *scene, _ *owners, s *Session) {
		f.declare("db")
		chain := events.InstanceChain("git", "0")
		git := waiting(func() error { return s.WaitReady(t.Context(), "git") })
		all := waiting(func() error { return s.WaitReady(t.Context()) })
		f.connecting("git", "0", "w")
		f.tell(chain, events.Failed{Failure: events.NewFailure(events.StartupCrash, events.PhaseSpawn, "")}, events.RestartScheduled{},
			events.Connecting{Attempt: 2, Definition: f.Server("git").Digest}, events.Connected{})
		going(t, git) // the handshake is not enough
		f.list("git", "0", "log")
		if err := <-git; err != nil {
			t.Errorf("git: %v", err)
		}
		going(t, all)
		f.ready("db", "0", "w")
		if err := <-all; err != nil {
			t.Errorf("all: %v", err)
		}
	})
}

// R24: a server that will not be ready ends the wait, with its reason.
func TestWaitReadyEndsEarly(t *testing.T) {
	crash := events.NewFailure(events.CommandNotFound, events.PhaseSpawn, "git-mcp is not on the PATH")
	for _, tt := range []struct {
		name   string
		happen func(*scene)
		id     events.ServerID
		is     error
		text   string
	}{
		{"disabled", func(f *scene) { f.tell(events.ServerChain("git"), events.Disabled{}) }, "git", nil, "server git is disabled"},
		{"stopped", func(f *scene) { f.tell(events.ServerChain("git"), events.StopRequested{}) }, "git", nil, "server git is stopped"},
		{"parked", func(f *scene) {
			f.connecting("git", "0", "w")
			f.tell(events.InstanceChain("git", "0"), events.Failed{Failure: crash}, events.Parked{Failure: crash})
		}, "git", crash, "server git is parked: command_not_found (spawn): git-mcp is not on the PATH"},
		{"withdrawn", func(f *scene) { f.tell(events.ServerChain("git"), events.Withdrawn{}) }, "git", ErrUnknownServer, "the session sees no server git"},
		{"unknown", func(*scene) {}, "gti", ErrUnknownServer, "the session sees no server gti"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, f *scene, _ *owners, s *Session) {
				done := waiting(func() error { return s.WaitReady(t.Context(), tt.id) })
				if tt.id == "git" {
					going(t, done)
				}
				tt.happen(f)
				err := <-done
				if err == nil || err.Error() != tt.text || tt.is != nil && !errors.Is(err, tt.is) {
					t.Errorf("got %v, want %s", err, tt.text)
				}
				var e *ServerError
				if known := !errors.Is(err, ErrUnknownServer); errors.As(err, &e) != known || known && e.Server != "git" {
					t.Errorf("got a %T", err)
				}
			})
		})
	}
}

func TestWaitReadyForServersThatRun(t *testing.T) {
	bubble(t, func(t *testing.T, f *scene, _ *owners, s *Session) {
		f.declare("db")
		f.ready("db", "0", "w", "query")
		f.tell(events.ServerChain("git"), events.Disabled{})
		if err := s.WaitReady(t.Context()); err != nil {
			t.Errorf("a server that should not run: %v", err)
		}
		// An update stops before it starts.
		f.tell(events.InstanceChain("db", "0"), events.Stopping{})
		done := waiting(func() error { return s.WaitReady(t.Context(), "db") })
		f.tell(events.InstanceChain("db", "0"), events.HasStopped{}, events.Released{})
		going(t, done)
		f.ready("db", "0", "w", "query")
		if err := <-done; err != nil {
			t.Errorf("an update: %v", err)
		}
	})
}

// A wait that its caller ends names what was missing.
func TestWaitsEndWithTheirContext(t *testing.T) {
	bubble(t, func(t *testing.T, f *scene, _ *owners, s *Session) {
		f.declare("bad")
		f.tell(events.ServerChain("bad"), events.Disabled{})
		f.connecting("git", "0", "w")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		err := s.WaitReady(ctx, "git", "bad")
		want := "server bad is disabled\nwait for server git, which is connecting: context deadline exceeded"
		if !errors.Is(err, context.DeadlineExceeded) || err.Error() != want {
			t.Errorf("got %v", err)
		}
		if err := s.Wait(ctx, f.seq+1); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Wait: %v", err)
		}
	})
}

func TestWaitsEndWithTheSession(t *testing.T) {
	bubble(t, func(t *testing.T, f *scene, _ *owners, s *Session) {
		event := waiting(func() error { return s.Wait(t.Context(), f.seq+1) })
		ready := waiting(func() error { return s.WaitReady(t.Context(), "git") })
		s.Close()
		for _, err := range []error{<-event, <-ready} {
			if !errors.Is(err, errClosed) {
				t.Errorf("got %v", err)
			}
		}
		if err := s.Wait(t.Context(), f.seq); err != nil {
			t.Errorf("for what was seen before: %v", err)
		}
	})
}
