//go:build real

package real

import (
	"bufio"
	"context"
	"fmt"
	"maps"
	"net"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/toolfleet/toolfleet/events"
)

// revisions are those whose requirements the suite knows.
var revisions = []string{"2025-11-25", "2026-07-28"}

// TestConformance runs the conformance suite's scenarios for servers against the
// fleet's endpoint, and against such a server alone. What testdata/conformance.txt
// does not name has to pass, and what it names has to fail.
func TestConformance(t *testing.T) {
	const id events.ServerID = "conformance"
	bare := startConformanceServer(t)
	f := start(t, []server{{ID: id, URL: startConformanceServer(t)}})
	f.ready()
	fleet := f.startGateway()
	expected := readExpected(t)
	for _, revision := range revisions {
		alone, through := runSuite(f, revision, bare), runSuite(f, revision, fleet)
		if len(through) < 25 {
			t.Errorf("%s: only the scenarios %v have run", revision, through)
		}
		for _, scenario := range slices.Sorted(maps.Keys(through)) {
			name := revision + " " + scenario
			reason, deviates := expected[name]
			delete(expected, name)
			switch {
			case deviates && through[scenario] && !strings.HasPrefix(reason, "sometimes "):
				t.Errorf("%s passes: take it out of the list", name)
			case deviates || through[scenario]:
			case !alone[scenario]:
				t.Errorf("%s fails, and does without the fleet, too: name the fault in the list", name)
			default:
				t.Errorf("%s fails, but passes without the fleet", name)
			}
		}
	}
	for name := range expected {
		t.Errorf("the list names %s, which did not run", name)
	}
	f.interrupt()
}

// startConformanceServer runs the MCP library's server for the suite and returns
// its URL.
func startConformanceServer(t *testing.T) string {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "conformance")
	if out, err := exec.Command("go", "build", "-o", binary, "github.com/mark3labs/mcp-go/examples/conformance").CombinedOutput(); err != nil {
		t.Fatalf("build the server: %v\n%s", err, out)
	}
	address := freeAddress(t)
	said := &output{}
	cmd := exec.Command(binary)
	cmd.Env, cmd.Stdout, cmd.Stderr = append(os.Environ(), "CONFORMANCE_ADDR="+address), said, said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-ended // killed
		if t.Failed() {
			t.Logf("the conformance server said:\n%s", said)
		}
	})
	eventually(t, "the conformance server", func() bool {
		c, err := net.Dial("tcp", address)
		if err != nil {
			return false
		}
		_ = c.Close()
		return true
	})
	return "http://" + address + "/mcp"
}

func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// startGateway serves the fleet under its tools' own names, as the suite knows
// them, and returns a URL at which no token is needed: the suite has none.
func (f *fleet) startGateway() string {
	f.t.Helper()
	address := freeAddress(f.t)
	cmd := exec.Command(f.binary, "gateway", "--http", address, "--data", f.data, "--names", "on-collision")
	cmd.Env, cmd.Stdout, cmd.Stderr = f.env, f.said, f.said
	if err := cmd.Start(); err != nil {
		f.t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	f.closing(func() {
		_ = cmd.Process.Signal(os.Interrupt)
		<-ended
	})
	token, err := f.run("token")
	if err != nil {
		f.t.Fatal(err)
	}
	return authorize(f.t, "http://"+address, strings.TrimSpace(string(token)))
}

// authorize returns a URL at which requests are given the token and passed on as
// they are, to the Host that they name.
func authorize(t *testing.T, to, token string) string {
	t.Helper()
	target, err := url.Parse(to)
	if err != nil {
		t.Fatal(err)
	}
	proxy := httptest.NewServer(&httputil.ReverseProxy{
		FlushInterval: -1,
		Rewrite: func(q *httputil.ProxyRequest) {
			q.SetURL(target)
			q.Out.Host = q.In.Host
			q.Out.Header.Set("Authorization", "Bearer "+token)
		},
	})
	t.Cleanup(func() {
		proxy.CloseClientConnections()
		proxy.Close()
	})
	return proxy.URL + "/mcp"
}

// score is a line of the suite's summary.
var score = regexp.MustCompile(`^\s*([✓✗]) ([a-z0-9-]+): [0-9]+ passed, ([0-9]+) failed`)

// runSuite returns which scenarios pass at a URL.
func runSuite(f *fleet, revision, endpoint string) map[string]bool {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(f.t.Context(), 4*hang)
	defer cancel()
	cmd := exec.CommandContext(ctx, f.node22(), npmFile(f, "@modelcontextprotocol", "conformance", "dist", "index.js"),
		"server", "--url", endpoint, "--requirements", revision, "-o", f.t.TempDir())
	cmd.Env = f.env
	out, err := cmd.CombinedOutput() // it exits with 1 where something failed
	passed := make(map[string]bool)
	_, summary, _ := strings.Cut(string(out), "=== SUMMARY ===")
	for line := range strings.Lines(summary) {
		if m := score.FindStringSubmatch(line); m != nil {
			passed[m[2]] = m[1] == "✓"
		}
	}
	if len(passed) == 0 {
		f.t.Fatalf("the suite for %s: %v\n%s", revision, err, out)
	}
	return passed
}

// readExpected returns the scenarios that do not pass, as "REVISION SCENARIO", with
// the reason.
func readExpected(t *testing.T) map[string]string {
	t.Helper()
	file, err := os.Open("testdata/conformance.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	expected := make(map[string]string)
	lines := bufio.NewScanner(file)
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		name, reason, ok := strings.Cut(line, ": ")
		if !ok || reason == "" || len(strings.Fields(name)) != 2 {
			t.Fatal(fmt.Errorf("testdata/conformance.txt:%d: %q is not REVISION SCENARIO: REASON", n, line))
		}
		expected[name] = reason
	}
	return expected
}
