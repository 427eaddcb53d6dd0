package events_test

import (
	"testing"
	"time"

	"github.com/toolfleet/toolfleet/events"
)

func TestRegressedLogIDs(t *testing.T) {
	created := time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)
	id := events.NewLogID(created, 0)
	for n := 1; n < 12; n++ {
		next := id.Regressed()
		if next != events.NewLogID(created, n) || next <= id || !next.SameStream(id) {
			t.Errorf("after %s comes %s", id, next)
		}
		id = next
	}
	if other := events.NewLogID(created.Add(1), 0); other.SameStream(id) || other <= id {
		t.Errorf("%s and %s are taken for one stream, or are not in order", id, other)
	}
	for _, strange := range []events.LogID{"", "x", "x.y", "."} {
		if next := strange.Regressed(); next <= strange || !next.SameStream(strange) {
			t.Errorf("after %q comes %q", strange, next)
		}
	}
}
