//go:build bench

package bench

import (
	"bufio"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"

	"github.com/toolfleet/toolfleet/events"
)

// TestBenchGateway compares calls over HTTP through the fleet's endpoint, the bus,
// a worker and a child's pipes to those of a server over HTTP that the MCP library
// makes and that answers by itself. Both are processes of their own, and both
// have the library's client.
func TestBenchGateway(t *testing.T) {
	const rounds = 7
	u := startUp(t, stdioServers(t, 1), "--http", "127.0.0.1:0")
	s := openSession(t, u.connect())
	awaitTools(t, s, 20)
	url, token := u.http()
	bareURL := startEcho(t)
	for name, revision := range map[string]string{"with a session": mcp.LATEST_LEGACY_PROTOCOL_VERSION, "without": mcp.LATEST_PROTOCOL_VERSION} {
		ours := caller(t, url+"/mcp", token, revision, "s0__echo_7")
		bare := caller(t, bareURL, "", revision, "echo_7")
		var one, many []float64
		for range rounds {
			a, b := latency(500, 0, ours), latency(500, 0, bare)
			one = append(one, a.Seconds()/b.Seconds())
			x, y := throughput(16, 4000, ours), throughput(16, 4000, bare)
			many = append(many, x/y)
			t.Logf("%s: one caller: %v, bare %v; 16 callers: %.0f/s, bare %.0f/s", name, a, b, x, y)
		}
		verdict(t, median(one) <= 2.5, "a call over HTTP, %s: %.2f of the time of a bare server's (at most 2.50)", name, median(one))
		verdict(t, median(many) >= 0.45, "16 callers over HTTP, %s: %.2f of the calls of a bare server (at least 0.45)", name, median(many))
	}
}

// http returns where toolfleet up serves HTTP, and a token.
func (u *up) http() (url, token string) {
	u.t.Helper()
	var r struct {
		URL       string `json:"http"`
		TokenFile string `json:"httpTokenFile"`
	}
	data, err := os.ReadFile(filepath.Join(u.state, "toolfleet", string(events.DefaultFleet), "up.json"))
	if err != nil {
		u.t.Fatal(err)
	}
	if err := json.Unmarshal(data, &r); err != nil {
		u.t.Fatal(err)
	}
	if data, err = os.ReadFile(r.TokenFile); err != nil {
		u.t.Fatal(err)
	}
	for line := range strings.Lines(string(data)) {
		if f := strings.Fields(line); len(f) == 3 && strings.Contains(f[1], "call") {
			return r.URL, f[2]
		}
	}
	u.t.Fatalf("no token in %s", r.TokenFile)
	return "", ""
}

// startEcho starts the server that is measured around over HTTP, and returns its
// URL.
func startEcho(t *testing.T) string {
	t.Helper()
	cmd := exec.Command(program(t, "server"), "http")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // killed
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(line)
}

// caller returns a call of a tool over HTTP, in a revision of the protocol.
func caller(t *testing.T, url, token, revision, tool string) func() {
	t.Helper()
	h, err := transport.NewStreamableHTTP(url, transport.WithHTTPHeaders(map[string]string{"Authorization": "Bearer " + token}))
	if err != nil {
		t.Fatal(err)
	}
	c := client.NewClient(h, client.WithProtocolVersion(revision))
	t.Cleanup(func() { _ = c.Close() }) // how it ends is not measured
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := c.Start(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Initialize(ctx, mcp.InitializeRequest{}); err != nil {
		t.Fatal(err)
	}
	if got := c.ProtocolVersion(); got != revision {
		t.Fatalf("revision %s", got)
	}
	var q mcp.CallToolRequest
	q.Params.Name, q.Params.Arguments = tool, map[string]any{"text": "hello"}
	return func() {
		if r, err := c.CallTool(t.Context(), q); err != nil || r.IsError {
			t.Errorf("%v, %v", r, err)
		}
	}
}
