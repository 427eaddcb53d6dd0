//go:build bench

package bench

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/events/jetlog"
)

// TestBenchAppend compares appends, with link, expectation and read-back, to
// bare publishes of as many bytes; and, to tell what the log costs from what its
// format does, to bare publishes of the same headers and bodies.
func TestBenchAppend(t *testing.T) {
	nc := connect(t, broker(t))
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{
		Name: "bare", Subjects: []string{"bare.>"}, Compression: jetstream.S2Compression, DenyDelete: true, DenyPurge: true,
	}); err != nil {
		t.Fatal(err)
	}
	for _, chains := range []int{1, 64} {
		const rounds = 11
		per := max(4000/chains, 300)
		var bytes, format []float64
		for round := range rounds {
			l := open(t, nc, events.FleetID(fmt.Sprintf("f%d-%d", chains, round)))
			ours := appendRate(t, l, chains, per)
			m := example(t, l.Fleet())
			bare := publishRate(t, js, chains, per, func(subject string) *nats.Msg {
				return &nats.Msg{Subject: subject, Data: make([]byte, sizeOf(m))}
			})
			same := publishRate(t, js, chains, per, func(subject string) *nats.Msg {
				return &nats.Msg{Subject: subject, Header: m.Header, Data: m.Data}
			})
			bytes, format = append(bytes, ours/bare), append(format, ours/same)
			t.Logf("%d chains: append %.0f/s, bare publish of as many bytes %.0f/s, with headers %.0f/s", chains, ours, bare, same)
		}
		verdict(t, median(bytes) >= 0.7, "append, %2d chains in parallel: %.2f of a bare publish of as many bytes (at least 0.70); %.2f of one with the same headers",
			chains, median(bytes), median(format))
	}
}

func appendRate(t *testing.T, l *jetlog.Log, chains, per int) float64 {
	return rate(chains*per, func() {
		parallel(chains, func(i int) {
			chain := events.InstanceChain(events.ServerID(fmt.Sprintf("server-%d", i)), "0")
			var tip events.Tip
			for range per {
				r, err := l.Append(t.Context(), events.Event{Chain: chain, Epoch: 1, Attempt: 1, Body: failure}, tip)
				if err != nil {
					t.Error(err)
					return
				}
				tip = r.Tip()
			}
		})
	})
}

func publishRate(t *testing.T, js jetstream.JetStream, chains, per int, message func(subject string) *nats.Msg) float64 {
	return rate(chains*per, func() {
		parallel(chains, func(i int) {
			m := message(fmt.Sprintf("bare.%d", i))
			for range per {
				if _, err := js.PublishMsg(t.Context(), m); err != nil {
					t.Error(err)
					return
				}
			}
		})
	})
}

// failure is a body of usual size.
var failure = events.Failed{
	Failure: events.Failure{Code: events.Exited, Phase: events.PhaseRun, Message: "the process ended with status 1", Retry: true},
	Attempt: 1, StderrTail: strings.Repeat("error: cannot read the table of contents\n", 4),
}

// example is an appended event as a message.
func example(t *testing.T, f events.FleetID) events.Message {
	t.Helper()
	m, err := events.Encode(f, &events.Event{
		ID: "0197a2c4-9c1e-7000-8000-0123456789ab", Source: "toolfleet/" + string(f) + "/bench", Time: time.Unix(1_780_000_000, 123_456_789),
		Chain: events.InstanceChain("server-10", "0"), Epoch: 1, Attempt: 1, Prev: events.Link(strings.Repeat("a", 64)), Body: failure,
	})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func sizeOf(m events.Message) int {
	n := len(m.Data)
	for name, values := range m.Header {
		n += len(name) + len(values[0]) + 4
	}
	return n
}

func parallel(n int, f func(i int)) {
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { f(i) })
	}
	wg.Wait()
}
