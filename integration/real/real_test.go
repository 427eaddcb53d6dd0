//go:build real

package real

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/errors"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// startWithin bounds the start of three node processes on a busy machine.
const startWithin = 2 * time.Minute

// published returns the servers of package-lock.json.
func published(t *testing.T, files string) func(mark string) []server {
	t.Helper()
	node, err := exec.LookPath("node")
	if err != nil {
		t.Fatalf("these tests need node: %v", err)
	}
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	script := func(name string) string {
		path := filepath.Join(here, "node_modules", "@modelcontextprotocol", "server-"+name, "dist", "index.js")
		if _, err := os.Stat(path); err != nil {
			t.Fatalf("run npm ci --ignore-scripts in %s: %v", here, err)
		}
		return path
	}
	return func(mark string) []server {
		env := map[string]string{markName: mark}
		return []server{
			{ID: "everything", Command: node, Args: []string{script("everything"), "stdio"}, Env: env},
			{ID: "filesystem", Command: node, Args: []string{script("filesystem"), files}, Env: env},
			{ID: "memory", Command: node, Args: []string{script("memory")}, Env: map[string]string{
				markName: mark, "MEMORY_FILE_PATH": filepath.Join(files, "memory.jsonl"),
			}},
		}
	}
}

func TestPublishedServers(t *testing.T) {
	files := t.TempDir()
	servers := published(t, files)
	f := start(t, servers)
	f.eventually("three servers ready", startWithin, func() bool {
		_, ok := f.ready(3)
		return ok
	})

	t.Run("tools are those of a bare client", func(t *testing.T) { checkTools(t, f, servers(f.mark)) })
	t.Run("calls", func(t *testing.T) { checkCalls(t, f, files) })
	t.Run("a killed child comes back", func(t *testing.T) { checkKill(t, f) })
	t.Run("history gives the views", func(t *testing.T) { checkHistory(t, f) })
	t.Run("Ctrl-C leaves nothing", func(t *testing.T) { checkStop(t, f) })
}

type toolRow struct {
	Name        string         `json:"name"`
	Server      string         `json:"server"`
	Tool        string         `json:"tool"`
	State       string         `json:"state"`
	Description string         `json:"description"`
	InputSchema jsontext.Value `json:"inputSchema"`
}

func checkTools(t *testing.T, f *fleet, servers []server) {
	rows := get[[]toolRow](f, "tools")
	if !slices.IsSortedFunc(rows, func(a, b toolRow) int { return strings.Compare(a.Name, b.Name) }) {
		t.Error("the tools are not sorted by name") // R19
	}
	for _, s := range servers {
		bare := listBare(t, s)
		if len(bare) == 0 {
			t.Errorf("the bare client saw no tools of %s", s.ID)
		}
		for _, r := range rows {
			if r.Server != s.ID {
				continue
			}
			if r.State != "live" {
				t.Errorf("%s is %s", r.Name, r.State)
			}
			want, ok := bare[r.Tool]
			if !ok {
				t.Errorf("%s: the bare client has no such tool", r.Name)
				continue
			}
			delete(bare, r.Tool)
			var tool toolRow
			if err := json.Unmarshal(want, &tool); err != nil {
				t.Fatal(err)
			}
			if got, want := canonical(t, r.InputSchema), canonical(t, tool.InputSchema); got != want {
				t.Errorf("schema of %s:\n got %s\nwant %s", r.Name, got, want)
			}
			if r.Description != tool.Description {
				t.Errorf("description of %s: got %q, want %q", r.Name, r.Description, tool.Description)
			}
		}
		for name := range bare {
			t.Errorf("%s: tool %s is not listed", s.ID, name)
		}
	}
}

func canonical(t *testing.T, v jsontext.Value) string {
	t.Helper()
	c := v.Clone()
	if err := c.Canonicalize(); err != nil {
		t.Fatalf("%s: %v", v, err)
	}
	return string(c)
}

func checkCalls(t *testing.T, f *fleet, files string) {
	if err := os.WriteFile(filepath.Join(files, "hello.txt"), []byte("good morning"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ tool, arguments, want string }{
		{"everything__echo", `{"message":"over the bus"}`, "over the bus"},
		{"filesystem__read_text_file", fmt.Sprintf(`{"path":%q}`, filepath.Join(files, "hello.txt")), "good morning"},
		{"memory__create_entities", `{"entities":[{"name":"Ada","entityType":"person","observations":["counts"]}]}`, "Ada"},
		{"memory__read_graph", `{}`, "counts"},
	} {
		out, err := f.run("call", tt.tool, tt.arguments)
		if err != nil || !bytes.Contains(out, []byte(tt.want)) {
			t.Errorf("%s answered %s, %v; want %q in it", tt.tool, out, err, tt.want)
		}
	}
	// A server's own error passes as it is. R20
	out, err := f.run("call", "filesystem__read_text_file", `{"path":"/etc/passwd"}`)
	if exitStatus(err) != 5 || !bytes.Contains(out, []byte("Access denied")) {
		t.Errorf("reading outside the folder: %s, %v", out, err)
	}
	if _, err := f.run("call", "everything__no_such_tool"); exitStatus(err) != 3 {
		t.Errorf("an unknown tool: %v, want exit status 3", err)
	}
}

func exitStatus(err error) int {
	var e *exec.ExitError
	if !errors.As(err, &e) {
		return 0
	}
	return e.ExitCode()
}

type eventRow struct {
	Seq   uint64 `json:"seq"`
	Kind  string `json:"kind"`
	Chain string `json:"chain"`
	Body  struct {
		Signal string `json:"signal"`
		PID    int    `json:"pid"`
	} `json:"body"`
}

func (f *fleet) history() (rows []eventRow) {
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
		rows = append(rows, r)
	}
	return rows
}

func checkKill(t *testing.T, f *fleet) {
	const chain = "instance.memory.0"
	var pid int
	for _, r := range f.history() {
		if r.Chain == chain && r.Kind == "connected" {
			pid = r.Body.PID
		}
	}
	if pid == 0 {
		t.Fatal("the history names no process of the memory server")
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatalf("kill %d: %v", pid, err)
	}
	f.eventually("the memory server ready again", time.Minute, func() bool {
		rows, ok := f.ready(3)
		return ok && rows["memory"].Restarts == 1
	})
	var kinds []string
	var signal string
	for _, r := range f.history() {
		if r.Chain != chain {
			continue
		}
		kinds = append(kinds, r.Kind)
		if r.Kind == "failed" {
			signal = r.Body.Signal
		}
	}
	from := slices.Index(kinds, "failed")
	if from < 0 || !slices.Contains(kinds[from:], "connected") || !slices.Contains(kinds[from:], "restarted") {
		t.Errorf("the instance's history is %v; want failed, then connected and restarted", kinds)
	}
	if !strings.Contains(signal, "KILL") && signal != "killed" {
		t.Errorf("failed by signal %q, want SIGKILL", signal)
	}
	if out, err := f.run("call", "memory__read_graph", "{}"); err != nil || !bytes.Contains(out, []byte("counts")) {
		t.Errorf("after the restart the server answered %s, %v", out, err)
	}
}

func checkStop(t *testing.T, f *fleet) {
	if len(marked(t, f.mark)) < 4 {
		t.Errorf("before the stop: %v; want the fleet and three servers", marked(t, f.mark))
	}
	begun := time.Now()
	if err := f.up.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	select {
	case err := <-f.ended:
		f.ended <- err
		if err != nil {
			t.Errorf("toolfleet up: %v", err)
		}
	case <-ctx.Done():
		t.Fatal("toolfleet up did not stop")
	}
	if took := time.Since(begun); took > 10*time.Second {
		t.Errorf("the stop took %v", took)
	}
	for _, p := range marked(t, f.mark) {
		t.Errorf("process %d is left: %s", p.pid, p.line)
	}
}
