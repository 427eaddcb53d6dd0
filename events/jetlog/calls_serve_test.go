package jetlog_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/errors"
	"github.com/nats-io/nats.go"

	"github.com/toolfleet/toolfleet/events/callwire"
	"github.com/toolfleet/toolfleet/events/jetlog"
)

func TestServeCallsBoundsThem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newSwitchboard(t, nil)
		release := make(chan struct{})
		b.serve(t, func(context.Context, *callwire.Request, func(callwire.FrameKind, []byte)) ([]byte, error) {
			<-release
			return []byte("done"), nil
		})
		results := make(chan error, jetlog.MaxCalls)
		for range jetlog.MaxCalls {
			go func() { _, err := b.call(t.Context()); results <- err }()
		}
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err := b.call(ctx)
		if e := (*callwire.Error)(nil); !errors.As(err, &e) || e.Outcome != callwire.NotExecuted || !e.Failure.Retry {
			t.Errorf("one too many: %v", err)
		}
		close(release)
		for range jetlog.MaxCalls {
			if err := <-results; err != nil {
				t.Error(err)
			}
		}
		if _, err := b.call(t.Context()); err != nil {
			t.Errorf("when they are over: %v", err)
		}
	})
}

func TestServeCallsEndsTheRunningOnes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newSwitchboard(t, nil)
		release, begun := make(chan struct{}), make(chan struct{}, 1)
		stop := b.serve(t, func(ctx context.Context, _ *callwire.Request, _ func(callwire.FrameKind, []byte)) ([]byte, error) {
			begun <- struct{}{}
			<-release
			return []byte("done"), ctx.Err()
		})
		result := make(chan error, 1)
		go func() { _, err := b.call(t.Context()); result <- err }()
		<-begun
		stopped := make(chan error, 1)
		go func() { stopped <- stop() }()
		time.Sleep(20 * time.Second)
		if _, err := b.call(t.Context()); outcome(err) != callwire.NotExecuted {
			t.Errorf("a call after the end: %v", err)
		}
		select {
		case err := <-stopped:
			t.Fatalf("ServeCalls returned %v while a call runs", err)
		default:
		}
		close(release)
		if err := <-result; err != nil {
			t.Errorf("the running call: %v", err)
		}
		if err := <-stopped; err != nil {
			t.Errorf("ServeCalls: %v", err)
		}
	})
}

// A call that is under way when the owner stops is answered, and not executed.
func TestServeCallsRefusesWhatComesTooLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newSwitchboard(t, nil)
		stop := b.serve(t, func(context.Context, *callwire.Request, func(callwire.FrameKind, []byte)) ([]byte, error) {
			t.Error("it was executed")
			return nil, nil
		})
		b.ownerLine.Freeze()
		result := make(chan error, 1)
		go func() { _, err := b.call(t.Context()); result <- err }()
		synctest.Wait() // until the broker has sent it on
		go func() { _ = stop() }()
		synctest.Wait()
		b.ownerLine.Restore()
		if err := <-result; outcome(err) != callwire.NotExecuted {
			t.Errorf("a late call: %v", err)
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}

func TestServeCallsEndsWithTheConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newSwitchboard(t, nil)
		result := make(chan error, 1)
		go func() {
			result <- b.owner.ServeCalls(t.Context(), callSubject, func(context.Context, *callwire.Request, func(callwire.FrameKind, []byte)) ([]byte, error) {
				return nil, nil
			})
		}()
		synctest.Wait()
		b.owner.Conn().Close()
		if err := <-result; !errors.Is(err, nats.ErrConnectionClosed) {
			t.Errorf("ServeCalls: %v", err)
		}
	})
}

// A caller cannot make the owner write where only the owner may.
func TestServeCallsAnswersOnlyInboxes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newSwitchboard(t, nil)
		called := make(chan string, 10)
		b.serve(t, func(_ context.Context, r *callwire.Request, _ func(callwire.FrameKind, []byte)) ([]byte, error) {
			called <- r.ID
			return nil, nil
		})
		nc := b.server.Connect("stranger")
		for i, reply := range []string{"", "$KV." + presence + ".leader", "tf.evt.test.fleet", "$JS.API.STREAM.DELETE.tf-test-events"} {
			m := (&callwire.Request{ID: fmt.Sprint(i), Tool: "x"}).Encode(callSubject)
			if err := nc.PublishMsg(&nats.Msg{Subject: m.Subject, Header: m.Header, Reply: reply}); err != nil {
				t.Fatal(err)
			}
		}
		if err := nc.Flush(); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if len(called) > 0 {
			t.Errorf("call %s was executed", <-called)
		}
		head, err := b.owner.Head(t.Context())
		if err != nil || head.Seq != 0 {
			t.Errorf("the history ends at %d: %v", head.Seq, err)
		}
	})
}

func TestServeCallsRefusesWhatIsNoRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newSwitchboard(t, nil)
		b.serve(t, func(context.Context, *callwire.Request, func(callwire.FrameKind, []byte)) ([]byte, error) {
			t.Error("it was executed")
			return nil, nil
		})
		_, err := b.caller.Call(t.Context(), callSubject, &callwire.Request{Tool: "x", Arguments: []byte(`{"a":1,"a":2}`)}, nil)
		if outcome(err) != callwire.NotExecuted {
			t.Errorf("a member twice: %v", err)
		}
	})
}
