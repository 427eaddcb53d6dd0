package worker

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/events/callwire"
	"github.com/toolfleet/toolfleet/worker/mcptest"
)

// checked returns a definition that is checked often.
func checked(d events.Definition, every time.Duration) events.Definition {
	d.HealthCheckIntervalMs = new(every.Milliseconds())
	return d
}

// M5: a server that hangs is found out, ended and started again; whoever waits
// for it is told.
func TestWorkerRestartsWhatHangs(t *testing.T) {
	for name, s := range map[string]mcptest.Script{"silent": {Silent: true}, "deaf": {Deaf: true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			record := mcptest.NewRecord(t)
			r := newRig(t)
			r.start()
			s.Tools, s.Record, s.Stderr = mcptest.Special, record.Path(), "my last words\n"
			d := checked(s.Definition(t), 100*time.Millisecond)
			d.CallTimeoutMs = new(int64(100))
			r.run("s", d)
			first := r.see("s", 0, ready)
			seen := r.see("s", first[0].Seq, events.KindFailed, events.KindRestartScheduled, ready, events.KindRestarted)
			f := seen[0].Body.(events.Failed)
			if f.Failure.Code != events.PingTimeout || f.Failure.Phase != events.PhaseRun || !f.Failure.Retry || f.StderrTail != "my last words" {
				t.Errorf("failed %+v", f)
			}
			if pids := record.Started(); len(pids) < 2 || len(record.Running()) > 1 {
				t.Errorf("started %v, running %v", pids, record.Running())
			}
		})
	}
}

// M5: calls to a server that hangs, one after the other, keep nobody from finding
// out, and the last one is told.
func TestWorkerTellsCallersOfWhatHangs(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.start()
	d := checked(mcptest.Script{Tools: mcptest.Special, Silent: true}.Definition(t), 200*time.Millisecond)
	d.CallTimeoutMs = new(int64(300))
	d.RestartPolicy = &events.RestartPolicy{MaxRestartAttempts: new(0)}
	r.run("s", d)
	first := r.see("s", 0, ready)
	var outcomes []string
	for {
		got := r.call(t.Context(), "s", "echo", "{}")
		if got.err == nil {
			t.Fatalf("it answered %s", got.result)
		}
		outcomes = append(outcomes, string(got.err.Failure.Code))
		if got.err.Failure.Code != events.CallTimeout || len(outcomes) == 50 {
			if got.err.Outcome != callwire.Unknown || !strings.Contains(got.err.Failure.Message, "nothing was heard") {
				t.Errorf("%q ended with %+v", outcomes, got.err)
			}
			break
		}
	}
	r.see("s", first[0].Seq, events.KindFailed, events.KindParked)
}

// M5, case I7: a server that knows no ping, or ignores it, is well.
func TestWorkerSparesWhatKnowsNoPing(t *testing.T) {
	for name, want := range map[string]string{
		"unknown": "ping, list again, list again", "ignored": "ping, list again, list again", "": "ping, ping, ping",
	} {
		t.Run("ping is "+name, func(t *testing.T) {
			t.Parallel()
			record := mcptest.NewRecord(t)
			r := newRig(t)
			r.start()
			r.run("s", checked(mcptest.Script{Tools: mcptest.Special, Ping: name, Record: record.Path()}.Definition(t), 200*time.Millisecond))
			r.see("s", 0, ready)
			asked := func() string {
				lines := slices.DeleteFunc(record.Lines(), func(l string) bool { return l != "ping" && l != "list again" })
				return strings.Join(lines, ", ")
			}
			eventually(t, "it to be asked", func() bool { return len(asked()) >= len(want)+20 })
			if got := asked(); !strings.HasPrefix(got, want) || name != "" && strings.Count(got, "ping") != 1 {
				t.Errorf("it was asked %s, want %s", got, want)
			}
			if got := r.kinds("s"); got != "assigned connecting connected tools-listed" {
				t.Errorf("the chain says %s", got)
			}
		})
	}
}

// M5: a server is not ended because it is at work, whether it tells how far it
// came or, doing one thing at a time, says nothing at all.
func TestWorkerSparesWhatIsAtWork(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.start()
	d := checked(mcptest.Script{Tools: mcptest.Special, Ping: "ignored", OneByOne: true}.Definition(t), 150*time.Millisecond)
	r.run("s", d)
	r.see("s", 0, ready)
	for tool, arguments := range map[string]string{"sleep": `{"ms":900}`, "progress": `{"times":9,"ms":100}`} {
		if got := r.call(t.Context(), "s", tool, arguments); got.err != nil {
			t.Errorf("%s: %+v", tool, got.err)
		}
	}
	if got := r.kinds("s"); got != "assigned connecting connected tools-listed" {
		t.Errorf("the chain says %s", got)
	}
}

// M5: over HTTP as well, where a gateway's answer is none of the server's.
func TestWorkerChecksHTTP(t *testing.T) {
	t.Parallel()
	h := mcptest.NewHTTP(t, mcptest.Script{Tools: []string{"echo"}})
	r := newRig(t)
	r.start()
	d := checked(httpDefinition(h.URL), 100*time.Millisecond)
	d.RestartPolicy = &events.RestartPolicy{MaxRestartAttempts: new(0)}
	r.run("s", d)
	first := r.see("s", 0, ready)
	eventually(t, "pings", func() bool {
		return slices.ContainsFunc(h.Seen(), func(s mcptest.Seen) bool { return s.RPC == "ping" })
	})
	if got := r.kinds("s"); got != "assigned connecting connected tools-listed" {
		t.Fatalf("the chain says %s", got)
	}
	h.Answer(func(w http.ResponseWriter, _ *http.Request) bool {
		w.WriteHeader(http.StatusBadGateway)
		return true
	})
	seen := r.see("s", first[0].Seq, events.KindFailed, events.KindParked)
	if f := seen[0].Body.(events.Failed); f.Failure.Code != events.PingTimeout {
		t.Errorf("failed %+v", f)
	}
}

// An error is an answer, whatever the status that it comes with.
func TestWorkerTakesErrorsForLife(t *testing.T) {
	t.Parallel()
	h := mcptest.NewHTTP(t, mcptest.Script{Tools: []string{"echo"}})
	r := newRig(t)
	r.start()
	r.run("s", checked(httpDefinition(h.URL), 150*time.Millisecond))
	r.see("s", 0, ready)
	pings := func() (n int) {
		for _, s := range h.Seen() {
			if s.RPC == "ping" {
				n++
			}
		}
		return n
	}
	eventually(t, "a ping", func() bool { return pings() > 0 })
	h.Answer(func(w http.ResponseWriter, _ *http.Request) bool {
		if seen := h.Seen(); seen[len(seen)-1].RPC == "" {
			return false
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusInternalServerError)
		_, _ = w.Write([]byte(`{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"Method not supported: ping"}}`))
		return true
	})
	before := pings()
	eventually(t, "more of them", func() bool { return pings() > before+5 })
	if got := r.kinds("s"); got != "assigned connecting connected tools-listed" {
		t.Errorf("the chain says %s", got)
	}
}

// M5: the stateless revision has no ping, and is checked all the same.
func TestAskStateless(t *testing.T) {
	t.Parallel()
	h := mcptest.NewHTTP(t, mcptest.Script{Tools: []string{"echo"}})
	d := httpDefinition(h.URL)
	d.Protocol = "2026-07-28"
	c := mustDial(t, d)
	discoveries := func() (n int) {
		for _, s := range h.Seen() {
			if s.RPC == "server/discover" {
				n++
			}
		}
		return n
	}
	asked, before := discoveries(), c.heard()
	ctx, cancel := context.WithTimeout(t.Context(), hangLimit)
	defer cancel()
	if c.ask(ctx, true) {
		t.Error("it knows no ping")
	}
	if n := discoveries(); n != asked+1 || !c.heard().After(before) {
		t.Errorf("it was asked %d times, and heard at %v, before at %v", n-asked, c.heard(), before)
	}
}
