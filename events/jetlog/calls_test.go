package jetlog_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/errors"
	"github.com/nats-io/nats.go"

	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/events/callwire"
	"github.com/toolfleet/toolfleet/events/eventstest"
	"github.com/toolfleet/toolfleet/events/jetlog"
)

// callSubject is that of the one instance that these tests call.
const callSubject = "tf.call.test.github.0.7"

// switchboard is a caller and an owner, each with a line of its own.
type switchboard struct {
	server                *eventstest.Server
	caller, owner         *jetlog.Log
	callerLine, ownerLine *eventstest.Outage
}

func newSwitchboard(t *testing.T, o *eventstest.ServerOptions) *switchboard {
	t.Helper()
	b := &switchboard{server: eventstest.NewServer(t, o)}
	b.callerLine, b.ownerLine = b.server.Outage(), b.server.Outage()
	connect := func(name string, line *eventstest.Outage) *jetlog.Log {
		return open(t, b.server.Connect(name, nats.InProcessServer(line), nats.ReconnectBufSize(-1)), nil)
	}
	b.caller, b.owner = connect("caller", b.callerLine), connect("owner", b.ownerLine)
	return b
}

// serve serves calls until stop, which returns what ServeCalls returned.
func (b *switchboard) serve(t *testing.T, h jetlog.CallHandler) (stop func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var result error
	done := make(chan struct{})
	go func() { defer close(done); result = b.owner.ServeCalls(ctx, callSubject, h) }()
	synctest.Wait() // until it has subscribed
	if err := b.owner.Conn().Flush(); err != nil {
		t.Fatal(err)
	}
	stop = func() error { cancel(); <-done; return result }
	t.Cleanup(func() { _ = stop() })
	return stop
}

func (b *switchboard) call(ctx context.Context) ([]byte, error) {
	return b.caller.Call(ctx, callSubject, &callwire.Request{Tool: "echo"}, nil)
}

// outcome returns what an error of Call says, or "".
func outcome(err error) callwire.Outcome {
	if e := (*callwire.Error)(nil); errors.As(err, &e) {
		return e.Outcome
	}
	return ""
}

func TestCallIsAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newSwitchboard(t, nil)
		b.serve(t, func(_ context.Context, r *callwire.Request, send func(callwire.FrameKind, []byte)) ([]byte, error) {
			send(callwire.Progress, []byte("1"))
			send(callwire.Log, []byte("2"))
			send(callwire.Progress, []byte("3"))
			return fmt.Appendf(nil, "%s %s %s %s %s", r.ID, r.Tool, r.Arguments, r.Timeout, r.Actor), nil
		})
		var frames []string
		data, err := b.caller.Call(t.Context(), callSubject, &callwire.Request{
			ID: "c1", Tool: "create issue", Arguments: []byte(`{"a":1}`), Timeout: time.Minute, Actor: "ann",
		}, func(f *callwire.Frame) { frames = append(frames, string(f.Kind)+" "+string(f.Data)) })
		if err != nil {
			t.Fatal(err)
		}
		if want := `c1 create issue {"a":1} 1m0s ann`; string(data) != want {
			t.Errorf("the result is %q, not %q", data, want)
		}
		if want := []string{"progress 1", "log 2", "progress 3"}; !slices.Equal(frames, want) {
			t.Errorf("frames %q, not %q", frames, want)
		}
	})
}

func TestCallWithALargeResult(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newSwitchboard(t, &eventstest.ServerOptions{MaxPayload: 1 << 20})
		want := bytes.Repeat([]byte("0123456789abcdef"), 5<<16) // 5 MiB
		size := len(want)
		b.serve(t, func(_ context.Context, _ *callwire.Request, send func(callwire.FrameKind, []byte)) ([]byte, error) {
			send(callwire.Progress, want[:3<<19])
			return append(want, make([]byte, size-len(want))...), nil
		})
		var progress int
		got, err := b.caller.Call(t.Context(), callSubject, &callwire.Request{Tool: "echo"},
			func(f *callwire.Frame) { progress = len(f.Data) })
		if err != nil || !bytes.Equal(got, want) || progress != 3<<19 {
			t.Errorf("%d bytes came after %d of progress: %v", len(got), progress, err)
		}
		size = callwire.MaxResult + 1
		_, err = b.call(t.Context())
		if e := (*callwire.Error)(nil); !errors.As(err, &e) || e.Outcome != callwire.Failed || e.Failure.Code != events.FrameTooLarge {
			t.Errorf("a result that is too large: %v", err)
		}
	})
}

func TestCallErrors(t *testing.T) {
	for _, c := range []struct {
		name   string
		answer error
		want   callwire.Error
	}{
		{"its own error", &callwire.Error{
			Outcome: callwire.Failed, Failure: events.NewFailure(events.Exited, events.PhaseRun, "gone"), RPCCode: -32602, RPCData: []byte(`{"x":1}`),
		}, callwire.Error{Outcome: callwire.Failed, Failure: events.NewFailure(events.Exited, events.PhaseRun, "gone"), RPCCode: -32602}},
		{
			"wrapped", errors.Wrap(&callwire.Error{Outcome: callwire.NotExecuted, Failure: events.NewFailure(events.LeaseLost, events.PhaseRun, "")}, "call"),
			callwire.Error{Outcome: callwire.NotExecuted, Failure: events.NewFailure(events.LeaseLost, events.PhaseRun, "")},
		},
		{
			"any other", errors.New("something"),
			callwire.Error{Outcome: callwire.Unknown, Failure: events.NewFailure(events.OtherFailure, events.PhaseRun, "something")},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newSwitchboard(t, nil)
				b.serve(t, func(context.Context, *callwire.Request, func(callwire.FrameKind, []byte)) ([]byte, error) {
					return nil, c.answer
				})
				_, err := b.call(t.Context())
				e := (*callwire.Error)(nil)
				if !errors.As(err, &e) || e.Outcome != c.want.Outcome || e.Failure != c.want.Failure || e.RPCCode != c.want.RPCCode {
					t.Errorf("%v, not %v", err, &c.want)
				}
			})
		})
	}
}

func TestCallNobodyTakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newSwitchboard(t, nil)
		began := time.Now()
		if _, err := b.call(t.Context()); outcome(err) != callwire.NotExecuted {
			t.Errorf("without an owner: %v", err)
		}
		if d := time.Since(began); d > 0 {
			t.Errorf("that took %s", d)
		}
		b.callerLine.Cut()
		synctest.Wait()
		if _, err := b.call(t.Context()); outcome(err) != callwire.NotExecuted {
			t.Errorf("without a connection: %v", err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := b.call(ctx); outcome(err) != callwire.NotExecuted || !errors.Is(err, context.Canceled) {
			t.Errorf("with an ended context: %v", err)
		}
	})
}

// ended is what a handler saw the end of its context as.
type ended struct {
	cause error
	after time.Duration
}

// waiting returns a handler that waits for the end of its context.
func waiting(begun chan<- struct{}, out chan<- ended) jetlog.CallHandler {
	return func(ctx context.Context, _ *callwire.Request, _ func(callwire.FrameKind, []byte)) ([]byte, error) {
		began := time.Now()
		begun <- struct{}{}
		<-ctx.Done()
		out <- ended{context.Cause(ctx), time.Since(began)}
		return nil, ctx.Err()
	}
}

func TestCallIsCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newSwitchboard(t, nil)
		begun, out := make(chan struct{}, 1), make(chan ended, 1)
		b.serve(t, waiting(begun, out))
		ctx, cancel := context.WithCancel(t.Context())
		go func() { <-begun; cancel() }()
		began := time.Now()
		_, err := b.call(ctx)
		if outcome(err) != callwire.Cancelled || !errors.Is(err, context.Canceled) {
			t.Errorf("cancelled: %v", err)
		}
		if d := time.Since(began); d > 0 {
			t.Errorf("that took %s", d)
		}
		if e := <-out; !errors.Is(e.cause, jetlog.ErrCallCancelled) {
			t.Errorf("the handler's context ended with %v", e.cause)
		}
	})
}

func TestCallTimesOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newSwitchboard(t, nil)
		begun, out := make(chan struct{}, 1), make(chan ended, 1)
		b.serve(t, waiting(begun, out))
		// The caller's deadline is the owner's too. Either may notice first: the owner
		// then says that it does not know, or that it was told to cancel.
		ctx, cancel := context.WithTimeout(t.Context(), 90*time.Second)
		defer cancel()
		_, err := b.call(ctx)
		if o := outcome(err); o != callwire.Unknown && o != callwire.Cancelled || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("timed out: %v", err)
		}
		if e := <-out; e.cause == nil || e.after != 90*time.Second {
			t.Errorf("the handler's context ended with %v after %s", e.cause, e.after)
		}
	})
}

// A handler that does not heed its context does not hold the caller.
func TestCallOfAStubbornOwner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newSwitchboard(t, nil)
		b.serve(t, func(context.Context, *callwire.Request, func(callwire.FrameKind, []byte)) ([]byte, error) {
			time.Sleep(time.Hour)
			return nil, nil
		})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		began := time.Now()
		_, err := b.call(ctx)
		if outcome(err) != callwire.Unknown || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("timed out: %v", err)
		}
		if d := time.Since(began); d > 61*time.Second {
			t.Errorf("the caller was held for %s", d)
		}
	})
}

func TestCallOutlastsTheSilenceLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newSwitchboard(t, nil)
		b.serve(t, func(ctx context.Context, _ *callwire.Request, _ func(callwire.FrameKind, []byte)) ([]byte, error) {
			select {
			case <-time.After(10 * time.Minute):
				return []byte("done"), nil
			case <-ctx.Done():
				return nil, context.Cause(ctx)
			}
		})
		if data, err := b.call(t.Context()); string(data) != "done" {
			t.Errorf("%q, %v", data, err)
		}
	})
}

func TestCallOfAnOwnerThatFallsSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newSwitchboard(t, nil)
		begun, out := make(chan struct{}, 1), make(chan ended, 1)
		b.serve(t, waiting(begun, out))
		go func() { <-begun; synctest.Wait(); b.ownerLine.Freeze() }()
		began := time.Now()
		_, err := b.call(t.Context())
		if outcome(err) != callwire.Unknown {
			t.Errorf("%v", err)
		}
		if d := time.Since(began); d != callwire.SilenceLimit {
			t.Errorf("the caller waited %s", d)
		}
		// Nor has the owner heard of the caller, and it stops.
		if e := <-out; !errors.Is(e.cause, jetlog.ErrCallerSilent) || e.after != callwire.SilenceLimit {
			t.Errorf("the handler's context ended with %v after %s", e.cause, e.after)
		}
	})
}

func TestCallOfACallerThatDies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newSwitchboard(t, nil)
		begun, out := make(chan struct{}, 1), make(chan ended, 1)
		b.serve(t, waiting(begun, out))
		// It calls and keeps alive for 20 s; then nothing comes.
		done := make(chan struct{})
		go func() { defer close(done); _, _ = b.call(t.Context()) }()
		<-begun
		time.Sleep(20 * time.Second)
		b.callerLine.Cut()
		if e := <-out; !errors.Is(e.cause, jetlog.ErrCallerSilent) || e.after != callwire.KeepAliveEvery+callwire.SilenceLimit {
			t.Errorf("the handler's context ended with %v after %s", e.cause, e.after)
		}
		<-done
	})
}

// fakeOwner answers calls with frames as they are told.
func (b *switchboard) fakeOwner(t *testing.T, frames func(id string) []callwire.Frame) (controls <-chan *callwire.Control) {
	t.Helper()
	nc := b.server.Connect("fake")
	_, err := nc.Subscribe(callSubject, func(m *nats.Msg) {
		for _, f := range frames(m.Header.Get("tf-call")) {
			x := f.Encode(m.Reply)
			_ = nc.PublishMsg(&nats.Msg{Subject: x.Subject, Header: x.Header, Data: x.Data}) // the test sees what comes
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	out := make(chan *callwire.Control, 10)
	_, err = nc.Subscribe(callwire.ControlSubject(callSubject), func(m *nats.Msg) {
		if c, err := callwire.DecodeControl(events.Message{Header: m.Header}); err == nil {
			out <- c
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	return out
}

func TestCallWithALostFrame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newSwitchboard(t, nil)
		controls := b.fakeOwner(t, func(id string) []callwire.Frame {
			return []callwire.Frame{
				{Kind: callwire.Accepted, Call: id, Seq: 0},
				{Kind: callwire.Result, Call: id, Seq: 2, Data: []byte("half of it")},
			}
		})
		data, err := b.call(t.Context())
		if outcome(err) != callwire.Unknown || data != nil {
			t.Errorf("%q, %v", data, err)
		}
		if c := <-controls; c.Kind != callwire.Cancel {
			t.Errorf("the caller sent %q", c.Kind)
		}
	})
}

func TestCallLeavesOutWhatItDoesNotKnow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newSwitchboard(t, nil)
		b.fakeOwner(t, func(id string) []callwire.Frame {
			return []callwire.Frame{
				{Kind: callwire.Accepted, Call: id, Seq: 0},
				{Kind: callwire.Result, Call: "another", Seq: 1, Data: []byte("stolen")},
				{Kind: "question", Call: id, Seq: 1},
				{Kind: callwire.Result, Call: id, Seq: 2, Data: []byte("result")},
			}
		})
		if data, err := b.call(t.Context()); string(data) != "result" {
			t.Errorf("%q, %v", data, err)
		}
	})
}

// The last frame waits for the connection; the caller still gets its result.
func TestCallResultOutlastsAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newSwitchboard(t, nil)
		b.serve(t, func(context.Context, *callwire.Request, func(callwire.FrameKind, []byte)) ([]byte, error) {
			synctest.Wait() // until the caller has what was sent so far
			b.ownerLine.Cut()
			time.AfterFunc(20*time.Second, b.ownerLine.Restore)
			time.Sleep(time.Second)
			return []byte("done"), nil
		})
		if data, err := b.call(t.Context()); string(data) != "done" {
			t.Errorf("%q, %v", data, err)
		}
	})
}

// A line that breaks before the call is acknowledged does not keep the owner busy.
func TestCallIsNotAcknowledgedInALoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newSwitchboard(t, nil)
		var log strings.Builder
		owner := open(t, b.server.Connect("busy", nats.InProcessServer(b.ownerLine), nats.ReconnectBufSize(-1)), &jetlog.Options{
			Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})),
		})
		b.owner = owner
		release := make(chan struct{})
		b.serve(t, func(context.Context, *callwire.Request, func(callwire.FrameKind, []byte)) ([]byte, error) {
			b.ownerLine.Cut()
			<-release
			return []byte("done"), nil
		})
		go func() { _, _ = b.call(t.Context()) }()
		time.Sleep(time.Minute)
		synctest.Wait()
		if n := strings.Count(log.String(), "was not sent"); n == 0 || n > 5 {
			t.Errorf("%d frames in a minute", n)
		}
		b.ownerLine.Restore()
		close(release)
		synctest.Wait()
	})
}
