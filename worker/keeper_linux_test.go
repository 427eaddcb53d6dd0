package worker

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/worker/keeper"
	"github.com/toolfleet/toolfleet/worker/mcptest"
)

// keep gives the rig's worker a keeper, whose lease ends in an hour.
func (r *rig) keep() *keeper.Keeper {
	r.t.Helper()
	k := keeper.New(&keeper.Options{Folder: "rig" + filepath.Base(r.t.TempDir()) + strconv.Itoa(os.Getpid()), Logger: r.options.Logger})
	k.Renewed(1 << 62)
	ctx, stop := context.WithCancel(context.WithoutCancel(r.t.Context()))
	over := make(chan error, 1)
	go func() { over <- k.Run(ctx) }()
	r.t.Cleanup(func() { // after the worker, which starts later
		stop()
		if err := <-over; err != nil {
			r.t.Error(err)
		}
	})
	r.spawner = k
	return k
}

// helper returns the keeper's process.
func helper(t *testing.T) int {
	t.Helper()
	var pid int
	eventually(t, "a keeper", func() bool {
		names, err := filepath.Glob("/proc/[0-9]*/stat")
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			stat, err := os.ReadFile(name)
			if err != nil {
				continue // it is gone
			}
			// The name of a process is cut after 15 letters.
			before, after, ok := strings.Cut(string(stat), ") ")
			line, err := os.ReadFile(filepath.Join(filepath.Dir(name), "cmdline"))
			if fields := strings.Fields(after); ok && err == nil && fields[1] == strconv.Itoa(os.Getpid()) && strings.HasPrefix(string(line), "toolfleet-keeper\x00") {
				number, _, _ := strings.Cut(before, " ")
				if pid, err = strconv.Atoi(number); err != nil {
					t.Fatal(err)
				}
			}
		}
		return pid != 0
	})
	return pid
}

// wrapped returns a server that is started by a shell, after what else the
// script does; what it writes to $LOG are numbers of processes.
func wrapped(t *testing.T, s mcptest.Script, script string) (d events.Definition, started func() []int) {
	t.Helper()
	d = s.Definition(t)
	log := filepath.Join(t.TempDir(), "log")
	d.Env["LOG"] = log
	d.Args = []string{"-c", script + `; exec "$0"`, d.Command}
	d.Command = "/bin/sh"
	return d, func() []int {
		text, err := os.ReadFile(log)
		if err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		var pids []int
		for word := range strings.FieldsSeq(string(text)) {
			pid, err := strconv.Atoi(word)
			if err != nil {
				t.Fatal(err)
			}
			pids = append(pids, pid)
		}
		return pids
	}
}

// escape starts a process in a session of its own.
const escape = `setsid sh -c 'echo $$ >>"$LOG"; exec sleep 1000' </dev/null >/dev/null 2>&1 &`

// M15, R33: a descendant in a session of its own ends with its server, and only
// with that.
func TestStopReachesOtherSessions(t *testing.T) {
	r := newRig(t)
	r.keep()
	r.start()
	a, inA := wrapped(t, mcptest.Script{Tools: mcptest.Special}, "("+escape+")")
	b, inB := wrapped(t, mcptest.Script{Tools: mcptest.Special}, "("+escape+")")
	r.run("a", a)
	r.run("b", b)
	r.see("a", 0, events.KindToolsListed)
	r.see("b", 0, events.KindToolsListed)
	eventually(t, "the descendants", func() bool { return len(inA()) == 1 && len(inB()) == 1 })
	r.command("a", events.Command{Generation: 2})
	seen := r.see("a", 0, events.KindStopped)
	if how := last[events.HasStopped](t, seen).How; how != "closed" {
		t.Errorf("stopped: %s", how)
	}
	if err := syscall.Kill(inA()[0], 0); err == nil {
		t.Error("the descendant is there")
	}
	if err := syscall.Kill(inB()[0], 0); err != nil {
		t.Error("another server's descendant is gone")
	}
	if err := r.finish(); err != nil {
		t.Error(err)
	}
	if err := syscall.Kill(inB()[0], 0); err == nil {
		t.Error("the worker has ended, and a descendant is there")
	}
}

// R33, T6: a server that ignores everything delays nobody's stop but its own.
func TestStubbornServerUnderAKeeper(t *testing.T) {
	record := mcptest.NewRecord(t)
	r := newRig(t)
	r.keep()
	r.start()
	stubborn := mcptest.Script{Tools: mcptest.Special, Stubborn: true, KeepOn: true, Helper: true, Record: record.Path()}.Definition(t)
	stubborn.GracePeriodMs = new(int64(3000))
	r.run("stubborn", stubborn)
	r.run("polite", mcptest.Script{Tools: mcptest.Special, Record: record.Path()}.Definition(t))
	r.see("stubborn", 0, events.KindToolsListed)
	r.see("polite", 0, events.KindToolsListed)
	began := time.Now()
	r.command("stubborn", events.Command{Generation: 2})
	r.command("polite", events.Command{Generation: 2})
	r.see("polite", 0, events.KindStopped)
	if d := time.Since(began); d > 2*time.Second {
		t.Errorf("the polite one took %s", d)
	}
	seen := r.see("stubborn", 0, events.KindStopped)
	if how := last[events.HasStopped](t, seen).How; how != "killed" {
		t.Errorf("stopped: %s", how)
	}
	record.NoneLeft()
}

// case D2: a server that floods its stderr works.
func TestFloodOfStderrUnderAKeeper(t *testing.T) {
	r := newRig(t)
	r.keep()
	r.start()
	d, _ := wrapped(t, mcptest.Script{Tools: mcptest.Special}, `(while echo flood >&2; do :; done &)`)
	r.run("a", d)
	r.see("a", 0, events.KindToolsListed)
	if c := r.call(t.Context(), "a", "echo", `{"a":1}`); c.err != nil {
		t.Error(c.err)
	}
	r.command("a", events.Command{Generation: 2})
	r.see("a", 0, events.KindStopped)
}

// The death of the keeper is a failure of each instance, which another keeper
// then starts again.
func TestInstancesSurviveTheirKeeper(t *testing.T) {
	r := newRig(t)
	r.keep()
	r.start()
	d, started := wrapped(t, mcptest.Script{Tools: mcptest.Special}, "("+escape+")")
	r.run("a", d)
	r.run("b", mcptest.Script{Tools: mcptest.Special}.Definition(t))
	r.see("a", 0, events.KindToolsListed)
	r.see("b", 0, events.KindToolsListed)
	eventually(t, "the descendant", func() bool { return len(started()) == 1 })
	first := helper(t)
	if err := syscall.Kill(first, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	for _, s := range []events.ServerID{"a", "b"} {
		seen := r.see(s, 0, events.KindFailed)
		f := last[events.Failed](t, seen)
		if f.Failure.Code != events.Killed || f.Signal != "SIGKILL" || !strings.Contains(f.Failure.Message, "keeper") || !f.Failure.Retry {
			t.Errorf("%s: %+v", s, f)
		}
		r.see(s, seen[len(seen)-1].Seq, events.KindConnected, events.KindToolsListed, events.KindRestarted)
	}
	if err := syscall.Kill(started()[0], 0); err == nil {
		t.Error("the descendant of the first one is there")
	}
	if helper(t) == first {
		t.Error("there is no other keeper")
	}
}

// Children that the keeper killed because the lease was over are not blamed on
// their servers.
func TestTheKeepersLeaseIsTheWorkers(t *testing.T) {
	r := newRig(t)
	k := r.keep()
	r.start()
	r.run("a", mcptest.Script{Tools: mcptest.Special}.Definition(t))
	r.see("a", 0, events.KindToolsListed)
	r.lease.set(time.Hour) // the worker does not know: it might have been frozen
	k.Renewed(0)
	seen := r.see("a", 0, events.KindFailed)
	if f := last[events.Failed](t, seen); f.Failure.Code != events.LeaseLost {
		t.Errorf("%+v", f)
	}
	r.lease.set(0)
	k.Renewed(1 << 62)
	eventually(t, "the end of the lease to be seen", func() bool { return strings.Contains(r.logs.String(), "the lease is over") })
	r.lease.set(time.Hour)
	r.see("a", seen[len(seen)-1].Seq, events.KindToolsListed, events.KindRestarted)
}

// Each process has the name of its connection in its environment.
func TestChildrenAreMarked(t *testing.T) {
	record := mcptest.NewRecord(t)
	r := newRig(t)
	r.keep()
	r.start()
	r.run("a", mcptest.Script{Tools: mcptest.Special, Record: record.Path()}.Definition(t))
	r.see("a", 0, events.KindToolsListed)
	environ, err := os.ReadFile("/proc/" + strconv.Itoa(record.Started()[0]) + "/environ")
	if err != nil {
		t.Fatal(err)
	}
	if want := "/" + string(testIncarnation) + "/a/0/1.1\x00"; !strings.Contains(string(environ), keeper.Marker+"=rig") || !strings.Contains(string(environ), want) {
		t.Errorf("%q has no %s of …%q", environ, keeper.Marker, want)
	}
}
