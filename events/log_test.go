package events_test

import (
	"testing"
	"time"

	"github.com/cockroachdb/errors"

	"github.com/toolfleet/toolfleet/events"
)

func TestConflictError(t *testing.T) {
	records := mixed(t).records()
	err := errors.Wrap(error(&events.ConflictError{Chain: instance, Expected: 2, Found: records[3]}), "assign")
	if !errors.Is(err, events.ErrConflict) || errors.Is(err, events.ErrUncertain) {
		t.Errorf("marked as something else: %v", err)
	}
	var conflict *events.ConflictError
	if !errors.As(err, &conflict) || conflict.Expected != 2 {
		t.Errorf("no details: %+v", conflict)
	}
	diff(t, "words", "assign: append to instance.github.0 after 2: connecting id-4 is there at 4", err.Error())
	if text := (&events.ConflictError{}).Error(); text == "" {
		t.Error("a conflict with nothing known has no words")
	}
}

// Later histories of a fleet have greater ids.
func TestLogIDsAreOrdered(t *testing.T) {
	created := time.Date(2026, 1, 2, 3, 4, 5, 0, time.FixedZone("", 3600))
	ids := []events.LogID{
		events.NewLogID(created, 0),
		events.NewLogID(created, 1),
		events.NewLogID(created, 10),
		events.NewLogID(created.Add(time.Nanosecond), 0),
		events.NewLogID(created.Add(time.Hour), 0),
		events.NewLogID(created.AddDate(1, 0, 0), 0),
	}
	for i, id := range ids[1:] {
		if id <= ids[i] {
			t.Errorf("%s is not after %s", id, ids[i])
		}
	}
	diff(t, "id", events.LogID("20260102T020405.000000000Z.000"), ids[0])
}

func TestHeadCheck(t *testing.T) {
	head := events.Head{Log: "b", Seq: 7}
	for _, p := range []events.Position{{}, {Log: "b"}, {Log: "b", Seq: 7}, {Seq: 6}} {
		if err := head.Check(p); err != nil {
			t.Errorf("%+v: %v", p, err)
		}
	}
	for _, p := range []events.Position{{Log: "a", Seq: 1}, {Log: "c"}, {Log: "b", Seq: 8}, {Seq: 8}} {
		if err := head.Check(p); !errors.Is(err, events.ErrHistoryRegressed) {
			t.Errorf("%+v: %v", p, err)
		}
	}
}

func TestRecordTip(t *testing.T) {
	r := mixed(t).records()[3]
	diff(t, "tip", events.Tip{Seq: 4, Link: r.Link}, r.Tip())
	diff(t, "sequence in words", "4", r.Seq.String())
	diff(t, "epoch in words", "8", r.Epoch.String())
}
