//go:build bench

package bench

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/toolfleet/toolfleet/events"
)

// TestBenchAppend compares appends, with link, expectation and read-back, to
// bare publishes of messages of the same size.
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
		appends := per * chains
		var ratios []float64
		for round := range rounds {
			l := open(t, nc, events.FleetID(fmt.Sprintf("f%d-%d", chains, round)))
			size := 0
			ours := rate(appends, func() {
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
						if i == 0 && size == 0 {
							size = sizeOf(t, l.Fleet(), &r.Event)
						}
					}
				})
			})
			payload := make([]byte, size)
			bare := rate(appends, func() {
				parallel(chains, func(i int) {
					for range per {
						if _, err := js.Publish(t.Context(), fmt.Sprintf("bare.%d", i), payload); err != nil {
							t.Error(err)
							return
						}
					}
				})
			})
			ratios = append(ratios, ours/bare)
			t.Logf("%d chains: append %.0f/s, bare publish of %d bytes %.0f/s", chains, ours, size, bare)
		}
		verdict(t, median(ratios) >= 0.7, "append, %2d chains in parallel: %.2f of a bare publish (at least 0.70)", chains, median(ratios))
	}
}

// failure is a body of usual size.
var failure = events.Failed{
	Failure: events.Failure{Code: events.Exited, Phase: events.PhaseRun, Message: "the process ended with status 1", Retry: true},
	Attempt: 1, StderrTail: strings.Repeat("error: cannot read the table of contents\n", 4),
}

func sizeOf(t *testing.T, f events.FleetID, e *events.Event) int {
	m, err := events.Encode(f, e)
	if err != nil {
		t.Fatal(err)
	}
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
