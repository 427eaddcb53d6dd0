package worker

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/errors"

	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/events/callwire"
	"github.com/toolfleet/toolfleet/events/eventstest"
	"github.com/toolfleet/toolfleet/worker/mcptest"
)

// R29, T7, case I1, I2: a server that died is back with its tools.
func TestWorkerRestartsWhatDies(t *testing.T) {
	record := mcptest.NewRecord(t)
	r := newRig(t)
	r.start()
	r.run("s", mcptest.Script{Tools: mcptest.Special, Record: record.Path()}.Definition(t))
	first := r.see("s", 0, ready)
	got := r.call(t.Context(), "s", "die", "{}")
	if got.err == nil || got.err.Outcome != callwire.Unknown || !strings.Contains(got.err.Failure.Message, "status 3\nfatal: last words") {
		t.Errorf("the call that killed it: %+v", got.err)
	}
	seen := r.see("s", first[0].Seq, events.KindFailed, events.KindRestartScheduled, events.KindConnecting,
		events.KindConnected, ready, events.KindRestarted)
	f, ok := seen[0].Body.(events.Failed)
	if !ok || f.Failure.Code != events.Exited || f.Failure.Phase != events.PhaseRun || *f.Exit != 3 || f.StderrTail != "fatal: last words" || f.Attempt != 1 {
		t.Errorf("failed %+v", f)
	}
	if l, ok := seen[4].Body.(events.ToolsListed); !ok || l.Count != len(mcptest.Special) || l.Added.Count != 0 || l.From == "" {
		t.Errorf("listed %+v", l)
	}
	if x := last[events.Restarted](t, seen); x.Attempt != 2 {
		t.Errorf("restarted %+v", x)
	}
	if got := r.call(t.Context(), "s", "echo", "{}"); got.err != nil {
		t.Errorf("a call afterwards: %+v", got.err)
	}
	if pids := record.Started(); len(pids) != 2 || len(record.Running()) != 1 {
		t.Errorf("started %v, running %v", pids, record.Running())
	}
}

func TestWorkerParksWhatCannotRun(t *testing.T) {
	r := newRig(t)
	r.secrets["${secret:s/env.TOKEN#1}"] = "hunter2-hunter2"
	r.start()
	crash := mcptest.Script{Exit: new(1), Stderr: "using hunter2-hunter2\nDB_URL not set\n"}.Definition(t)
	crash.RestartPolicy = &events.RestartPolicy{MaxRestartAttempts: new(0)}
	crash.Env["TOKEN"] = "${secret:s/env.TOKEN#1}"
	r.run("crash", crash)
	r.run("absent", events.Definition{Command: "no-such-command-anywhere"})
	r.run("unresolved", events.Definition{Command: "sh", Env: map[string]string{"KEY": "${NO_SUCH_VARIABLE}"}})
	r.run("sse", events.Definition{Type: events.SSE, URL: "http://127.0.0.1:1/"})
	good := mcptest.Script{Tools: []string{"echo"}}.Definition(t)
	r.run("good", good) // R9: the others' failures are theirs

	r.see("good", 0, ready)
	for s, want := range map[events.ServerID]struct {
		code    events.Code
		phase   events.Phase
		message string
	}{
		"crash":      {events.StartupCrash, events.PhaseHandshake, "exited with status 1 before the handshake was done"},
		"absent":     {events.CommandNotFound, events.PhaseSpawn, "no-such-command-anywhere"},
		"unresolved": {events.UnresolvedVariable, events.PhaseResolve, "env.KEY: variable NO_SUCH_VARIABLE is not set"},
		"sse":        {events.InvalidDefinition, events.PhaseConnect, "sse"},
	} {
		seen := r.see(s, 0, events.KindFailed, events.KindParked)
		f := seen[0].Body.(events.Failed)
		if f.Failure.Code != want.code || f.Failure.Phase != want.phase || !strings.Contains(f.Failure.Message, want.message) {
			t.Errorf("%s failed with %+v, want %+v", s, f.Failure, want)
		}
		if p := last[events.Parked](t, seen); p.ProbeMs != 0 || p.Failure.Code != want.code {
			t.Errorf("%s parked %+v", s, p)
		}
		if s == "crash" && f.StderrTail != "using [redacted]\nDB_URL not set" { // T10
			t.Errorf("stderr %q", f.StderrTail)
		}
	}
	if all := eventstest.Lines(r.stored()) + r.logs.String(); strings.Contains(all, "hunter2") {
		t.Errorf("the secret is in:\n%s", all)
	}
}

// R10, M15, T1, T6, case F4: a handshake that hangs holds up nothing, least of
// all the end.
func TestWorkerHungHandshake(t *testing.T) {
	t.Parallel()
	record := mcptest.NewRecord(t)
	r := newRig(t)
	r.start()
	hung := mcptest.Script{Mute: true, Stubborn: true, Helper: true, Record: record.Path()}.Definition(t)
	hung.GracePeriodMs = new(int64(200))
	for i := range 5 {
		r.run(events.ServerID(fmt.Sprintf("hung-%d", i)), hung)
	}
	r.run("good", mcptest.Script{Tools: []string{"echo"}, Record: record.Path()}.Definition(t))
	r.see("good", 0, ready)
	eventually(t, "all to be started", func() bool { return len(record.Started()) == 11 })
	r.command("hung-0", events.Command{Generation: 2})
	seen := r.see("hung-0", 0, events.KindConnecting, events.KindStopping, events.KindStopped)
	if s := last[events.HasStopped](t, seen); s.How != "killed" {
		t.Errorf("stopped %+v", s)
	}
	if err := r.finish(); err != nil {
		t.Error(err)
	}
	if n := len(record.Running()); n != 0 {
		t.Errorf("%d processes are left", n)
	}
	if got := r.kinds("hung-4"); got != "assigned connecting stopping stopped" {
		t.Errorf("the chain says %s", got)
	}
}

// R13, R32: the limit is for handshake and first list; the environment overrides.
func TestWorkerConnectTimeout(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.options.Env = func(name string) (string, bool) {
		if name == "TOOLFLEET_CONNECT_TIMEOUT" {
			return "400ms", true
		}
		return "", false
	}
	r.start()
	d := mcptest.Script{DelayMs: 60_000}.Definition(t)
	d.ConnectTimeoutMs = new(int64(3_600_000))
	d.RestartPolicy = &events.RestartPolicy{MaxRestartAttempts: new(0)}
	r.run("s", d)
	seen := r.see("s", 0, events.KindConnecting, events.KindFailed, events.KindParked)
	f := seen[1].Body.(events.Failed)
	if f.Failure.Code != events.ConnectTimeout || !strings.Contains(f.Failure.Message, "the limit is 400ms") {
		t.Errorf("failed %+v", f.Failure)
	}
}

// The fence: an owner that was replaced closes what it has and writes nothing.
func TestWorkerLosesAnInstance(t *testing.T) {
	for name, body := range map[string]events.Body{
		"assigned": events.Assigned{Worker: "other", Incarnation: "x", Epoch: 2},
		"lost":     events.Lost{Worker: testWorker},
		"released": events.Released{},
	} {
		t.Run(name, func(t *testing.T) {
			record := mcptest.NewRecord(t)
			r := newRig(t)
			r.start()
			r.run("s", mcptest.Script{Tools: mcptest.Special, Record: record.Path()}.Definition(t))
			r.see("s", 0, ready)
			e := events.Event{Chain: events.InstanceChain("s", "0"), Body: body, Epoch: 1}
			if _, ok := body.(events.Assigned); ok {
				e.Epoch = 2
			}
			r.write(e)
			r.call(t.Context(), "s", "grow", `{"times":1}`) // which is news for the chain
			eventually(t, "the process to be killed", func() bool { return len(record.Running()) == 0 })
			if err := r.finish(); err != nil {
				t.Error(err)
			}
			if got := r.kinds("s"); got != "assigned connecting connected tools-listed "+name {
				t.Errorf("the chain says %s", got)
			}
		})
	}
}

// What others say of times gone by changes nothing, although it is in the way.
func TestWorkerStepsOverOldWords(t *testing.T) {
	r := newRig(t)
	r.write(events.Event{
		Chain: events.InstanceChain("s", "0"), Epoch: 1,
		Body: events.Assigned{Worker: "another", Incarnation: "x", Epoch: 1},
	})
	r.start()
	r.assign("s", 2)
	d := mcptest.Script{Tools: mcptest.Special}.Definition(t)
	r.command("s", events.Command{Definition: &d, Generation: 1, Epoch: 2})
	r.see("s", 0, ready, events.KindRestarted)
	r.write(events.Event{Chain: events.InstanceChain("s", "0"), Epoch: 1, Body: events.Lost{Worker: "another"}})
	if err := r.finish(); err != nil {
		t.Error(err)
	}
	want := "assigned assigned connecting connected tools-listed restarted lost stopping stopped"
	if got := r.kinds("s"); got != want {
		t.Errorf("the chain says %s", got)
	}
}

// A later epoch of the same worker: the former connection goes first.
func TestWorkerNextEpoch(t *testing.T) {
	record := mcptest.NewRecord(t)
	r := newRig(t)
	r.start()
	d := mcptest.Script{Tools: mcptest.Special, Record: record.Path()}.Definition(t)
	r.run("s", d)
	r.see("s", 0, ready)
	r.assign("s", 2)
	r.command("s", events.Command{Definition: &d, Generation: 2, Epoch: 2})
	seen := r.see("s", 0, ready, events.KindAssigned, events.KindConnecting, ready, events.KindRestarted)
	if c := seen[2].Body.(events.Connecting); c.Attempt != 1 || seen[2].Epoch != 2 {
		t.Errorf("connecting %+v in epoch %d", c, seen[2].Epoch)
	}
	if n := len(record.Running()); n != 1 {
		t.Errorf("%d processes run", n)
	}
	// What an earlier epoch, or another life, is told is nobody's business.
	r.command("s", events.Command{Generation: 9, Epoch: 1})
	r.command("s", events.Command{Generation: 9, Epoch: 3, Incarnation: "another life"})
	r.run("marker", mcptest.Script{}.Definition(t))
	r.see("marker", 0, ready)
	if err := r.finish(); err != nil { // it ran until then
		t.Error(err)
	}
	want := "assigned connecting connected tools-listed assigned connecting connected tools-listed restarted stopping stopped"
	if got := r.kinds("s"); got != want {
		t.Errorf("the chain says %s", got)
	}
}

func TestWorkerLease(t *testing.T) {
	t.Parallel()
	record := mcptest.NewRecord(t)
	r := newRig(t)
	r.lease.set(0)
	r.start()
	r.run("s", mcptest.Script{Tools: mcptest.Special, Stubborn: true, Record: record.Path()}.Definition(t))
	eventstest.Expect(t, r.log, 0, eventstest.On(events.WorkerChain(testWorker), events.KindJoined)...)
	r.lease.set(time.Hour)
	first := r.see("s", 0, ready)
	r.lease.set(-time.Second)
	got := r.call(t.Context(), "s", "echo", "{}")
	if got.err == nil || got.err.Outcome != callwire.NotExecuted || got.err.Failure.Code != events.LeaseLost {
		t.Errorf("a call without a lease: %+v", got)
	}
	seen := r.see("s", first[0].Seq, events.KindFailed)
	if f := last[events.Failed](t, seen); f.Failure.Code != events.LeaseLost {
		t.Errorf("failed %+v", f.Failure)
	}
	eventually(t, "the process to be killed", func() bool { return len(record.Running()) == 0 })
	r.lease.set(time.Hour)
	r.see("s", seen[0].Seq, events.KindRestartScheduled, events.KindConnecting, ready, events.KindRestarted)
	if n := len(record.Started()); n != 2 {
		t.Errorf("%d processes were started", n)
	}
}

// An outage of the log stops nothing that runs; what happened is told later, in
// order and once, also where answers were lost.
func TestWorkerOutage(t *testing.T) {
	t.Parallel()
	for name, mode := range map[string]eventstest.OutageMode{"unreachable": eventstest.Unreachable, "answers lost": eventstest.AnswersLost} {
		t.Run(name, func(t *testing.T) {
			record := mcptest.NewRecord(t)
			r := newRig(t)
			r.start()
			r.run("s", mcptest.Script{Tools: mcptest.Special, Record: record.Path()}.Definition(t))
			first := r.see("s", 0, ready)
			r.memory.SetOutage(mode)
			if got := r.call(t.Context(), "s", "echo", "{}"); got.err != nil {
				t.Errorf("a call meanwhile: %+v", got.err)
			}
			r.call(t.Context(), "s", "die", "{}")
			eventually(t, "the process to die", func() bool { return len(record.Running()) == 0 })
			r.memory.SetOutage(eventstest.NoOutage)
			r.see("s", first[0].Seq, events.KindFailed, events.KindRestartScheduled, events.KindConnecting, events.KindConnected,
				ready, events.KindRestarted)
			if err := r.finish(); err != nil {
				t.Error(err)
			}
			want := "assigned connecting connected tools-listed failed restart-scheduled connecting connected tools-listed restarted stopping stopped"
			if got := r.kinds("s"); got != want {
				t.Errorf("the chain says %s", got)
			}
		})
	}
}

// A full history keeps what runs running, and takes the rest when it has room.
func TestWorkerHistoryFull(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.start()
	r.run("s", mcptest.Script{Tools: mcptest.Special}.Definition(t))
	first := r.see("s", 0, ready)
	r.memory.SetFull(true)
	if got := r.call(t.Context(), "s", "grow", `{"times":1}`); got.err != nil {
		t.Fatalf("grow: %+v", got.err)
	}
	eventually(t, "the worker to notice", func() bool {
		return strings.Contains(r.logs.String(), "history is full") || strings.Contains(r.logs.String(), "is full")
	})
	if got := r.call(t.Context(), "s", "echo", "{}"); got.err != nil {
		t.Errorf("a call meanwhile: %+v", got.err)
	}
	r.memory.SetFull(false)
	r.see("s", first[0].Seq, ready)
}

// When the history is another one, everything stops and Run says why.
func TestWorkerHistoryRegressed(t *testing.T) {
	record := mcptest.NewRecord(t)
	r := newRig(t)
	r.start()
	r.run("s", mcptest.Script{Tools: mcptest.Special, Record: record.Path()}.Definition(t))
	r.see("s", 0, ready)
	r.memory.Recreate()
	r.call(t.Context(), "s", "grow", `{"times":1}`)
	wait(t, r.ended, "the worker to give up")
	if !errors.Is(r.err, events.ErrHistoryRegressed) {
		t.Errorf("Run: %v", r.err)
	}
	if n := len(record.Running()); n != 0 {
		t.Errorf("%d processes are left", n)
	}
}

// A process that is killed from outside, while nobody calls.
func TestWorkerNoticesDeath(t *testing.T) {
	record := mcptest.NewRecord(t)
	r := newRig(t)
	r.start()
	r.run("s", mcptest.Script{Record: record.Path()}.Definition(t))
	first := r.see("s", 0, ready)
	if err := syscall.Kill(record.Started()[0], syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	seen := r.see("s", first[0].Seq, events.KindFailed)
	if f := last[events.Failed](t, seen); f.Failure.Code != events.Killed || f.Signal != "SIGKILL" || f.Exit != nil {
		t.Errorf("failed %+v", f)
	}
}
