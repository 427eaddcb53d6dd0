package files_test

import (
	"testing"

	"github.com/toolfleet/toolfleet/cmd/internal/exit"
	"github.com/toolfleet/toolfleet/cmd/internal/files"
	"github.com/toolfleet/toolfleet/controller/discovery"
	"github.com/toolfleet/toolfleet/events"
)

// What is placed on a worker keeps what else was said of its placement, and its
// source stays as it was.
func TestPlaceOn(t *testing.T) {
	labels := map[string]string{"zone": "eu"}
	entries := []discovery.Entry{
		{ID: "free", Definition: events.Definition{Command: "x"}},
		{ID: "labelled", Definition: events.Definition{Command: "x", Placement: &events.Placement{Labels: labels, Replicas: 2}}},
		{ID: "here", Definition: events.Definition{Command: "x", Placement: &events.Placement{Worker: "w"}}},
	}
	placed, err := files.PlaceOn([]files.Servers{{Entries: entries}}, "w")
	if err != nil {
		t.Fatal(err)
	}
	for i, e := range placed[0].Entries {
		p := e.Definition.Placement
		if p == nil || p.Worker != "w" || i == 1 && (p.Labels["zone"] != "eu" || p.Replicas != 2) {
			t.Errorf("%s is placed by %+v", e.ID, p)
		}
	}
	if entries[0].Definition.Placement != nil || entries[1].Definition.Placement.Worker != "" {
		t.Errorf("the source is %+v", entries)
	}
	free := files.PlacedOn(&placed[0].Entries[0].Definition, "")
	if free.Placement != nil {
		t.Errorf("of what is placed nowhere there is %+v", free.Placement)
	}
	entries[2].Definition.Placement.Worker = "other"
	if _, err := files.PlaceOn([]files.Servers{{Entries: entries}}, "w"); exit.Of(err) != exit.Usage {
		t.Errorf("placed elsewhere by the file: %v", err)
	}
}
