//go:build real

package real

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
)

// server is an entry of the configuration file.
type server struct {
	ID      string            `json:"-"`
	Command string            `json:"command"`
	Args    []string          `json:"args"`
	Env     map[string]string `json:"env"`
}

func (s *server) environment() (env []string) {
	for k, v := range s.Env {
		env = append(env, k+"="+v)
	}
	return env
}

// markName is the variable that marks every process of a test; the servers get
// it through their definitions.
const markName = "TOOLFLEET_TEST_MARK"

// fleet is a running toolfleet up with its own folders.
type fleet struct {
	t      *testing.T
	binary string
	env    []string
	mark   string
	state  string // the folder of states
	up     *exec.Cmd
	said   *bytes.Buffer
	ended  chan error
}

// start builds toolfleet and runs it with the servers. It is stopped with the
// test, if the test did not.
func start(t *testing.T, servers func(mark string) []server) *fleet {
	t.Helper()
	dir := t.TempDir()
	f := &fleet{t: t, binary: filepath.Join(dir, "toolfleet"), mark: randomMark(), state: filepath.Join(dir, "state"), said: new(bytes.Buffer), ended: make(chan error, 1)}
	build := exec.Command("go", "build", "-o", f.binary, "github.com/toolfleet/toolfleet/cmd/toolfleet")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build toolfleet: %v\n%s", err, out)
	}
	file := map[string]map[string]server{"mcpServers": {}}
	for _, s := range servers(f.mark) {
		file["mcpServers"][s.ID] = s
	}
	data, err := json.Marshal(file)
	if err != nil {
		t.Fatal(err)
	}
	config := filepath.Join(dir, "mcp.json")
	if err := os.WriteFile(config, data, 0o600); err != nil {
		t.Fatal(err)
	}
	f.env = append(os.Environ(), markName+"="+f.mark, "XDG_STATE_HOME="+f.state,
		"TOOLFLEET_SERVER=", "NATS_URL=")
	f.up = exec.Command(f.binary, "up", "-f", config, "--data", filepath.Join(dir, "data"))
	f.up.Env, f.up.Stdout, f.up.Stderr = f.env, f.said, f.said
	if err := f.up.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { f.ended <- f.up.Wait() }()
	t.Cleanup(f.cleanUp)
	return f
}

func randomMark() string {
	b := make([]byte, 12)
	_, _ = rand.Read(b) // never fails
	return hex.EncodeToString(b)
}

// cleanUp ends what a failed test left.
func (f *fleet) cleanUp() {
	_ = f.up.Process.Kill()
	for _, p := range marked(f.t, f.mark) {
		_ = p.kill()
	}
	if f.t.Failed() {
		f.t.Logf("toolfleet up said:\n%s", f.said)
	}
}

// run runs a verb and returns what it wrote to standard output.
func (f *fleet) run(args ...string) ([]byte, error) {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(f.t.Context(), time.Minute)
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

// eventually asks until the answer is yes; real processes give no other sign.
func (f *fleet) eventually(what string, within time.Duration, ask func() bool) {
	f.t.Helper()
	for limit := time.Now().Add(within); !ask(); time.Sleep(250 * time.Millisecond) {
		select {
		case err := <-f.ended:
			f.ended <- err
			f.t.Fatalf("waiting for %s: toolfleet up ended: %v", what, err)
		default:
		}
		if time.Now().After(limit) {
			f.t.Fatalf("%s: not within %v", what, within)
		}
	}
}

type serverRow struct {
	ID       string `json:"id"`
	Want     string `json:"want"`
	State    string `json:"state"`
	Tools    int    `json:"tools"`
	Restarts int    `json:"restarts"`
}

// ready says whether all of the servers are, and which row each has.
func (f *fleet) ready(count int) (map[string]serverRow, bool) {
	rows := make(map[string]serverRow)
	out, err := f.run("get", "servers", "-o", "json")
	var list []serverRow
	if err != nil || json.Unmarshal(out, &list) != nil {
		return nil, false
	}
	for _, r := range list {
		if rows[r.ID] = r; r.State != "ready" {
			return rows, false
		}
	}
	return rows, len(rows) == count
}
