package session

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/errors"

	"github.com/toolfleet/toolfleet/events"
)

// R14
func TestGate(t *testing.T) {
	starting := func(f *scene) { f.declare("git") }
	known := func(f *scene) {
		f.declare("git")
		f.ready("git", "0", "w", "log")
		f.connecting("git", "0", "w2")
	}
	failed := func(f *scene) {
		f.declare("git")
		f.connecting("git", "0", "w")
		failure := events.NewFailure(events.CommandNotFound, events.PhaseSpawn, "")
		f.tell(events.InstanceChain("git", "0"), events.Failed{Failure: failure}, events.Parked{Failure: failure})
	}
	again := func(f *scene) {
		f.declare("git")
		f.connecting("git", "0", "w")
		f.tell(events.InstanceChain("git", "0"), events.Failed{Failure: events.NewFailure(events.StartupCrash, events.PhaseSpawn, "")},
			events.RestartScheduled{}, events.Connecting{Attempt: 2, Definition: f.Server("git").Digest})
	}
	const readyAfter = 5 * time.Second
	for _, tt := range []struct {
		name    string
		before  func(*scene)
		options Options
		waits   time.Duration
	}{
		{"nothing to wait for", func(*scene) {}, Options{}, 0},
		{"a server that is starting", starting, Options{}, DefaultWait},
		{"not at all", starting, Options{Wait: -1}, 0},
		{"a server that failed", failed, Options{StartupWait: time.Minute}, 0},
		{"a server that failed and is tried again", again, Options{StartupWait: time.Minute}, DefaultWait},
		{"a server whose tools are known", known, Options{StartupWait: time.Minute}, DefaultWait},
		{"a server whose tools nobody knows", starting, Options{StartupWait: time.Minute}, readyAfter},
		{"not for others than the needed", func(f *scene) { known(f); f.declare("db") }, Options{StartupWait: time.Minute, Need: []string{"git__log"}}, 0},
		{"for the needed", starting, Options{StartupWait: time.Minute, Need: []string{"git__log"}}, readyAfter},
		{
			"not for one that no worker may take", func(f *scene) { f.declare("git"); time.Sleep(placeWithin + time.Second) },
			Options{StartupWait: time.Minute},
			0,
		},
		{"not for ever", starting, Options{Wait: -1, StartupWait: time.Second}, time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newScene(t)
				tt.before(f)
				s := attend(t, f, &owners{})
				s.options.Wait, s.options.StartupWait = tt.options.withDefaults().Wait, tt.options.StartupWait
				s.options.Need = tt.options.Need
				waited := make(chan time.Duration, 1)
				begun := time.Now()
				go func() {
					if err := s.gate(t.Context()); err != nil {
						t.Error(err)
					}
					waited <- time.Since(begun)
				}()
				time.Sleep(readyAfter)
				if f.Server("git") != nil && f.Instance("git", "0") == nil {
					f.ready("git", "0", "w", "log")
				}
				if d := <-waited; d != tt.waits {
					t.Errorf("waited %v, want %v", d, tt.waits)
				}
			})
		})
	}
}

func TestGateEndsWithItsContext(t *testing.T) {
	bubble(t, func(t *testing.T, _ *scene, _ *owners, s *Session) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if err := s.gate(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		if got := s.Pending(); len(got) != 1 || got[0] != "git" {
			t.Errorf("pending: %v", got)
		}
	})
}
