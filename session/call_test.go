package session

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/errors"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"

	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/events/callwire"
	"github.com/toolfleet/toolfleet/projections/kvview"
)

// owners answer calls by their subject; nobody else responds.
type owners struct {
	mu     sync.Mutex
	answer map[string]func(context.Context, *callwire.Request) ([]byte, error)
	log    []string
	// before comes before each answer.
	before []*callwire.Frame
}

func (o *owners) Call(ctx context.Context, subject string, r *callwire.Request, progress func(*callwire.Frame)) ([]byte, error) {
	o.mu.Lock()
	answer := o.answer[subject]
	if !r.CallsTool() {
		subject += " " + r.Method
	}
	o.log = append(o.log, fmt.Sprintf("%s %s %s", subject, r.Tool, r.Arguments))
	o.mu.Unlock()
	if answer == nil {
		return nil, &callwire.Error{Outcome: callwire.NotExecuted, Failure: events.NewFailure(events.ConnectionLost, events.PhaseRun, "no responders")}
	}
	for _, f := range o.before {
		progress(f)
	}
	return answer(ctx, r)
}

func (o *owners) set(subject string, answer func(context.Context, *callwire.Request) ([]byte, error)) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.answer == nil {
		o.answer = make(map[string]func(context.Context, *callwire.Request) ([]byte, error))
	}
	o.answer[subject] = answer
}

func (o *owners) calls() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return append([]string(nil), o.log...)
}

func says(text string) func(context.Context, *callwire.Request) ([]byte, error) {
	return func(context.Context, *callwire.Request) ([]byte, error) { return []byte(text), nil }
}

func ends(e callwire.Error) func(context.Context, *callwire.Request) ([]byte, error) {
	return func(context.Context, *callwire.Request) ([]byte, error) { return nil, &e }
}

const (
	epoch1 = "tf.call.default.git.0.1"
	epoch2 = "tf.call.default.git.0.2"
	fine   = `{"content":[],"x":1.0}`
)

// attend returns a session that sees each event of a scene at once.
func attend(t *testing.T, f *scene, b bus) *Session {
	t.Helper()
	return attendWith(t, f, b, &Options{ID: "s"})
}

func attendWith(t *testing.T, f *scene, b bus, o *Options) *Session {
	t.Helper()
	s := newSession(t.Context(), o.withDefaults())
	w := &window{}
	s.bus, s.fleet = b, w
	s.asOf = func() kvview.AsOf { return kvview.AsOf{Position: events.Position{Seq: w.now().seq}} }
	f.told = func() {
		w.show(f)
		s.refresh()
	}
	f.told()
	close(s.done)
	t.Cleanup(s.Close)
	return s
}

func bubble(t *testing.T, test func(t *testing.T, f *scene, o *owners, s *Session)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		f, o := newScene(t), &owners{}
		f.declare("git")
		s := attend(t, f, o)
		test(t, f, o, s)
	})
}

func TestCall(t *testing.T) {
	bubble(t, func(t *testing.T, f *scene, o *owners, s *Session) {
		f.ready("git", "0", "w", "log")
		o.set(epoch1, says(fine))
		r, err := s.Call(t.Context(), "git__log", []byte(` {"n": 10000000000000001 }`), nil)
		if err != nil || string(r.JSON) != fine || r.IsError {
			t.Errorf("got %v, %v", r, err)
		}
		want := []string{epoch1 + ` log  {"n": 10000000000000001 }`}
		if diff := cmp.Diff(want, o.calls()); diff != "" {
			t.Errorf("sent (-want +got):\n%s", diff)
		}
		// R20
		o.set(epoch1, says(`{"content":[{"type":"text","text":"no"}],"isError":true}`))
		if r, err = s.Call(t.Context(), "git__log", nil, nil); err != nil || !r.IsError {
			t.Errorf("a tool's own error: %v, %v", r, err)
		}
	})
}

func TestNothingIsSent(t *testing.T) {
	bubble(t, func(t *testing.T, f *scene, o *owners, s *Session) {
		f.ready("git", "0", "w", "log")
		for _, arguments := range []string{`[1]`, `"x"`, `{`, `{"a":1,"a":2}`, `{} {}`, `null`} {
			if _, err := s.Call(t.Context(), "git__log", []byte(arguments), nil); !errors.Is(err, ErrInvalidArguments) {
				t.Errorf("%s: %v", arguments, err)
			}
		}
		_, err := s.Call(t.Context(), "git__blame", nil, nil)
		if !errors.Is(err, ErrUnknownTool) || err.Error() != `unknown tool "git__blame" as of event 5` {
			t.Errorf("unknown tool: %v", err)
		}
		if len(o.calls()) != 0 {
			t.Errorf("sent %v", o.calls())
		}
	})
}

// R15
func TestCallOfADeferredToolWaits(t *testing.T) {
	bubble(t, func(t *testing.T, f *scene, o *owners, s *Session) {
		f.ready("git", "0", "w", "log")
		f.connecting("git", "0", "w2")
		o.set(epoch2, says(fine))
		done := make(chan error, 1)
		go func() {
			_, err := s.Call(t.Context(), "git__log", nil, nil)
			done <- err
		}()
		synctest.Wait()
		if len(o.calls()) != 0 {
			t.Fatalf("sent before the server was ready: %v", o.calls())
		}
		f.tell(events.InstanceChain("git", "0"), events.Failed{Failure: events.NewFailure(events.StartupCrash, events.PhaseSpawn, "")},
			events.RestartScheduled{}, events.Connecting{Attempt: 2, Definition: f.Server("git").Digest})
		synctest.Wait()
		f.list("git", "0", "log")
		if err := <-done; err != nil {
			t.Errorf("after one reconnect: %v", err)
		}
	})
}

// R15
func TestCallOfADeferredToolGivesUp(t *testing.T) {
	bubble(t, func(t *testing.T, f *scene, o *owners, s *Session) {
		f.ready("git", "0", "w", "log")
		f.connecting("git", "0", "w2")
		done := make(chan error, 1)
		go func() {
			_, err := s.Call(t.Context(), "git__log", nil, nil)
			done <- err
		}()
		synctest.Wait()
		crash := events.Failed{Failure: events.NewFailure(events.StartupCrash, events.PhaseSpawn, "it broke")}
		for range maxFailures {
			f.tell(events.InstanceChain("git", "0"), crash, events.RestartScheduled{})
		}
		begun := time.Now()
		err := <-done
		var e *CallError
		if !errors.Is(err, ErrNotExecuted) || !errors.As(err, &e) || e.Failure.Code != events.StartupCrash {
			t.Errorf("got %v, want not executed for the crash", err)
		}
		if d := time.Since(begun); d != 0 {
			t.Errorf("it waited %v after the last failure", d)
		}
		if len(o.calls()) != 0 {
			t.Errorf("sent %v", o.calls())
		}
	})
}

func TestCallOfADeferredToolIsAborted(t *testing.T) {
	bubble(t, func(t *testing.T, f *scene, _ *owners, s *Session) {
		f.ready("git", "0", "w", "log")
		f.connecting("git", "0", "w2")
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		if _, err := s.Call(ctx, "git__log", nil, nil); !errors.Is(err, ErrCancelled) || !errors.Is(err, context.Canceled) {
			t.Errorf("cancelled: %v", err)
		}
		ctx, cancel = context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := s.Call(ctx, "git__log", nil, nil); !errors.Is(err, ErrNotExecuted) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("out of time: %v", err)
		}
		begun := time.Now()
		if _, err := s.Call(t.Context(), "git__log", nil, nil); !errors.Is(err, ErrNotExecuted) {
			t.Errorf("without a deadline: %v", err)
		}
		if d := time.Since(begun); d != events.DefaultConnectTimeout {
			t.Errorf("without a deadline it waited %v, want the connect limit", d)
		}
	})
}

func TestCallFollowsTheOwner(t *testing.T) {
	bubble(t, func(t *testing.T, f *scene, o *owners, s *Session) {
		f.ready("git", "0", "w", "log")
		o.set(epoch2, says(fine))
		done := make(chan error, 1)
		go func() {
			_, err := s.Call(t.Context(), "git__log", nil, nil)
			done <- err
		}()
		synctest.Wait() // the old owner does not respond any more
		f.ready("git", "0", "w2", "log")
		if err := <-done; err != nil {
			t.Error(err)
		}
		want := []string{epoch1 + " log {}", epoch2 + " log {}"}
		if diff := cmp.Diff(want, o.calls()); diff != "" {
			t.Errorf("sent (-want +got):\n%s", diff)
		}
	})
}

// An owner that responds late, with nothing new in the view, is found too.
func TestCallTriesTheSameOwnerAgain(t *testing.T) {
	bubble(t, func(t *testing.T, f *scene, o *owners, s *Session) {
		f.ready("git", "0", "w", "log")
		time.AfterFunc(3*time.Second, func() { o.set(epoch1, says(fine)) })
		if _, err := s.Call(t.Context(), "git__log", nil, nil); err != nil {
			t.Error(err)
		}
		if n := len(o.calls()); n < 3 || n > 10 {
			t.Errorf("%d attempts in 3 s", n)
		}
	})
}

func TestOutcomes(t *testing.T) {
	failure := events.NewFailure(events.CallInterrupted, events.PhaseRun, "the process ended")
	for _, tt := range []struct {
		name    string
		err     callwire.Error
		replay  bool // the definition says replayCalls
		outcome error
		sent    int
	}{
		{"unknown", callwire.Error{Outcome: callwire.Unknown, Failure: failure}, false, ErrUnknownOutcome, 1}, // R21, M16
		{"unknown, replayed once", callwire.Error{Outcome: callwire.Unknown, Failure: failure}, true, ErrUnknownOutcome, 2},
		{"out of time", callwire.Error{Outcome: callwire.Unknown, Failure: events.NewFailure(events.CallTimeout, events.PhaseRun, "")}, true, ErrUnknownOutcome, 1},
		{"failed", callwire.Error{Outcome: callwire.Failed, Failure: failure, RPCCode: -32050, RPCData: jsontext.Value(`{"a":1}`)}, true, ErrFailed, 1},
		{"cancelled", callwire.Error{Outcome: callwire.Cancelled, Failure: failure}, true, ErrCancelled, 1},
		{"no such tool there", callwire.Error{Outcome: callwire.NotExecuted, Failure: events.NewFailure(events.ConnectionLost, events.PhaseRun, ""), RPCCode: -32602}, true, ErrNotExecuted, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, o := newScene(t), &owners{}
				f.declare("git", func(d *events.Definition) { d.ReplayCalls = tt.replay })
				f.ready("git", "0", "w", "log")
				o.set(epoch1, ends(tt.err))
				s := attend(t, f, o)
				_, err := s.Call(t.Context(), "git__log", nil, nil)
				var e *CallError
				if !errors.Is(err, tt.outcome) || !errors.As(err, &e) {
					t.Fatalf("got %v, want %v", err, tt.outcome)
				}
				if e.Failure != tt.err.Failure || e.RPCCode != tt.err.RPCCode || string(e.RPCData) != string(tt.err.RPCData) {
					t.Errorf("got %+v, want what the owner said", e)
				}
				if n := len(o.calls()); n != tt.sent {
					t.Errorf("sent %d times, want %d", n, tt.sent)
				}
			})
		})
	}
}

// R21, M16
func TestReadOnlyToolsAreReplayed(t *testing.T) {
	bubble(t, func(t *testing.T, f *scene, o *owners, s *Session) {
		f.connecting("git", "0", "w")
		f.listRaw("git", "0", jsontext.Value(`{"name":"log","annotations":{"readOnlyHint":true}}`))
		first := true
		o.set(epoch1, func(context.Context, *callwire.Request) ([]byte, error) {
			if first {
				first = false
				return nil, &callwire.Error{Outcome: callwire.Unknown}
			}
			return []byte(fine), nil
		})
		if _, err := s.Call(t.Context(), "git__log", nil, nil); err != nil {
			t.Error(err)
		}
	})
}

func TestCallOfAServerThatShouldNotRun(t *testing.T) {
	for _, tt := range []struct {
		name string
		body events.Body
		want string
	}{
		{"disabled", events.Disabled{}, "the server is disabled"},
		{"stopped", events.StopRequested{}, "the server is stopped"},
		{"withdrawn", events.Withdrawn{}, "the fleet no longer has the server"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, f *scene, _ *owners, s *Session) {
				f.ready("git", "0", "w", "log")
				done := make(chan error, 1)
				go func() {
					_, err := s.Call(t.Context(), "git__log", nil, nil) // nobody responds
					done <- err
				}()
				synctest.Wait()
				f.tell(events.ServerChain("git"), tt.body)
				f.tell(events.InstanceChain("git", "0"), events.HasStopped{})
				err := <-done
				if !errors.Is(err, ErrNotExecuted) || errors.UnwrapAll(err).Error() != tt.want {
					t.Errorf("got %v", err)
				}
			})
		})
	}
}

// R1
func TestOff(t *testing.T) {
	s, err := Open(t.Context(), nil, &Options{Off: true})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if tools, seq := s.Tools(); len(tools) != 0 || seq != 0 || len(s.Status().Servers) != 0 {
		t.Errorf("a session that is off has %v", tools)
	}
	if _, err := s.Call(t.Context(), "git__log", nil, nil); !errors.Is(err, ErrUnknownTool) {
		t.Errorf("got %v", err)
	}
}

func TestCallsEndWithTheSession(t *testing.T) {
	bubble(t, func(t *testing.T, f *scene, o *owners, s *Session) {
		f.ready("git", "0", "w", "log")
		o.set(epoch1, func(ctx context.Context, _ *callwire.Request) ([]byte, error) {
			<-ctx.Done()
			return nil, &callwire.Error{Outcome: callwire.Cancelled}
		})
		time.AfterFunc(time.Second, s.Close)
		if _, err := s.Call(t.Context(), "git__log", nil, nil); !errors.Is(err, ErrCancelled) || !errors.Is(err, errClosed) {
			t.Errorf("got %v", err)
		}
	})
}

// The owner has the caller's limit, and may be the first to notice that it is over.
func TestCallOutOfTimeOfItsOwner(t *testing.T) {
	bubble(t, func(t *testing.T, f *scene, o *owners, s *Session) {
		f.ready("git", "0", "w", "log")
		o.set(epoch1, ends(callwire.Error{Outcome: callwire.Unknown, Failure: events.NewFailure(events.CallTimeout, events.PhaseRun, "no answer in time")}))
		if _, err := s.Call(t.Context(), "git__log", nil, nil); !errors.Is(err, ErrUnknownOutcome) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
	})
}

// A call that its caller's deadline ends was not cancelled by anybody.
func TestCallOutOfTime(t *testing.T) {
	bubble(t, func(t *testing.T, f *scene, o *owners, s *Session) {
		f.ready("git", "0", "w", "log")
		o.set(epoch1, func(ctx context.Context, _ *callwire.Request) ([]byte, error) {
			<-ctx.Done()
			return nil, &callwire.Error{Outcome: callwire.Cancelled}
		})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := s.Call(ctx, "git__log", nil, nil)
		if !errors.Is(err, ErrUnknownOutcome) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
	})
}

// R22
func TestChangesAreOfTools(t *testing.T) {
	bubble(t, func(t *testing.T, f *scene, _ *owners, s *Session) {
		signalled := func() bool {
			select {
			case <-s.Changes():
				return true
			default:
				return false
			}
		}
		f.tell(events.WorkerChain("w"), events.Joined{})
		f.connecting("git", "0", "w")
		if signalled() {
			t.Error("signalled, though the list is what it was")
		}
		f.list("git", "0", "log")
		f.tell(events.InstanceChain("git", "0"), events.Failed{Failure: events.NewFailure(events.Killed, events.PhaseRun, "")})
		if !signalled() || signalled() {
			t.Error("want one signal for two changes")
		}
	})
}

// R20
func TestAsResult(t *testing.T) {
	r, ok := AsResult(errors.Mark(errors.New(`unknown tool "x"`), ErrUnknownTool))
	if want := `{"content":[{"type":"text","text":"MCP error: unknown tool \"x\""}],"isError":true}`; !ok || string(r.JSON) != want || !r.IsError {
		t.Errorf("got %s", r.JSON)
	}
	if _, ok := AsResult(&CallError{Outcome: ErrCancelled}); ok {
		t.Error("a cancelled call became a result")
	}
}
