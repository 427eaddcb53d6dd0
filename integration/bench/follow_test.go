//go:build bench

package bench

import (
	"context"
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/events/jetlog"
	"github.com/toolfleet/toolfleet/projections"
)

// TestBenchFollow compares following and folding a long history, every link
// verified, to a raw consumer that only counts.
func TestBenchFollow(t *testing.T) {
	const total, servers, rounds = 1_000_000, 1000, 3
	nc := connect(t, broker(t))
	l := open(t, nc, "history")
	start := time.Now()
	fill(t, l, total, servers)
	t.Logf("%d events written in %s", total, time.Since(start).Round(time.Second))

	var ratios []float64
	var peak uint64
	for range rounds {
		raw := rate(total, func() { count(t, nc, total) })
		ours := rate(total, func() { peak = max(peak, fold(t, l, total, servers)) })
		t.Logf("raw %.0f/s, follow and fold %.0f/s", raw, ours)
		ratios = append(ratios, ours/raw)
	}
	verdict(t, median(ratios) >= 0.5, "follow and fold %d events: %.2f of a raw consumer (at least 0.50)", total, median(ratios))
	verdict(t, peak < 256<<20, "its heap: %d MiB at the most (below 256)", peak>>20)
}

// count reads the stream with a raw ordered consumer.
func count(t *testing.T, nc *nats.Conn, total int) {
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	c, err := js.OrderedConsumer(t.Context(), jetlog.StreamName("history", "events"), jetstream.OrderedConsumerConfig{})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	n := 0
	cc, err := c.Consume(func(jetstream.Msg) {
		if n++; n == total {
			close(done)
		}
	}, jetstream.PullMaxMessages(5000))
	if err != nil {
		t.Fatal(err)
	}
	<-done
	cc.Stop()
	<-cc.Closed()
}

// fold follows and folds the whole history and returns the greatest size that
// the heap had.
func fold(t *testing.T, l *jetlog.Log, total, servers int) uint64 {
	var peak atomic.Uint64
	ctx, stop := context.WithCancel(t.Context())
	go watchHeap(ctx, &peak)
	defer stop()
	var h projections.History
	for r, err := range l.Follow(ctx, 0, &jetlog.FollowOptions{Until: events.Seq(total)}) {
		if err != nil {
			t.Fatal(err)
		}
		h.Apply(r)
	}
	if h.Seq() != events.Seq(total) {
		t.Fatalf("folded to %d, want %d", h.Seq(), total)
	}
	n := 0
	for range h.Instances() {
		n++
	}
	if n != servers {
		t.Fatalf("%d instances, want %d", n, servers)
	}
	return peak.Load()
}

func watchHeap(ctx context.Context, peak *atomic.Uint64) {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			peak.Store(max(peak.Load(), m.HeapAlloc))
		}
	}
}

// fill writes a history of servers that connect, fail and come back.
func fill(t *testing.T, l *jetlog.Log, total, servers int) {
	js, err := jetstream.New(l.Conn(), jetstream.WithPublishAsyncMaxPending(2000))
	if err != nil {
		t.Fatal(err)
	}
	tips := make(map[events.Chain]events.Tip)
	for i := range total {
		e := lifecycle(i/servers, i%servers)
		e.Prev = tips[e.Chain].Link
		m, err := events.Encode(l.Fleet(), &e)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := js.PublishMsgAsync(&nats.Msg{Subject: m.Subject, Header: m.Header, Data: m.Data}, jetstream.WithStallWait(time.Minute)); err != nil {
			t.Fatal(err)
		}
		tips[e.Chain] = events.Tip{Seq: events.Seq(i + 1), Link: events.LinkOf(m)}
	}
	select {
	case <-js.PublishAsyncComplete():
	case <-time.After(time.Minute):
		t.Fatal("the last acknowledgements do not come")
	}
}

// toolsOf is the list of tools that the history of an instance refers to. It is not
// stored: see putLists.
func toolsOf(c events.Chain) []byte { return fmt.Appendf(nil, `[{"name":%q}]`, c) }

// lifecycle is the n-th event of the life of a server.
func lifecycle(n, server int) events.Event {
	e := events.Event{
		Chain:  events.InstanceChain(events.ServerID(fmt.Sprintf("server-%04d", server)), "0"),
		ID:     events.EventID(fmt.Sprintf("01941f29-7c00-7%03d-8000-%012d", server, n)),
		Source: "toolfleet/history/worker/host-1",
		Time:   time.Date(2026, 1, 1, 0, 0, n, server, time.UTC),
		Epoch:  1, Attempt: n/6 + 1, Cause: "01941f29-7c00-7000-8000-000000000000",
		Trace: events.Trace{Parent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"},
	}
	digest := events.DigestOf(toolsOf(e.Chain))
	tools := events.Listing{Digest: digest, Count: 20, From: digest}
	attempt := e.Attempt
	switch n % 6 {
	case 0:
		if n == 0 {
			e.Attempt, e.Body = 0, events.Assigned{Worker: "host-1", Incarnation: "a1b2c3", Epoch: 1, Reason: "the least loaded of 3"}
			break
		}
		e.Body = events.RestartScheduled{DelayMs: 500, Attempt: attempt}
	case 1:
		e.Body = events.Connecting{Attempt: attempt, Generation: 1, Definition: digest}
	case 2:
		e.Body = events.Connected{
			Protocol: "2025-11-25", Era: "handshake", PID: 4711 + n,
			ServerInfo:   []byte(`{"name":"example","version":"1.2.3"}`),
			Capabilities: []byte(`{"tools":{"listChanged":true}}`),
		}
	case 3:
		if n%18 == 3 {
			tools.Added = events.Names{Count: 4, Names: []string{"read_file", "write_file", "list_directory", "search_files"}}
		}
		e.Body = events.ToolsListed{Listing: tools}
	case 4:
		e.Body = events.Restarted{Attempt: attempt, DowntimeMs: 1200}
	case 5:
		e.Body = failure
	}
	return e
}
