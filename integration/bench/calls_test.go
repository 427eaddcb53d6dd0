//go:build bench

package bench

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
)

// TestBenchCalls compares calls through a session, the bus over loopback TCP, a
// worker and a child's pipes to those that the MCP library makes to such a child
// of its own.
func TestBenchCalls(t *testing.T) {
	const rounds = 7
	u := startUp(t, stdioServers(t, 1))
	s := openSession(t, u.connect())
	awaitTools(t, s, 20)
	c, err := bareClient(t.Context(), program(t, "server"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }() // how it ends is not measured

	ours := func() {
		r, err := s.Call(t.Context(), "s0__echo_7", []byte(`{"text":"hello"}`), nil)
		if err != nil || r.IsError {
			t.Errorf("%v, %v", r, err)
		}
	}
	var q mcp.CallToolRequest
	q.Params.Name, q.Params.Arguments = "echo_7", map[string]any{"text": "hello"}
	bare := func() {
		if r, err := c.CallTool(t.Context(), q); err != nil || r.IsError {
			t.Errorf("%v, %v", r, err)
		}
	}

	var one, many []float64
	for range rounds {
		a, b := latency(500, 0, ours), latency(500, 0, bare)
		one = append(one, a.Seconds()/b.Seconds())
		x, y := throughput(16, 4000, ours), throughput(16, 4000, bare)
		many = append(many, x/y)
		t.Logf("one caller: %v, bare %v; 16 callers: %.0f/s, bare %.0f/s", a, b, x, y)
	}
	verdict(t, median(one) <= 2, "a call: %.2f of the time of a bare client's (at most 2)", median(one))
	verdict(t, median(many) >= 0.5, "16 callers: %.2f of the calls of a bare client (at least 0.50)", median(many))
}

// latency returns the median time of n calls, one after the other, with a rest
// between two: what still follows from one does not slow the next.
func latency(n int, rest time.Duration, call func()) time.Duration {
	times := make([]float64, n)
	for i := range times {
		time.Sleep(rest)
		start := time.Now()
		call()
		times[i] = time.Since(start).Seconds()
	}
	return time.Duration(median(times) * float64(time.Second))
}

// throughput returns the calls per second of n calls by some callers.
func throughput(callers, n int, call func()) float64 {
	var left atomic.Int64
	left.Store(int64(n))
	return rate(n, func() {
		parallel(callers, func(int) {
			for left.Add(-1) >= 0 {
				call()
			}
		})
	})
}
