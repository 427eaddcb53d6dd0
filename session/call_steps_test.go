package session

import (
	"context"
	"testing"
	"time"

	"github.com/cockroachdb/errors"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"

	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/events/callwire"
)

// R15, R20: an abort ends a call at once, whatever it waits for, and stays one.
func TestAbortWins(t *testing.T) {
	crash := events.Failed{Failure: events.NewFailure(events.StartupCrash, events.PhaseSpawn, "")}
	chain := events.InstanceChain("git", "0")
	for _, tt := range []struct {
		name string
		// before and after happen before and after the call begins.
		before, after func(*scene, *owners)
		sent          int
	}{
		{"pending connection", func(f *scene, _ *owners) { f.connecting("git", "0", "w2") }, func(*scene, *owners) {}, 0},
		{"reconnect", func(f *scene, _ *owners) { f.connecting("git", "0", "w2") }, func(f *scene, _ *owners) {
			f.tell(chain, crash, events.RestartScheduled{}, events.Connecting{Attempt: 2, Definition: f.Server("git").Digest})
		}, 0},
		{"nobody responds", func(*scene, *owners) {}, func(*scene, *owners) {}, 1},
		{"another owner", func(*scene, *owners) {}, func(f *scene, _ *owners) { f.connecting("git", "0", "w2") }, 1},
		{"in flight", func(_ *scene, o *owners) {
			o.set(epoch1, func(ctx context.Context, _ *callwire.Request) ([]byte, error) {
				<-ctx.Done()
				return nil, &callwire.Error{Outcome: callwire.Unknown}
			})
		}, func(*scene, *owners) {}, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, f *scene, o *owners, s *Session) {
				f.ready("git", "0", "w", "log")
				tt.before(f, o)
				ctx, cancel := context.WithCancel(t.Context())
				done := waiting(func() error {
					_, err := s.Call(ctx, "git__log", nil, nil)
					return err
				})
				tt.after(f, o)
				going(t, done)
				begun := time.Now()
				cancel()
				if err := <-done; !errors.Is(err, ErrCancelled) || errors.IsAny(err, ErrNotExecuted, ErrUnknownOutcome) {
					t.Errorf("got %v, want cancelled alone", err)
				}
				if d := time.Since(begun); d != 0 {
					t.Errorf("it ended %v later", d)
				}
				if n := len(o.calls()); n != tt.sent {
					t.Errorf("sent %d times, want %d", n, tt.sent)
				}
			})
		})
	}
}

// R21: time that ends while nobody takes the call means that nobody executed
// it; after it was sent, nobody knows.
func TestOutOfTime(t *testing.T) {
	bubble(t, func(t *testing.T, f *scene, o *owners, s *Session) {
		f.ready("git", "0", "w", "log")
		call := func() error {
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
			defer cancel()
			_, err := s.Call(ctx, "git__log", nil, nil)
			return err
		}
		begun := time.Now()
		if err := call(); !errors.Is(err, ErrNotExecuted) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("nobody responds: %v", err)
		}
		if d := time.Since(begun); d != 3*time.Second {
			t.Errorf("it took %v", d)
		}
		o.set(epoch1, func(ctx context.Context, _ *callwire.Request) ([]byte, error) {
			<-ctx.Done()
			return nil, &callwire.Error{Outcome: callwire.Unknown}
		})
		if err := call(); !errors.Is(err, ErrUnknownOutcome) || errors.Is(err, ErrNotExecuted) {
			t.Errorf("in flight: %v", err)
		}
	})
}

// A call is told what its server says before the answer.
func TestProgress(t *testing.T) {
	bubble(t, func(t *testing.T, f *scene, o *owners, s *Session) {
		f.ready("git", "0", "w", "log")
		o.set(epoch1, says(fine))
		o.before = []*callwire.Frame{
			{Kind: callwire.Progress, Data: []byte(`{"progress":1,"total":2.0}`)},
			{Kind: callwire.Log, Data: []byte(`{"level":"info","data":"half"}`)},
			{Kind: callwire.Progress, Data: []byte(`{"progress":2,"total":2.0}`)},
		}
		var got []string
		heard := func(kind string) func(jsontext.Value) {
			return func(v jsontext.Value) { got = append(got, kind+" "+string(v)) }
		}
		if _, err := s.Call(t.Context(), "git__log", nil, &CallOptions{Progress: heard("progress"), Log: heard("log")}); err != nil {
			t.Fatal(err)
		}
		want := []string{`progress {"progress":1,"total":2.0}`, `log {"level":"info","data":"half"}`, `progress {"progress":2,"total":2.0}`}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("heard (-want +got):\n%s", diff)
		}
		if _, err := s.Call(t.Context(), "git__log", nil, &CallOptions{Log: heard("log")}); err != nil || len(got) != 4 {
			t.Errorf("with one of them: %v, %v", err, got)
		}
	})
}

// case H8: a tool that is gone is unknown, and nothing is sent.
func TestCallOfARemovedTool(t *testing.T) {
	bubble(t, func(t *testing.T, f *scene, o *owners, s *Session) {
		f.ready("git", "0", "w", "log", "blame")
		o.set(epoch1, says(fine))
		f.list("git", "0", "log")
		_, err := s.Call(t.Context(), "git__blame", nil, nil)
		if !errors.Is(err, ErrUnknownTool) || err.Error() != `unknown tool "git__blame" as of event `+f.seq.String() {
			t.Errorf("got %v", err)
		}
		if len(o.calls()) != 0 {
			t.Errorf("sent %v", o.calls())
		}
	})
}

// case L6: a tool of a server that does not run is no unknown one.
func TestCallOfAToolThatIsNotOffered(t *testing.T) {
	crash := events.NewFailure(events.StartupCrash, events.PhaseSpawn, "it broke")
	for _, tt := range []struct {
		name   string
		happen func(*scene)
		text   string
	}{
		{"parked", func(f *scene) {
			f.tell(events.InstanceChain("git", "0"), events.Failed{Failure: crash}, events.Parked{Failure: crash})
		}, "call log of server git: not executed: the server is parked: it broke"},
		{"disabled", func(f *scene) {
			f.tell(events.ServerChain("git"), events.Disabled{})
			f.tell(events.InstanceChain("git", "0"), events.HasStopped{})
		}, "call log of server git: not executed: the server is disabled"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, f *scene, o *owners, s *Session) {
				f.ready("git", "0", "w", "log")
				tt.happen(f)
				if tools, _ := s.Tools(); len(tools) != 0 {
					t.Fatalf("offered: %v", tools)
				}
				begun := time.Now()
				_, err := s.Call(t.Context(), "git__log", nil, nil)
				if !errors.Is(err, ErrNotExecuted) || err.Error() != tt.text {
					t.Errorf("got %v, want %s", err, tt.text)
				}
				if _, err := s.Call(t.Context(), "git__blame", nil, nil); !errors.Is(err, ErrUnknownTool) {
					t.Errorf("another name: %v", err)
				}
				if time.Since(begun) != 0 || len(o.calls()) != 0 {
					t.Errorf("it waited %v and sent %v", time.Since(begun), o.calls())
				}
			})
		})
	}
}

// R17: what a server listed for another definition is not known.
func TestCallOfAToolOfAnotherDefinition(t *testing.T) {
	bubble(t, func(t *testing.T, f *scene, _ *owners, s *Session) {
		f.ready("git", "0", "w", "log")
		f.tell(events.ServerChain("git"), events.Updated{To: events.Definition{Command: "another"}}, events.Disabled{})
		f.tell(events.InstanceChain("git", "0"), events.HasStopped{})
		if _, err := s.Call(t.Context(), "git__log", nil, nil); !errors.Is(err, ErrUnknownTool) {
			t.Errorf("got %v", err)
		}
	})
}
