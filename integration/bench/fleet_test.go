//go:build bench

package bench

import (
	"bytes"
	"context"
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"time"

	mcpclient "github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
	"github.com/nats-io/nats.go"

	"github.com/toolfleet/toolfleet/controller/client"
	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/events/jetlog"
	"github.com/toolfleet/toolfleet/session"
)

// TestBenchStart compares the time from the start of toolfleet up to all tools
// of 50 servers in a session to what the MCP library alone needs to start,
// initialize and list them, as many at a time as a host of these cores can use.
func TestBenchStart(t *testing.T) {
	const servers, rounds = 50, 5
	var ratios []float64
	idle := 0
	for range rounds {
		definitions := stdioServers(t, servers)
		start := time.Now()
		u := startUp(t, definitions)
		s := openSession(t, u.connect())
		awaitTools(t, s, servers*20)
		ours := time.Since(start)
		time.Sleep(2 * time.Second) // idle
		idle = max(idle, pss(t, u.cmd.Process.Pid))
		s.Close()
		u.stop()
		bare := startBare(t, servers)
		t.Logf("%d servers: %v, bare %v", servers, ours, bare)
		ratios = append(ratios, ours.Seconds()/bare.Seconds())
	}
	verdict(t, median(ratios) <= 1.25, "%d servers from nothing to tools in a session: %.2f of bare clients (at most 1.25)", servers, median(ratios))
	verdict(t, idle <= 120<<20, "idle with them: %d MiB (at most 120)", idle>>20)
}

func startBare(t *testing.T, n int) time.Duration {
	t.Helper()
	command := program(t, "server")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	clients := make([]*mcpclient.Client, n)
	free := make(chan struct{}, 2*runtime.NumCPU())
	var all sync.WaitGroup
	start := time.Now()
	for i := range n {
		free <- struct{}{}
		all.Go(func() {
			defer func() { <-free }()
			var err error
			if clients[i], err = bareClient(ctx, command); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	took := time.Since(start)
	for _, c := range clients {
		if c != nil {
			_ = c.Close() // how a server ends is not measured here
		}
	}
	return took
}

// TestBenchMemory measures what a connected instance costs its worker: servers
// that are reached by URL have no process of their own.
func TestBenchMemory(t *testing.T) {
	const few, more = 10, 200
	s := server.NewMCPServer("bench", "1", server.WithToolCapabilities(true))
	for _, name := range []string{"a", "b", "c"} {
		s.AddTool(mcp.NewTool(name), func(context.Context, mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return mcp.NewToolResultText(""), nil
		})
	}
	web := httptest.NewServer(server.NewStreamableHTTPServer(s))
	t.Cleanup(web.Close) // after its clients have ended
	e := broker(t)
	start(t, "controller", e.URL())
	worker := start(t, "worker", e.URL())
	nc := connect(t, e)
	c := client.New(nc, events.DefaultFleet, nil)
	var session *session.Session
	declare := func(from, to int) {
		t.Helper()
		for i := from; i < to; i++ {
			id := events.ServerID(fmt.Sprintf("s%d", i))
			d := &events.Definition{URL: fmt.Sprintf("%s/mcp?v=%d", web.URL, i)}
			if _, err := c.Declare(t.Context(), id, d, nil); err != nil {
				t.Fatal(err)
			}
		}
		if session == nil {
			session = openSession(t, nc) // there is a controller now
		}
		awaitTools(t, session, 3*to)
		time.Sleep(5 * time.Second) // until what the start took is given back
	}
	declare(0, few)
	before := pss(t, worker.Pid)
	declare(few, few+more)
	each := (pss(t, worker.Pid) - before) / more
	verdict(t, each <= 200<<10, "an instance costs its worker %d KiB (at most 200)", each>>10)
}

// start starts a command of this project until the test ends.
func start(t *testing.T, name, url string) *os.Process {
	t.Helper()
	cmd := exec.Command(program(t, name), "--server", url, "--data", t.TempDir())
	cmd.Env = append(os.Environ(), "TOOLFLEET_HTTP=off")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(os.Interrupt) // it may have ended
		if err := cmd.Wait(); err != nil {
			t.Errorf("%s: %v: %s", name, err, &stderr)
		}
	})
	return cmd.Process
}

// TestBenchDeath measures how soon the death of an idle child is in the history,
// and its tools are back in a session.
func TestBenchDeath(t *testing.T) {
	const servers = 20 // each dies once: what dies often is given time
	u := startUp(t, stdioServers(t, servers))
	nc := u.connect()
	s := openSession(t, nc)
	awaitTools(t, s, servers*20)
	own := startBare(t, 1)
	pids, failed := deaths(t, nc, servers)
	var seen, back []float64
	for id, pid := range pids {
		start := time.Now()
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		for dead := range failed {
			if dead == id {
				break
			}
		}
		seen = append(seen, time.Since(start).Seconds())
		awaitTools(t, s, servers*20)
		back = append(back, time.Since(start).Seconds())
	}
	verdict(t, median(seen) <= 0.050, "a child killed while idle is failed after %.1f ms (at most 50)", 1e3*median(seen))
	verdict(t, median(back) <= 1+own.Seconds(), "and its tools are back after %.0f ms, of which its own start takes %d (at most 1000 more)",
		1e3*median(back), own.Milliseconds())
}

// deaths returns the processes of servers, and from then on who has failed.
func deaths(t *testing.T, nc *nats.Conn, servers int) (pids map[events.ServerID]int, failed <-chan events.ServerID) {
	t.Helper()
	l, err := jetlog.Open(t.Context(), nc, events.DefaultFleet, nil)
	if err != nil {
		t.Fatal(err)
	}
	connected := make(chan events.Record, servers)
	dead := make(chan events.ServerID, servers)
	go func() {
		for r, err := range l.Follow(t.Context(), 0, nil) {
			if err != nil {
				return // the test is over
			}
			switch r.Body.(type) {
			case events.Connected:
				connected <- r
			case events.Failed:
				dead <- r.Chain.Server()
			default:
			}
		}
	}()
	pids = make(map[events.ServerID]int)
	for len(pids) < servers {
		r := <-connected
		pids[r.Chain.Server()] = r.Body.(events.Connected).PID
	}
	go func() {
		for range connected { // of later attempts
		}
	}()
	return pids, dead
}
