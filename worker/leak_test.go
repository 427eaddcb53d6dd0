package worker

import (
	"context"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/worker/keeper"
	"github.com/toolfleet/toolfleet/worker/mcptest"
)

// descriptors counts the process's open files.
func descriptors(t *testing.T) int {
	t.Helper()
	open, err := filepath.Glob("/dev/fd/*")
	if err != nil {
		t.Fatal(err)
	}
	return len(open)
}

// ours returns the stacks of goroutines that run this package's code, or the MCP
// library's.
func ours() []string {
	buf := make([]byte, 4<<20)
	buf = buf[:runtime.Stack(buf, true)]
	var found []string
	for stack := range strings.SplitSeq(string(buf), "\n\n") {
		if strings.Contains(stack, "worker.ours(") {
			continue
		}
		if strings.Contains(stack, "toolfleet/worker.") && !strings.Contains(stack, "_test.go") || strings.Contains(stack, "mcp-go/client") {
			found = append(found, stack)
		}
	}
	return found
}

// case J9: connects that are cancelled at any point, of every kind, leave
// nothing.
func TestCancelledConnectsLeaveNothing(t *testing.T) {
	record := mcptest.NewRecord(t)
	h := mcptest.NewHTTP(t, mcptest.Script{Tools: mcptest.Special, DelayMs: 5})
	definitions := []events.Definition{
		mcptest.Script{Tools: mcptest.Special, DelayMs: 5, Record: record.Path()}.Definition(t),
		mcptest.Script{Exit: new(1), Record: record.Path()}.Definition(t),
		{URL: h.URL},
		{Command: "no-such-command-anywhere"},
	}
	files := descriptors(t)
	for i := range 60 {
		d := definitions[i%len(definitions)]
		x := &dialing{definition: &d, env: os.LookupEnv, spawner: keeper.Direct{}, allowed: func() error { return nil }}
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(rand.IntN(40))*time.Millisecond)
		c, err := x.connect(ctx, t.Context())
		if err == nil {
			_, _ = c.pages(ctx, &sections[Tools][0], &exchange{})
		}
		cancel()
		if x.link != nil {
			x.link.Kill()
			wait(t, x.link.gone, "the connection to be gone")
		}
	}
	record.NoneLeft()
	h.Stop()
	eventually(t, "the goroutines to end", func() bool { return len(ours()) == 0 })
	eventually(t, "the files to be closed", func() bool { return descriptors(t) <= files })
}
