//go:build real

package real

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/events/jetlog"
	"github.com/toolfleet/toolfleet/integration/invariants"
	"github.com/toolfleet/toolfleet/session"
)

// hang bounds what the tests wait for: ten times what a busy machine needs.
const hang = time.Minute

// server is an entry of the configuration file.
type server struct {
	ID      events.ServerID   `json:"-"`
	Command string            `json:"command,omitzero"`
	Args    []string          `json:"args,omitzero"`
	Env     map[string]string `json:"env,omitzero"`
	URL     string            `json:"url,omitzero"`
}

// environ is the environment that a test starts the server in.
func (s *server) environ() []string {
	env := os.Environ()
	for k, v := range s.Env {
		env = append(env, k+"="+v)
	}
	return env
}

// fleet is a toolfleet up with its own folders, and a session with it.
type fleet struct {
	t       *testing.T
	servers []server
	binary  string
	config  string
	data    string
	env     []string
	mark    string
	state   string // the folder of states

	up    *exec.Cmd
	said  *output
	ended chan error

	log     *jetlog.Log
	session *session.Session
	// closers end the clients that are attached to it.
	closers []func()
}

// start builds toolfleet and runs it with the servers. What a failed test leaves
// is ended with the test.
func start(t *testing.T, servers []server) *fleet {
	t.Helper()
	dir := t.TempDir()
	f := &fleet{
		t: t, servers: servers, mark: randomMark(), said: &output{}, binary: filepath.Join(dir, "toolfleet"),
		config: filepath.Join(dir, "mcp.json"), data: filepath.Join(dir, "data"), state: filepath.Join(dir, "state"),
	}
	build := exec.Command("go", "build", "-o", f.binary, "github.com/toolfleet/toolfleet/cmd/toolfleet")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build toolfleet: %v\n%s", err, out)
	}
	f.configure()
	f.env = append(os.Environ(), "XDG_STATE_HOME="+f.state,
		// Nothing else names a fleet.
		"XDG_CONFIG_HOME="+f.state, "TOOLFLEET_SERVER=", "TOOLFLEET_CONTEXT=", "NATS_URL=", "NATS_CONTEXT=", "TOOLFLEET_HTTP=127.0.0.1:0")
	t.Cleanup(func() {
		f.cleanUp()
		if t.Failed() {
			t.Logf("toolfleet up said:\n%s", f.said)
		}
	})
	f.launch()
	return f
}

// configure writes the configuration file. The processes of each child have a
// mark of their own.
func (f *fleet) configure() {
	f.t.Helper()
	file := map[string]map[events.ServerID]server{"mcpServers": {}}
	for _, s := range f.servers {
		if s.Command != "" {
			env := map[string]string{invariants.MarkVariable: f.markOf(s.ID)}
			maps.Copy(env, s.Env)
			s.Env = env
		}
		file["mcpServers"][s.ID] = s
	}
	data, err := json.Marshal(file)
	if err != nil {
		f.t.Fatal(err)
	}
	if err := os.WriteFile(f.config, data, 0o600); err != nil {
		f.t.Fatal(err)
	}
}

func randomMark() string {
	b := make([]byte, 12)
	_, _ = rand.Read(b) // never fails
	return hex.EncodeToString(b)
}

// launch runs toolfleet up and opens a session as soon as there is a fleet.
func (f *fleet) launch() {
	f.t.Helper()
	up := exec.Command(f.binary, "up", "-f", f.config, "--data", f.data)
	up.Env, up.Stdout, up.Stderr = f.env, f.said, f.said
	if err := up.Start(); err != nil {
		f.t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- up.Wait() }()
	f.up, f.ended = up, ended
	f.attend()
}

// attend opens the fleet's history and a session, where the running toolfleet up
// says that it is.
func (f *fleet) attend() {
	f.t.Helper()
	var record struct {
		URL string `json:"url"`
		PID int    `json:"pid"`
	}
	f.eventually("the record of the running fleet", func() bool {
		data, err := os.ReadFile(filepath.Join(f.state, "toolfleet", string(events.DefaultFleet), "up.json"))
		return err == nil && json.Unmarshal(data, &record) == nil && record.PID == f.up.Process.Pid
	})
	ctx, cancel := context.WithTimeout(f.t.Context(), hang)
	defer cancel()
	nc, err := jetlog.Connect(ctx, &jetlog.ConnectOptions{URL: record.URL, Name: "test"})
	if err != nil {
		f.t.Fatal(err)
	}
	if f.log, err = jetlog.Open(ctx, nc, events.DefaultFleet, nil); err != nil {
		f.t.Fatal(err)
	}
	if f.session, err = session.Open(ctx, nc, &session.Options{Wait: -1}); err != nil {
		f.t.Fatal(err)
	}
}

// leave closes what attend opened.
func (f *fleet) leave() {
	if f.session != nil {
		f.session.Close()
		f.session = nil
		f.log.Conn().Close()
	}
}

// exited waits for the end of toolfleet up.
func (f *fleet) exited() error {
	f.t.Helper()
	limit := time.NewTimer(hang)
	defer limit.Stop()
	select {
	case err := <-f.ended:
		f.ended <- err
		return err
	case <-limit.C:
		f.t.Fatal("toolfleet up does not end")
		return nil
	}
}

// closing has a client ended before the fleet is.
func (f *fleet) closing(end func()) { f.closers = append(f.closers, end) }

// interrupt ends the clients, and toolfleet up as Ctrl-C does.
func (f *fleet) interrupt() {
	f.t.Helper()
	f.dismiss()
	f.leave()
	if err := f.up.Process.Signal(os.Interrupt); err != nil {
		f.t.Fatal(err)
	}
	if err := f.exited(); err != nil {
		f.t.Errorf("toolfleet up: %v", err)
	}
}

func (f *fleet) dismiss() {
	for _, end := range f.closers {
		end()
	}
	f.closers = nil
}

// cleanUp ends what a failed test left.
func (f *fleet) cleanUp() {
	f.dismiss()
	f.leave()
	for _, pid := range f.processes() {
		_ = syscall.Kill(pid, syscall.SIGKILL) // it may be gone
	}
	if f.up != nil {
		_ = f.exited() // killed
	}
}

// run runs a verb and returns what it wrote to standard output.
func (f *fleet) run(args ...string) ([]byte, error) {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(f.t.Context(), hang)
	defer cancel()
	cmd := exec.CommandContext(ctx, f.binary, args...)
	cmd.Env = f.env
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		f.t.Logf("toolfleet %s: %v: %s", strings.Join(args, " "), err, &stderr)
	}
	return out, err
}

// get decodes what a verb writes with -o json.
func get[T any](f *fleet, args ...string) T {
	f.t.Helper()
	var v T
	out, err := f.run(append(args, "-o", "json")...)
	if err != nil {
		f.t.Fatalf("toolfleet %s: %v", strings.Join(args, " "), err)
	}
	if err := json.Unmarshal(out, &v); err != nil {
		f.t.Fatalf("toolfleet %s wrote %q: %v", strings.Join(args, " "), out, err)
	}
	return v
}

// eventually asks until the answer is yes, as long as toolfleet up runs.
func (f *fleet) eventually(what string, ask func() bool) {
	f.t.Helper()
	eventually(f.t, what, func() bool {
		select {
		case err := <-f.ended:
			f.ended <- err
			f.t.Fatalf("waiting for %s: toolfleet up ended: %v", what, err)
		default:
		}
		return ask()
	})
}

// pause lies between two questions.
const pause = 10 * time.Millisecond

// eventually asks until the answer is yes, for what gives no other sign.
func eventually(t *testing.T, what string, ask func() bool) {
	t.Helper()
	for limit := time.Now().Add(hang); !ask(); time.Sleep(pause) {
		if time.Now().After(limit) {
			t.Fatalf("%s: not within %v", what, hang)
		}
	}
}
