package crash

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/cockroachdb/errors"
	"github.com/go-json-experiment/json"
	"github.com/google/uuid"

	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/events/jetlog"
	"github.com/toolfleet/toolfleet/integration/invariants"
	"github.com/toolfleet/toolfleet/projections"
	"github.com/toolfleet/toolfleet/session"
	"github.com/toolfleet/toolfleet/worker/mcptest"
)

// wrappers are how servers are started that do not run as the first process, and
// leave others behind: package runners, sessions of their own, daemons.
var wrappers = map[string]string{
	"plain":   `"$0"; exit`, // not the shell's last command, or it would become it
	"session": `setsid sh -c '"$0"; exit' "$0"; exit`,
	"daemon":  `(setsid sh -c 'trap "" TERM HUP; sleep 600 & wait' </dev/null >/dev/null 2>&1 &); "$0"; exit`,
	"clean":   `(env -i sh -c 'sleep 600' </dev/null >/dev/null 2>&1 &); "$0"; exit`,
}

// up is a toolfleet up, which can be killed and started again.
type up struct {
	t       *testing.T
	dir     string
	mark    string
	records string
	said    *os.File
	cmd     *exec.Cmd
	done    chan struct{}
}

// newUp writes the configuration of servers behind wrappers.
func newUp(t *testing.T) *up {
	t.Helper()
	u := &up{t: t, dir: t.TempDir(), mark: uuid.NewString(), records: t.TempDir(), said: newOutput(t)}
	all := make(map[string]events.Definition)
	for name, script := range wrappers {
		d := mcptest.Script{Tools: []string{"one", "two"}}.Definition(t)
		d.Env[invariants.RecordVariable] = filepath.Join(u.records, name)
		d.Env[invariants.MarkVariable] = u.mark
		for key := range d.Env {
			d.AllowLiteral = append(d.AllowLiteral, key)
		}
		d.Command, d.Args = "sh", []string{"-c", script, d.Command}
		all[name] = d
	}
	data, err := json.Marshal(map[string]any{"mcpServers": all})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(u.config(), data, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		u.kill()
		if t.Failed() {
			t.Logf("toolfleet up said:\n%s", said(u.said))
		}
	})
	return u
}

func (u *up) config() string { return filepath.Join(u.dir, "mcp.json") }
func (u *up) state() string  { return filepath.Join(u.dir, "state") }

// start starts it and returns how long it took until all tools were live in a
// session.
func (u *up) start() time.Duration {
	u.t.Helper()
	record := filepath.Join(u.state(), "toolfleet", string(events.DefaultFleet), "up.json")
	_ = os.Remove(record) // that of the one before
	u.cmd = exec.Command(filepath.Join(bin, "toolfleet"), "up", "-f", u.config(), "--data", filepath.Join(u.dir, "data"))
	u.cmd.Env = append(os.Environ(), "XDG_STATE_HOME="+u.state(), "NATS_URL=", "TOOLFLEET_SERVER=", "TOOLFLEET_HTTP=off")
	u.cmd.Stdout, u.cmd.Stderr = u.said, u.said
	began := time.Now()
	if err := u.cmd.Start(); err != nil {
		u.t.Fatal(err)
	}
	u.done = make(chan struct{})
	cmd, done := u.cmd, u.done
	go func() {
		_ = cmd.Wait() // it is killed
		close(done)
	}()
	u.listed(record)
	return time.Since(began)
}

// listed waits until a session has all tools.
func (u *up) listed(record string) {
	u.t.Helper()
	var r struct {
		URL string `json:"url"`
	}
	u.eventually("the record", func() bool {
		data, err := os.ReadFile(record)
		return err == nil && json.Unmarshal(data, &r) == nil
	})
	nc, err := jetlog.Connect(u.t.Context(), &jetlog.ConnectOptions{URL: r.URL, Name: "test"})
	if err != nil {
		u.t.Fatal(err)
	}
	defer nc.Close()
	var s *session.Session
	u.eventually("a session", func() bool {
		s, err = session.Open(u.t.Context(), nc, &session.Options{Wait: -1})
		return err == nil
	})
	defer s.Close()
	u.eventually("all tools", func() bool { return allLive(s.Status()) })
}

// allLive says whether all servers run, as processes that are there now, and
// their tools are live.
func allLive(n session.Status) bool {
	for i := range n.Servers {
		if x := &n.Servers[i]; x.ToolsState != projections.ToolsLive || x.PID == 0 || len(living([]int{x.PID})) == 0 {
			return false
		}
	}
	return len(n.Servers) == len(wrappers) && len(n.Tools) == 2*len(wrappers)
}

// eventually asks until the answer is yes; other processes give no other sign.
func (u *up) eventually(what string, ask func() bool) {
	u.t.Helper()
	for end := time.Now().Add(within); !ask(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			u.t.Fatalf("%s: not within %v", what, within)
		}
	}
}

func (u *up) kill() {
	if u.cmd != nil {
		_ = u.cmd.Process.Kill() // it may be gone
		<-u.done
	}
}

// descendants returns a process's descendants, whatever they call themselves.
func descendants(pid int) []int {
	var all []int
	tasks, _ := filepath.Glob(filepath.Join("/proc", itoa(pid), "task/*/children"))
	for _, name := range tasks {
		for _, child := range pids(name) {
			all = append(append(all, child), descendants(child)...)
		}
	}
	return all
}

// TestUpIsKilled kills toolfleet up: within 2 s nothing of it is left. Started
// again on the same folder it has all tools within 3 s more than the first time,
// and no server was ever there twice.
func TestUpIsKilled(t *testing.T) {
	t.Parallel()
	u := newUp(t)
	before := u.start()
	family := descendants(u.cmd.Process.Pid)
	if marked, err := invariants.Processes(u.mark); err != nil || len(marked) < 3*len(wrappers)-3 {
		t.Errorf("processes %v are marked; %v", marked, err)
	}
	killed := time.Now()
	u.kill()
	left := family
	for len(left) > 0 && time.Since(killed) < 2*time.Second {
		time.Sleep(5 * time.Millisecond)
		left = living(family)
	}
	t.Logf("%d processes ended after %v", len(family), time.Since(killed))
	if err := invariants.NoneLeft(u.mark); err != nil || len(left) > 0 {
		t.Fatalf("2 s later there are %v; %v", left, err)
	}
	again := u.start()
	t.Logf("tools after %v, and the second time %v", before, again)
	if again > before+3*time.Second {
		t.Errorf("all tools are back after %v; the first time it took %v", again, before)
	}
	var wrong error
	for name := range wrappers {
		wrong = errors.CombineErrors(wrong, invariants.Record(filepath.Join(u.records, name)).Check())
	}
	if wrong != nil {
		t.Error(wrong)
	}
}
