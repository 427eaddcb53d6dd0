package eventstest_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/events/eventstest"
	"github.com/toolfleet/toolfleet/events/jetlog"
)

// bubbleLimit is what a bubble with a server, a log and a follower may cost on
// an idle machine: hundreds of tests have one.
const bubbleLimit = 100 * time.Millisecond

func TestABubbleIsCheap(t *testing.T) {
	best := time.Hour
	for range 5 {
		began := time.Now()
		synctest.Test(t, func(t *testing.T) {
			s := eventstest.NewServer(t, nil)
			l, err := jetlog.Open(t.Context(), s.Connect("client"), eventstest.Fleet, nil)
			if err != nil {
				t.Fatal(err)
			}
			c := events.ServerChain("github")
			if _, err := l.Append(t.Context(), events.Event{Chain: c, Body: events.Enabled{}}, events.Tip{}); err != nil {
				t.Fatal(err)
			}
			eventstest.Expect(t, l, 0, eventstest.On(c, events.KindEnabled)...)
		})
		best = min(best, time.Since(began))
	}
	t.Logf("the fastest of five took %s", best)
	if best > bubbleLimit {
		t.Errorf("that is more than %s", bubbleLimit)
	}
}
