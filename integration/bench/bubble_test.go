//go:build bench

package bench

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/events/eventstest"
	"github.com/toolfleet/toolfleet/events/jetlog"
	"github.com/toolfleet/toolfleet/projections"
)

// TestBenchBubble measures a whole test with broker, log and view in fake time.
func TestBenchBubble(t *testing.T) {
	const rounds = 21
	var took []float64
	for range rounds {
		start := time.Now()
		synctest.Test(t, func(t *testing.T) {
			nc := eventstest.NewServer(t, nil).Connect("log")
			l, err := jetlog.Open(t.Context(), nc, "f1", nil)
			if err != nil {
				t.Fatal(err)
			}
			r, err := l.Append(t.Context(), events.Event{
				Chain: events.ServerChain("a"), Body: events.Declared{Definition: events.Definition{Command: "true"}},
			}, events.Tip{})
			if err != nil {
				t.Fatal(err)
			}
			var h projections.History
			for r, err := range l.Follow(t.Context(), 0, &jetlog.FollowOptions{Until: r.Seq}) {
				if err != nil {
					t.Fatal(err)
				}
				h.Apply(r)
			}
		})
		took = append(took, float64(time.Since(start).Milliseconds()))
	}
	verdict(t, median(took) < 100, "a test with broker, log and view: %.0f ms (below 100)", median(took))
}
