package projections_test

import (
	"testing"

	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/projections"
)

// What a worker wants of itself, because it goes, ends with its incarnation; what
// others want of its host holds until they say otherwise.
func TestDrainingOfAWorker(t *testing.T) {
	joined := func(i events.Incarnation) events.Body { return events.Joined{Incarnation: i} }
	of := func(i events.Incarnation) events.Body { return events.Draining{Incarnation: i} }
	for name, test := range map[string]struct {
		bodies   []events.Body
		draining bool
		going    events.Incarnation
	}{
		"it goes":                      {[]events.Body{joined("1"), of("1")}, true, "1"},
		"it left":                      {[]events.Body{joined("1"), of("1"), events.Left{Incarnation: "1"}}, false, ""},
		"it was lost":                  {[]events.Body{joined("1"), of("1"), events.Lost{}}, false, ""},
		"it is back":                   {[]events.Body{joined("1"), of("1"), joined("2")}, false, ""},
		"another incarnation went":     {[]events.Body{joined("1"), joined("2"), of("1")}, false, ""},
		"the host is drained":          {[]events.Body{joined("1"), events.Draining{}}, true, ""},
		"and left":                     {[]events.Body{joined("1"), events.Draining{}, events.Left{Incarnation: "1"}, joined("2")}, true, ""},
		"and went":                     {[]events.Body{joined("1"), events.Draining{}, of("1"), events.Left{Incarnation: "1"}, joined("2")}, true, ""},
		"it goes, and the host":        {[]events.Body{joined("1"), of("1"), events.Draining{}, events.Left{Incarnation: "1"}, joined("2")}, true, ""},
		"it goes in spite of a wish":   {[]events.Body{joined("1"), of("1"), events.Uncordoned{}}, true, "1"},
		"a wish ends that of the host": {[]events.Body{joined("1"), events.Draining{}, events.Uncordoned{}}, false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			var w projections.Worker
			for i, b := range test.bodies {
				w = projections.EvolveWorker(w, events.Record{Event: events.Event{Chain: events.WorkerChain("w"), Body: b}, Seq: events.Seq(i + 1)})
			}
			if w.Draining != test.draining || w.Going != test.going || w.Eligible() == test.draining && w.Present() {
				t.Errorf("draining is %v, going %q, eligible %v", w.Draining, w.Going, w.Eligible())
			}
		})
	}
}
