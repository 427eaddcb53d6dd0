//go:build bench

package bench

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/events/jetlog"
	"github.com/toolfleet/toolfleet/projections/kvview"
)

// TestBenchChange compares the time from an event to the change in a session to
// that of the same way without toolfleet: a publish, a consumer that puts what it
// gets into a bucket, and a watcher of the bucket.
func TestBenchChange(t *testing.T) {
	const rounds, rest = 7, time.Millisecond
	e := broker(t)
	nc := connect(t, e)
	change := changes(t, nc, connect(t, e))
	relay := relays(t, nc)
	var ratios []float64
	for range rounds {
		ours, raw := latency(200, rest, change), latency(200, rest, relay)
		t.Logf("event to session %v, publish to watcher %v", ours, raw)
		ratios = append(ratios, ours.Seconds()/raw.Seconds())
	}
	verdict(t, median(ratios) <= 3, "an event changes a session in %.2f of the time of a bare relay (at most 3)", median(ratios))
}

// changes returns a function that appends a changed list of tools and returns
// when a session has it.
func changes(t *testing.T, nc, sessions *nats.Conn) func() {
	t.Helper()
	l := open(t, nc, events.DefaultFleet)
	projecting, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- kvview.Project(projecting, l, nil) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	d := events.Definition{Command: "server"}
	server, worker, instance := events.ServerChain("s"), events.WorkerChain("w"), events.InstanceChain("s", "0")
	tell(t, l, server, 0, events.Declared{Definition: d})
	tell(t, l, worker, 0, events.Joined{Host: "h", Incarnation: "i"})
	tell(t, l, instance, 1, events.Assigned{Worker: "w", Incarnation: "i", Epoch: 1})
	tell(t, l, instance, 1, events.Connecting{Attempt: 1, Definition: d.Digest()})
	tell(t, l, instance, 1, events.Connected{Protocol: "2025-11-25", Era: "handshake"})
	lists := [2]events.Listing{listing(t, l, "a"), listing(t, l, "b")}
	tell(t, l, instance, 1, events.ToolsListed{Listing: lists[0]})
	s := openSession(t, sessions)
	awaitTools(t, s, 20)
	n := 0
	return func() {
		n++
		tell(t, l, instance, 1, events.ToolsListed{Listing: lists[n%2]})
		for want := string("ab"[n%2]); ; <-s.Changes() {
			if tools, _ := s.Tools(); tools[0].Description == want {
				return
			}
		}
	}
}

var tips = make(map[events.Chain]events.Tip)

func tell(t *testing.T, l *jetlog.Log, c events.Chain, epoch events.Epoch, b events.Body) {
	t.Helper()
	r, err := l.Append(t.Context(), events.Event{Chain: c, Epoch: epoch, Body: b}, tips[c])
	if err != nil {
		t.Fatal(err)
	}
	tips[c] = r.Tip()
}

// listing stores a list of 20 tools, of which the first has a description of its
// own.
func listing(t *testing.T, l *jetlog.Log, description string) events.Listing {
	t.Helper()
	items := make([]jsontext.Value, 20)
	for i := range items {
		items[i] = jsontext.Value(fmt.Sprintf(`{"name":"tool_%d","description":%q,"inputSchema":{"type":"object"}}`, i, description))
		description = "as ever"
	}
	data, err := json.Marshal(items)
	if err != nil {
		t.Fatal(err)
	}
	digest, err := l.PutBlob(t.Context(), data)
	if err != nil {
		t.Fatal(err)
	}
	return events.Listing{Digest: digest, Count: len(items)}
}

// relays returns a function that publishes and returns when a watcher has what a
// consumer put.
func relays(t *testing.T, nc *nats.Conn) func() {
	t.Helper()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "relay", Subjects: []string{"relay"}}); err != nil {
		t.Fatal(err)
	}
	kv, err := js.CreateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: "relay", Storage: jetstream.FileStorage})
	if err != nil {
		t.Fatal(err)
	}
	c, err := js.OrderedConsumer(t.Context(), "relay", jetstream.OrderedConsumerConfig{})
	if err != nil {
		t.Fatal(err)
	}
	cc, err := c.Consume(func(m jetstream.Msg) {
		if _, err := kv.Put(t.Context(), "key", m.Data()); err != nil {
			t.Error(err)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cc.Stop)
	w, err := kv.Watch(t.Context(), "key", jetstream.UpdatesOnly())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.Stop() })
	data := make([]byte, 2000) // as much as the list of tools
	return func() {
		if _, err := js.Publish(t.Context(), "relay", data); err != nil {
			t.Fatal(err)
		}
		select {
		case <-w.Updates():
		case <-time.After(time.Minute):
			t.Fatal("nothing came")
		}
	}
}
