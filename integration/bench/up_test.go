//go:build bench

package bench

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/errors"
	"github.com/go-json-experiment/json"
	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/mcp"
	"github.com/nats-io/nats.go"

	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/events/jetlog"
	"github.com/toolfleet/toolfleet/session"
)

// programs builds toolfleet and the server that is measured around, once.
var programs = sync.OnceValues(func() (dir string, err error) {
	if dir, err = os.MkdirTemp("", "toolfleet-bench-"); err != nil {
		return "", err
	}
	for _, pkg := range []string{"../../cmd/toolfleet", "../../cmd/controller", "../../cmd/worker", "./server"} {
		if out, err := exec.Command("go", "build", "-o", dir+string(filepath.Separator), pkg).CombinedOutput(); err != nil {
			return dir, errors.Wrapf(err, "%s", out)
		}
	}
	return dir, nil
})

func program(t *testing.T, name string) string {
	t.Helper()
	dir, err := programs()
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, name)
}

// definition is an entry of a configuration file.
type definition struct {
	Command string `json:"command,omitzero"`
	URL     string `json:"url,omitzero"`
}

// stdioServers returns n servers that are child processes.
func stdioServers(t *testing.T, n int) map[string]definition {
	t.Helper()
	servers := make(map[string]definition, n)
	for i := range n {
		servers[fmt.Sprintf("s%d", i)] = definition{Command: program(t, "server")}
	}
	return servers
}

// up is a running toolfleet up.
type up struct {
	t      *testing.T
	cmd    *exec.Cmd
	state  string
	stderr *bytes.Buffer
	ended  chan error
}

func startUp(t *testing.T, servers map[string]definition, flags ...string) *up {
	t.Helper()
	dir := t.TempDir()
	config := filepath.Join(dir, "mcp.json")
	data, err := json.Marshal(map[string]any{"mcpServers": servers})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(config, data, 0o600); err != nil {
		t.Fatal(err)
	}
	u := &up{t: t, state: filepath.Join(dir, "state"), stderr: new(bytes.Buffer), ended: make(chan error, 1)}
	u.cmd = exec.Command(program(t, "toolfleet"), append([]string{"up", "-f", config}, flags...)...)
	u.cmd.Env = append(os.Environ(), "XDG_STATE_HOME="+u.state, "NATS_URL=", "TOOLFLEET_SERVER=", "TOOLFLEET_HTTP=off")
	u.cmd.Stderr = u.stderr
	if err := u.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { u.ended <- u.cmd.Wait() }()
	t.Cleanup(u.stop)
	return u
}

// stop ends it as Ctrl-C does. It may be called again.
func (u *up) stop() {
	if u.cmd.Process.Signal(syscall.SIGINT) != nil {
		return
	}
	select {
	case err := <-u.ended:
		u.ended <- err
	case <-time.After(time.Minute):
		u.t.Errorf("toolfleet up did not end: %s", u.stderr)
		_ = u.cmd.Process.Kill()
	}
}

// connect connects to its NATS server, as soon as that is recorded.
func (u *up) connect() *nats.Conn {
	u.t.Helper()
	record := filepath.Join(u.state, "toolfleet", string(events.DefaultFleet), "up.json")
	for limit := time.Now().Add(time.Minute); ; time.Sleep(2 * time.Millisecond) {
		var r struct {
			URL string `json:"url"`
		}
		if data, err := os.ReadFile(record); err == nil && json.Unmarshal(data, &r) == nil {
			nc, err := jetlog.Connect(u.t.Context(), &jetlog.ConnectOptions{URL: r.URL, Name: "bench"})
			if err != nil {
				u.t.Fatal(err)
			}
			u.t.Cleanup(nc.Close)
			return nc
		}
		if time.Now().After(limit) {
			u.t.Fatalf("toolfleet up recorded nothing: %s", u.stderr)
		}
	}
}

func openSession(t *testing.T, nc *nats.Conn) *session.Session {
	t.Helper()
	s, err := session.Open(t.Context(), nc, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// awaitTools waits until so many tools of a session are live.
func awaitTools(t *testing.T, s *session.Session, n int) {
	t.Helper()
	limit := time.After(2 * time.Minute)
	for {
		tools, _ := s.Tools()
		live := 0
		for _, x := range tools {
			if x.State == "live" {
				live++
			}
		}
		if live == n {
			return
		}
		select {
		case <-s.Changes():
		case <-limit:
			t.Fatalf("%d of %d tools are live", live, n)
		}
	}
}

// pss returns the memory of a process and its descendants that are the same
// program, in bytes: pages that processes share count once.
func pss(t *testing.T, pid int) int {
	t.Helper()
	program, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid))
	if err != nil {
		t.Fatal(err)
	}
	total := 0
	for _, pid := range descendants(pid) {
		if exe, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid)); err != nil || exe != program {
			continue
		}
		data, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(data)) {
			if f := strings.Fields(line); f[0] == "Pss:" {
				kib, err := strconv.Atoi(f[1])
				if err != nil {
					t.Fatal(err)
				}
				total += kib << 10
			}
		}
	}
	return total
}

// descendants returns a process and all below it.
func descendants(pid int) []int {
	all := []int{pid}
	tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, name := range tasks {
		data, _ := os.ReadFile(name) // none where it is gone
		for field := range strings.FieldsSeq(string(data)) {
			if child, err := strconv.Atoi(field); err == nil {
				all = append(all, descendants(child)...)
			}
		}
	}
	return all
}

// bareClient starts a server with mcp-go alone and lists its tools.
func bareClient(ctx context.Context, command string) (*client.Client, error) {
	c, err := client.NewStdioMCPClient(command, nil)
	if err != nil {
		return nil, err
	}
	var q mcp.InitializeRequest
	q.Params.ProtocolVersion = mcp.LATEST_PROTOCOL_VERSION
	q.Params.ClientInfo = mcp.Implementation{Name: "bench", Version: "1"}
	if _, err := c.Initialize(ctx, q); err != nil {
		return c, err
	}
	_, err = c.ListTools(ctx, mcp.ListToolsRequest{})
	return c, err
}
