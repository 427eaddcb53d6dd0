package worker

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/events/callwire"
	"github.com/toolfleet/toolfleet/worker/mcptest"
)

// Drain: calls in flight end before their server does.
func TestWorkerDrains(t *testing.T) {
	t.Parallel()
	record := mcptest.NewRecord(t)
	r := newRig(t)
	r.start()
	r.run("s", mcptest.Script{Tools: mcptest.Special, Record: record.Path()}.Definition(t))
	r.see("s", 0, ready)
	done := make(chan call, 1)
	go func() { done <- r.call(context.WithoutCancel(t.Context()), "s", "sleep", `{"ms":700}`) }()
	eventually(t, "the call to arrive", func() bool { return record.Has("call sleep") })
	r.command("s", events.Command{Generation: 2})
	r.see("s", 0, events.KindStopping, events.KindStopped)
	if got := <-done; got.err != nil || got.result == "" {
		t.Errorf("the call in flight: %+v", got)
	}
}

// A drain that takes too long is cut off, and says so to the caller.
func TestWorkerDrainIsBounded(t *testing.T) {
	t.Parallel()
	record := mcptest.NewRecord(t)
	r := newRig(t)
	r.options.Limits.Drain = 200 * time.Millisecond
	r.start()
	// One that does not see the end of its stdin, which would have it answer.
	d := mcptest.Script{Tools: mcptest.Special, Stubborn: true, OneByOne: true, Record: record.Path()}.Definition(t)
	d.GracePeriodMs = new(int64(200))
	r.run("s", d)
	r.see("s", 0, ready)
	done := make(chan call, 1)
	go func() { done <- r.call(context.WithoutCancel(t.Context()), "s", "sleep", `{"ms":3600000}`) }()
	eventually(t, "the call to arrive", func() bool { return record.Has("call sleep") })
	if err := r.finish(); err != nil {
		t.Error(err)
	}
	if got := <-done; got.err == nil || got.err.Outcome != callwire.Unknown || got.err.Failure.Code != events.CallInterrupted {
		t.Errorf("the call in flight: %+v", got.err)
	}
}

func TestWorkerCalls(t *testing.T) {
	t.Parallel()
	record := mcptest.NewRecord(t)
	r := newRig(t)
	r.start()
	d := mcptest.Script{Tools: mcptest.Special, Record: record.Path()}.Definition(t)
	d.CallTimeoutMs = new(int64(400))
	r.run("s", d)
	r.see("s", 0, ready)

	if got := r.call(t.Context(), "s", "odd", "{}"); got.result != mcptest.OddResult {
		t.Errorf("odd: %+v", got)
	}
	if got := r.call(t.Context(), "s", "fail", "{}"); got.err != nil || !strings.Contains(got.result, `"isError":true`) { // R20
		t.Errorf("fail: %+v", got)
	}
	got := r.call(t.Context(), "s", "rpc-error", "{}")
	if e := got.err; e == nil || e.Outcome != callwire.Failed || e.RPCCode != -32050 || string(e.RPCData) != `{"retryAfter":9007199254740993}` || e.Failure.Code != events.RPCError {
		t.Errorf("rpc-error: %+v", got.err)
	}
	got = r.call(t.Context(), "s", "progress", `{"times":3}`)
	if got.err != nil || len(got.progress) != 3 || !strings.HasPrefix(got.progress[0], "progress {") || !strings.Contains(got.progress[2], `"progress":3`) {
		t.Errorf("progress: %+v", got)
	}
	got = r.call(t.Context(), "s", "sleep", `{"ms":3600000}`)
	if e := got.err; e == nil || e.Outcome != callwire.Unknown || e.Failure.Code != events.CallTimeout {
		t.Errorf("too slow: %+v", got.err)
	}
	eventually(t, "the server to be told", func() bool { return record.Has("cancelled") })

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	got = r.call(ctx, "s", "echo", "{}")
	if e := got.err; e == nil || e.Outcome != callwire.NotExecuted || e.Failure.Code != events.CallCancelled {
		t.Errorf("cancelled before: %+v", got.err)
	}
	if n := strings.Count(strings.Join(record.Lines(), "\n"), "call echo"); n != 0 {
		t.Errorf("it was called %d times", n)
	}
}

// At most so many calls are in flight; others wait for their turn.
func TestWorkerCallsInFlight(t *testing.T) {
	record := mcptest.NewRecord(t)
	r := newRig(t)
	r.options.Limits.Calls = 2
	r.start()
	r.run("s", mcptest.Script{Tools: mcptest.Special, Record: record.Path()}.Definition(t))
	r.see("s", 0, ready)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan call, 3)
	for range 2 {
		go func() { done <- r.call(ctx, "s", "sleep", `{"ms":3600000}`) }()
	}
	eventually(t, "two calls to arrive", func() bool {
		return strings.Count(strings.Join(record.Lines(), "\n"), "call sleep") == 2
	})
	soon, stop := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer stop()
	if got := r.call(soon, "s", "echo", "{}"); got.err == nil || got.err.Outcome != callwire.NotExecuted || got.err.Failure.Code != events.CallTimeout {
		t.Errorf("the third: %+v", got)
	}
	cancel()
	for range 2 {
		if got := <-done; got.err == nil || got.err.Outcome != callwire.Cancelled {
			t.Errorf("a cancelled call: %+v", got)
		}
	}
	if got := r.call(t.Context(), "s", "echo", "{}"); got.err != nil {
		t.Errorf("afterwards: %+v", got.err)
	}
}
