package worker

import (
	"strings"
	"testing"

	"github.com/cockroachdb/errors"

	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/events/callwire"
	"github.com/toolfleet/toolfleet/events/eventstest"
	"github.com/toolfleet/toolfleet/worker/mcptest"
)

const ready = events.KindToolsListed

func TestWorkerRunsAServer(t *testing.T) {
	record := mcptest.NewRecord(t)
	r := newRig(t)
	r.options.Labels = map[string]string{"zone": "a"}
	r.start()
	joined := eventstest.Expect(t, r.log, 0, eventstest.On(events.WorkerChain(testWorker), events.KindJoined)...)
	if j := last[events.Joined](t, joined); j.Incarnation != testIncarnation || j.Host != "host" || j.Labels["zone"] != "a" || j.Versions["mcp"] == "" {
		t.Errorf("joined %+v", j)
	}
	d := mcptest.Script{Tools: []string{"echo", "alpha"}, Record: record.Path()}.Definition(t)
	r.assign("s", 1)
	r.command("s", events.Command{Definition: &d, Generation: 7, Cause: "why"})
	seen := r.see("s", 0, events.KindConnecting, events.KindConnected, ready)
	if c, ok := seen[0].Body.(events.Connecting); !ok || c.Attempt != 1 || c.Generation != 7 || c.Definition != d.Digest() {
		t.Errorf("connecting %+v", seen[0].Body)
	}
	for _, e := range seen {
		if e.Epoch != 1 || e.Attempt != 1 || e.Cause != "why" {
			t.Errorf("%s with epoch %d, attempt %d, cause %q", e.Kind(), e.Epoch, e.Attempt, e.Cause)
		}
	}
	c, ok := seen[1].Body.(events.Connected)
	if !ok || c.PID != record.Started()[0] || c.Protocol != "2025-11-25" || c.Era != "handshake" || c.Instructions != "be kind" {
		t.Errorf("connected %+v", seen[1].Body)
	}
	l := last[events.ToolsListed](t, seen)
	blob, err := r.log.GetBlob(t.Context(), l.Digest)
	if err != nil || l.Count != 2 || l.Added.Count != 2 || l.From != "" || !strings.HasPrefix(string(blob), `[{`) {
		t.Errorf("listed %+v, blob %s, %v", l, blob, err)
	}
	if got := r.call(t.Context(), "s", "echo", `{"a":1}`); !strings.Contains(got.result, `{\"a\":1}`) || got.err != nil {
		t.Errorf("call: %+v", got)
	}
	r.command("s", events.Command{Generation: 8})
	seen = r.see("s", seen[2].Seq, events.KindStopping, events.KindStopped)
	if s := last[events.HasStopped](t, seen); s.How != "closed" || len(record.Running()) != 0 {
		t.Errorf("stopped %+v, still there: %v", s, record.Running())
	}
	if err := r.finish(); err != nil {
		t.Error(err)
	}
	left := eventstest.Expect(t, r.log, seen[1].Seq, eventstest.On(events.WorkerChain(testWorker), events.KindLeft)...)
	if l := last[events.Left](t, left); l.Incarnation != testIncarnation {
		t.Errorf("left %+v", l)
	}
	if got := r.kinds("s"); got != "assigned connecting connected tools-listed stopping stopped" {
		t.Errorf("the chain says %s", got)
	}
}

// M9: and the command of a place where nothing ran is answered too.
func TestWorkerAnswersStopped(t *testing.T) {
	r := newRig(t)
	r.assign("s", 1)
	r.command("s", events.Command{})
	r.command("unassigned", events.Command{})
	r.start()
	seen := r.see("s", 0, events.KindStopped)
	if s := last[events.HasStopped](t, seen); s.How != "idle" {
		t.Errorf("stopped %+v", s)
	}
	r.command("s", events.Command{Generation: 1}) // again: it was answered
	record := mcptest.NewRecord(t)
	d := mcptest.Script{Record: record.Path()}.Definition(t)
	r.command("s", events.Command{Definition: &d, Generation: 2}) // and runs in the same epoch
	r.see("s", 0, events.KindStopped, events.KindConnecting, ready)
	if err := r.finish(); err != nil {
		t.Error(err)
	}
	if got := r.kinds("s"); got != "assigned stopped connecting connected tools-listed stopping stopped" {
		t.Errorf("the chain says %s", got)
	}
	if got := r.kinds("unassigned"); got != "" {
		t.Errorf("a chain that is nobody's says %s", got)
	}
}

// R30, case H2
func TestWorkerFollowsChanges(t *testing.T) {
	record := mcptest.NewRecord(t)
	r := newRig(t)
	r.start()
	r.run("s", mcptest.Script{Tools: mcptest.Special, Record: record.Path()}.Definition(t))
	first := r.see("s", 0, ready)
	if got := r.call(t.Context(), "s", "grow", `{"times":200}`); got.err != nil {
		t.Fatalf("grow: %+v", got.err)
	}
	seen := r.see("s", first[0].Seq, ready)
	l := last[events.ToolsListed](t, seen)
	if l.Added.Count != 1 || l.Added.Names[0] != "grown" || l.Removed.Count != 0 || l.Changed.Count != 0 || l.From == "" {
		t.Errorf("listed %+v", l)
	}
	if err := r.finish(); err != nil {
		t.Error(err)
	}
	// Announced 200 times, listed and written once: what is the same is no event.
	if got := r.kinds("s"); got != "assigned connecting connected tools-listed tools-listed stopping stopped" {
		t.Errorf("the chain says %s", got)
	}
}

func TestWorkerListsRawTools(t *testing.T) {
	r := newRig(t)
	r.start()
	s := mcptest.Script{PageSize: 2}
	for _, tool := range []string{
		`{"name":"c","x":9007199254740993}`, `{"name":"bad","inputSchema":{"type":"string"}}`, `{"name":"a","inputSchema":true}`,
		`{"name":"b","outputSchema":7}`, `{"name":"secret"}`,
	} {
		s.Raw = append(s.Raw, []byte(tool))
	}
	d := s.Definition(t)
	d.DisabledTools = []string{"secret"}
	r.run("s", d)
	l := last[events.ToolsListed](t, r.see("s", 0, ready))
	blob, err := r.log.GetBlob(t.Context(), l.Digest)
	if err != nil || string(blob) != `[{"name":"b","outputSchema":7},{"name":"c","x":9007199254740993}]` {
		t.Errorf("blob %s, %v", blob, err)
	}
	if l.Count != 2 || l.Quarantined.Count != 2 || l.Quarantined.Items[0].Path != "/inputSchema/type" {
		t.Errorf("listed %+v", l)
	}
	if got := r.call(t.Context(), "s", "secret", "{}"); got.err == nil || got.err.Outcome != callwire.NotExecuted || got.err.RPCCode != -32602 {
		t.Errorf("a hidden tool: %+v", got)
	}
}

func TestWorkerListFailures(t *testing.T) {
	r := newRig(t)
	r.start()
	loop := mcptest.Script{CursorLoop: true}
	loop.Raw = append(loop.Raw, []byte(`{"name":"a"}`))
	for s, script := range map[events.ServerID]mcptest.Script{"loop": loop, "refuses": {Tools: []string{"x"}, UnlistedTools: true}} {
		d := script.Definition(t)
		d.RestartPolicy = &events.RestartPolicy{MaxRestartAttempts: new(0)}
		r.run(s, d)
	}
	for s, want := range map[events.ServerID]string{"loop": "cursor", "refuses": "no list today"} {
		seen := r.see(s, 0, events.KindConnected, events.KindFailed)
		f := last[events.Failed](t, seen)
		if f.Failure.Code != events.ToolsListFailed || f.Failure.Phase != events.PhaseList || !strings.Contains(f.Failure.Message, want) {
			t.Errorf("%s failed with %+v", s, f.Failure)
		}
	}
}

// case E1, E5: other revisions, and a server without tools.
func TestWorkerRevisions(t *testing.T) {
	r := newRig(t)
	r.start()
	old := mcptest.Script{Revision: "2024-11-05"}.Definition(t)
	r.run("old", old)
	seen := r.see("old", 0, events.KindConnected, ready)
	if c := seen[0].Body.(events.Connected); c.Protocol != "2024-11-05" {
		t.Errorf("connected %+v", c)
	}
	if l := last[events.ToolsListed](t, seen); l.Count != 0 {
		t.Errorf("listed %+v", l)
	}
	modern := mcptest.Script{
		Tools: []string{"echo"}, Refuse: []byte(`{"code":-32601,"message":"no such method"}`),
	}.Definition(t)
	r.run("modern", modern)
	seen = r.see("modern", 0, events.KindConnected, ready)
	if c := seen[0].Body.(events.Connected); c.Protocol != "2026-07-28" || c.Era != "stateless" || len(c.ServerInfo) == 0 {
		t.Errorf("connected %+v", c)
	}
	if got := r.call(t.Context(), "modern", "echo", `{"a":1}`); got.err != nil || !strings.Contains(got.result, `{\"a\":1}`) {
		t.Errorf("call: %+v", got)
	}
	strange := mcptest.Script{Revision: "1999-01-01"}.Definition(t)
	r.run("strange", strange)
	seen = r.see("strange", 0, events.KindFailed, events.KindParked)
	if f := seen[0].Body.(events.Failed); f.Failure.Code != events.ProtocolUnsupported ||
		!strings.Contains(f.Failure.Message, "1999-01-01") || !strings.Contains(f.Failure.Message, "2025-11-25") {
		t.Errorf("failed %+v", f.Failure)
	}
	pinned := modern
	pinned.Protocol = "legacy"
	pinned.RestartPolicy = &events.RestartPolicy{MaxRestartAttempts: new(0)}
	r.run("pinned", pinned)
	seen = r.see("pinned", 0, events.KindFailed)
	if f := last[events.Failed](t, seen); f.Failure.Code != events.HandshakeFailed {
		t.Errorf("failed %+v", f.Failure)
	}
}

// M8, R29: another definition, and a restart that is asked for; one connection
// at a time.
func TestWorkerReconnects(t *testing.T) {
	record := mcptest.NewRecord(t)
	r := newRig(t)
	r.start()
	d := mcptest.Script{Tools: []string{"one"}, Record: record.Path()}.Definition(t)
	r.run("s", d)
	first := r.see("s", 0, ready)
	r.command("s", events.Command{Definition: &d, Generation: 2, Restart: 2})
	second := r.see("s", first[0].Seq, events.KindStopping, events.KindConnecting, ready)
	other := mcptest.Script{Tools: []string{"two"}, Record: record.Path()}.Definition(t)
	r.command("s", events.Command{Definition: &other, Generation: 3, Restart: 2})
	third := r.see("s", second[2].Seq, events.KindStopping, events.KindConnecting, ready)
	l := last[events.ToolsListed](t, third)
	if l.Added.Count != 1 || l.Added.Names[0] != "two" || l.Removed.Count != 1 || l.Removed.Names[0] != "one" {
		t.Errorf("listed %+v", l)
	}
	if c := third[1].Body.(events.Connecting); c.Generation != 3 || c.Definition != other.Digest() {
		t.Errorf("connecting %+v", c)
	}
	if n, lines := len(record.Running()), record.Lines(); n != 1 || strings.Join(words(lines), " ") != "start stop start stop start" {
		t.Errorf("%d run; %v", n, lines)
	}
}

func words(lines []string) []string {
	var first []string
	for _, l := range lines {
		w, _, _ := strings.Cut(l, " ")
		first = append(first, w)
	}
	return first
}

func TestWorkerJoin(t *testing.T) {
	joined := func(i events.Incarnation) events.Event {
		return events.Event{Chain: events.WorkerChain(testWorker), Body: events.Joined{Incarnation: i}}
	}
	t.Run("after another life", func(t *testing.T) {
		r := newRig(t)
		r.write(joined("life-0"))
		r.start()
		eventstest.Expect(t, r.log, 1, eventstest.On(events.WorkerChain(testWorker), events.KindJoined)...)
		if err := r.finish(); err != nil {
			t.Error(err)
		}
	})
	t.Run("twice", func(t *testing.T) {
		r := newRig(t)
		r.write(joined(testIncarnation))
		r.start()
		wait(t, r.ended, "the worker to give up")
		if !errors.Is(r.err, ErrSuperseded) {
			t.Errorf("Run: %v", r.err)
		}
	})
	t.Run("superseded", func(t *testing.T) { // what is no longer ours is not said
		r := newRig(t)
		r.start()
		eventstest.Expect(t, r.log, 0, eventstest.On(events.WorkerChain(testWorker), events.KindJoined)...)
		r.write(joined("life-2"))
		if err := r.finish(); err != nil {
			t.Error(err)
		}
		if n := len(r.stored()); n != 2 {
			t.Errorf("the history has %d events", n)
		}
	})
	t.Run("beside other words", func(t *testing.T) {
		r := newRig(t)
		r.start()
		eventstest.Expect(t, r.log, 0, eventstest.On(events.WorkerChain(testWorker), events.KindJoined)...)
		r.write(events.Event{Chain: events.WorkerChain(testWorker), Body: events.Cordoned{}})
		if err := r.finish(); err != nil {
			t.Error(err)
		}
		eventstest.Expect(t, r.log, 0, eventstest.On(events.WorkerChain(testWorker), events.KindCordoned, events.KindLeft)...)
	})
}

func TestRunChecksItsArguments(t *testing.T) {
	r := newRig(t)
	whole := Parts{Journal: r.log, Inbox: r.log, Blobs: r.log, Lease: r.lease, Calls: r.calls}
	for name, run := range map[string]func() error{
		"no id":          func() error { return Run(t.Context(), whole, &Options{Incarnation: "i"}) },
		"nil":            func() error { return Run(t.Context(), whole, nil) },
		"no incarnation": func() error { return Run(t.Context(), whole, &Options{ID: "w"}) },
		"no journal":     func() error { return Run(t.Context(), Parts{Inbox: r.log}, &Options{ID: "w", Incarnation: "i"}) },
	} {
		if run() == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
