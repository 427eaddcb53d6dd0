package projections

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/toolfleet/toolfleet/events"
)

func TestFleetIsBounded(t *testing.T) {
	var f Fleet
	say := func(at int, b events.Body) {
		f = EvolveFleet(f, events.Record{Seq: f.Seq + 1, Event: events.Event{
			Chain: events.FleetChain(), Time: dawn.Add(time.Duration(at) * time.Second), Body: b,
		}})
	}
	source := func(n int) events.Source { return events.Source{Provider: "file", Path: fmt.Sprintf("/%04d", n)} }
	for n := range sourcesKept {
		say(n, events.Discovered{Source: source(n)})
	}
	say(sourcesKept, events.SourceFailed{Source: source(0), Error: "unreadable"}) // the first is no longer the oldest
	say(sourcesKept, events.Discovered{Source: source(sourcesKept)})
	has := func(n int) bool {
		return slices.ContainsFunc(f.Sources, func(r SourceReport) bool { return r.Source == source(n) })
	}
	if len(f.Sources) != sourcesKept || !has(0) || has(1) || !has(2) || !has(sourcesKept) {
		t.Errorf("%d sources are kept; first %t, second %t, third %t, last %t",
			len(f.Sources), has(0), has(1), has(2), has(sourcesKept))
	}
	for n := range rejectionsKept + 3 {
		say(n, events.Rejected{ID: fmt.Sprint(n)})
	}
	if len(f.Rejections) != rejectionsKept || f.Rejections[0].ID != "3" {
		t.Errorf("%d rejections are kept, from %s on", len(f.Rejections), f.Rejections[0].ID)
	}
}
