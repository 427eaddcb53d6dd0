//go:build bench

package bench

import (
	"bytes"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/events/jetlog"
	"github.com/toolfleet/toolfleet/projections/kvview"
)

// past is a history that the verbs about the past are asked about, at a server
// that is reached over loopback TCP.
type past struct {
	t      *testing.T
	server string
	fleet  events.FleetID
	// busy is the most processor time that a process of a verb took.
	busy time.Duration
}

// run runs a verb as a process of its own, and returns how long it took. The
// fleet is one that no controller looks after.
func (p *past) run(args ...string) time.Duration {
	p.t.Helper()
	cmd := exec.CommandContext(p.t.Context(), program(p.t, "toolfleet"), append(args, "--server", p.server, "--fleet", string(p.fleet))...)
	cmd.Env = append(os.Environ(), "XDG_STATE_HOME="+p.t.TempDir())
	var said bytes.Buffer
	cmd.Stderr = &said
	began := time.Now()
	out, err := cmd.Output()
	if err != nil || len(out) == 0 {
		p.t.Fatalf("%v: %v, %d bytes, %s", args, err, len(out), &said)
	}
	took := time.Since(began)
	p.busy = max(p.busy, cmd.ProcessState.UserTime()+cmd.ProcessState.SystemTime())
	return took
}

// TestBenchAt measures how long it takes, from the start of the process to its end,
// to show what was at a position of 100,000 events: all servers, which folds the
// history up to there, and one, which reads its chains alone.
func TestBenchAt(t *testing.T) {
	const total, servers, rounds = 100_000, 1000, 5
	e := broker(t)
	l := open(t, connect(t, e), "history")
	fill(t, l, total, servers)
	p := &past{t: t, server: e.URL(), fleet: "history"}
	positions := []int{1 + servers, total / 3, total / 2, total - 1, total}
	var all, one []time.Duration
	for range rounds {
		for _, at := range positions {
			all = append(all, p.run("get", "workers", "--at", strconv.Itoa(at), "-o", "json"))
			one = append(one, p.run("events", "server-0007", "--until", strconv.Itoa(at)))
		}
	}
	slices.Sort(all)
	slices.Sort(one)
	t.Logf("folded %v to %v, one server's %v to %v; at the most %v of processor time", all[0], all[len(all)-1], one[0], one[len(one)-1], p.busy)
	most := all[len(all)-1]
	verdict(t, most <= time.Second, "--at of %d events, any position: %v at the most, %v in the middle (at most 1 s)",
		total, most.Round(time.Millisecond), all[len(all)/2].Round(time.Millisecond))
	verdict(t, one[len(one)-1] <= time.Second, "the events of one server of %d: %v at the most (at most 1 s)", servers, one[len(one)-1].Round(time.Millisecond))
}

// putLists stores the lists that a history refers to: without them, whoever needs
// one waits for it.
func putLists(t *testing.T, l *jetlog.Log, servers int) {
	t.Helper()
	for i := range servers {
		if _, err := l.PutBlob(t.Context(), toolsOf(lifecycle(0, i).Chain)); err != nil {
			t.Fatal(err)
		}
	}
}

// TestBenchVerify compares verify, which proves, folds and compares with the views,
// to a raw consumer that only counts.
func TestBenchVerify(t *testing.T) {
	const total, servers, rounds = 300_000, 1000, 3
	e := broker(t)
	nc := connect(t, e)
	l := open(t, nc, "history")
	fill(t, l, total, servers)
	putLists(t, l, servers)
	if _, err := kvview.Rebuild(t.Context(), l, nil); err != nil {
		t.Fatal(err)
	}
	p := &past{t: t, server: e.URL(), fleet: "history"}
	var ratios []float64
	for range rounds {
		raw := rate(total, func() { count(t, nc, total) })
		ours := rate(total, func() { p.run("verify") })
		t.Logf("raw %.0f/s, verify %.0f/s", raw, ours)
		ratios = append(ratios, ours/raw)
	}
	verdict(t, median(ratios) >= 0.25, "verify %d events: %.2f of a raw consumer (at least 0.25)", total, median(ratios))
}
