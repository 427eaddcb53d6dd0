//go:build real

package real

import (
	"bytes"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/projections"
	"github.com/toolfleet/toolfleet/session"
)

type eventRow struct {
	Seq   events.Seq  `json:"seq"`
	Kind  events.Kind `json:"kind"`
	Chain string      `json:"chain"`
	Body  struct {
		Signal  string         `json:"signal"`
		Failure events.Failure `json:"failure"`
	} `json:"body"`
}

// history returns the events of a chain after a position, or of all.
func (f *fleet) history(chain string, after events.Seq) (rows []eventRow) {
	f.t.Helper()
	out, err := f.run("events", "-o", "json")
	if err != nil {
		f.t.Fatal(err)
	}
	if bytes.Contains(out, []byte(f.mark)) {
		f.t.Error("the history holds a literal value of a server's environment")
	}
	for line := range bytes.Lines(out) {
		var r eventRow
		if err := json.Unmarshal(line, &r); err != nil {
			f.t.Fatalf("events wrote %q: %v", line, err)
		}
		if strings.HasPrefix(r.Chain, chain) && r.Seq > after {
			rows = append(rows, r)
		}
	}
	return rows
}

func instanceChain(id events.ServerID) string { return "instance." + string(id) + "." }

// find returns the first event of a kind.
func (f *fleet) find(rows []eventRow, k events.Kind) eventRow {
	f.t.Helper()
	i := slices.IndexFunc(rows, func(r eventRow) bool { return r.Kind == k })
	if i < 0 {
		f.t.Errorf("there is no %s in %v", k, kinds(rows))
		return eventRow{}
	}
	return rows[i]
}

// inOrder checks that the history has events of these kinds, in this order.
func (f *fleet) inOrder(rows []eventRow, want ...events.Kind) {
	f.t.Helper()
	left := want
	for _, r := range rows {
		if len(left) > 0 && r.Kind == left[0] {
			left = left[1:]
		}
	}
	if len(left) > 0 {
		f.t.Errorf("the history is %v; want %v in it", kinds(rows), want)
	}
}

func kinds(rows []eventRow) (all []events.Kind) {
	for _, r := range rows {
		all = append(all, r.Kind)
	}
	return all
}

// loses ends a server while the session is open, and returns what the history
// says of that: its tools turn stale, with the failure beside them, and are live
// again when it is back, without a moment at which any tool is missing.
// R16, R22, T7, T8
func (f *fleet) loses(id events.ServerID, end, back func()) []eventRow {
	f.t.Helper()
	before := f.session.Status()
	was, own, others := *serverOf(&before, id), listing(&before, only(id)), listing(&before, except(id))
	end()
	seen := f.follow(string(id)+" is stale", func(n *session.Status) bool {
		return listing(n, only(id)).in(projections.ToolsStale) && serverOf(n, id).Failure != nil
	})
	back()
	seen = append(seen, f.follow(string(id)+" is live again", func(n *session.Status) bool {
		return listing(n, only(id)).in(projections.ToolsLive)
	})...)
	f.undisturbed(others, id, seen)
	for i := range seen {
		if l := listing(&seen[i], only(id)); !l.same(own) || !l.in(projections.ToolsLive, projections.ToolsStale) {
			f.t.Errorf("as of event %d %s has the tools %v", seen[i].AsOf.Seq, id, l)
		}
	}
	f.restarted(was)
	rows := f.history(instanceChain(id), was.Seq)
	f.inOrder(rows, events.KindFailed, events.KindRestartScheduled, events.KindConnecting,
		events.KindConnected, events.KindToolsListed, events.KindRestarted)
	return rows
}

// restarted waits until a restart is written down, which no tool tells of.
func (f *fleet) restarted(was projections.Status) {
	f.t.Helper()
	f.eventually("the restart of "+string(was.ID), func() bool { return f.status(was.ID).Restarts == was.Restarts+1 })
}

// case I1
func checkKilledChild(f *fleet) {
	pid := f.status(memory).PID
	rows := f.loses(memory, func() {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			f.t.Fatalf("kill %d: %v", pid, err)
		}
	}, func() {})
	if s := f.find(rows, events.KindFailed).Body.Signal; !strings.Contains(s, "KILL") && s != "killed" {
		f.t.Errorf("failed by signal %q, want SIGKILL", s)
	}
	if now := f.status(memory); now.PID == pid || now.PID == 0 || now.State != projections.Ready {
		f.t.Errorf("it is back as process %d, %s; it was %d", now.PID, now.State, pid)
	}
	f.answers(memory, "read_graph", `{}`, "counts")
}

// R29: it is tried again until it is there.
func checkKilledRemote(f *fleet, r *remote) {
	rows := f.loses(overHTTP, r.kill, r.start)
	if c := f.find(rows, events.KindFailed).Body.Failure.Code; c != events.ConnectionRefused {
		f.t.Errorf("it failed with %s, want %s", c, events.ConnectionRefused)
	}
	f.answers(overHTTP, "echo", `{"message":"here again"}`, "here again")
}

// checkKilledFleet kills toolfleet up itself: 2 s later nothing of it is left but
// what is on disk. Started again on that, it has all tools from the first moment,
// and then starts its servers anew, under new epochs.
func checkKilledFleet(f *fleet) {
	before := f.session.Status()
	tools := listing(&before, func(events.ServerID) bool { return true })
	if all := f.processes(); len(all) != 5 { // up, its keeper and three children
		f.t.Errorf("before the kill the processes are %v", all)
	}
	f.leave()
	killed := time.Now()
	if err := f.up.Process.Kill(); err != nil {
		f.t.Fatal(err)
	}
	for f.noneLeft() != nil && time.Since(killed) < 2*time.Second {
		time.Sleep(pause)
	}
	if err := f.noneLeft(); err != nil {
		f.t.Errorf("2 s after the kill: %v", err)
	}
	_ = f.exited() // killed
	f.launch()
	seen := f.follow("all servers are owned anew and ready", func(n *session.Status) bool {
		return !slices.ContainsFunc(before.Servers, func(was projections.Status) bool {
			s := serverOf(n, was.ID)
			return s == nil || s.Epoch <= was.Epoch || !listing(n, only(was.ID)).in(projections.ToolsLive)
		})
	})
	f.t.Logf("all tools are back %v after the kill", time.Since(killed))
	for i := range seen {
		if l := listing(&seen[i], func(events.ServerID) bool { return true }); !l.same(tools) {
			f.t.Errorf("as of event %d there are %d tools, want %d", seen[i].AsOf.Seq, len(l), len(tools))
		}
	}
	joined := f.find(f.history("worker.", before.AsOf.Seq), events.KindJoined)
	for _, was := range before.Servers {
		f.restarted(was)
		f.inOrder(f.history(instanceChain(was.ID), joined.Seq),
			events.KindConnecting, events.KindConnected, events.KindToolsListed, events.KindRestarted)
	}
	f.answers(memory, "read_graph", `{}`, "counts")
	f.answers(overHTTP, "echo", `{"message":"another fleet"}`, "another fleet")
}
