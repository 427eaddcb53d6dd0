package projections

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolfleet/toolfleet/events"
)

func TestHistory(t *testing.T) {
	var h History
	record := func(c events.Chain, b events.Body) events.Record {
		return events.Record{Seq: h.Seq() + 1, Link: events.Link(c.String()), Event: events.Event{Chain: c, Epoch: 1, Body: b}}
	}
	chains := []events.Chain{
		events.ServerChain("b"), events.ServerChain("a"), events.WorkerChain("w"),
		events.InstanceChain("b", "0"), events.InstanceChain("a", "1"), events.InstanceChain("a", "0"), events.FleetChain(),
	}
	want := make(map[events.Chain]events.Tip)
	for _, c := range chains {
		r := record(c, events.Unknown{})
		if changed := h.Apply(r); changed != c {
			t.Errorf("event on %s changed %s", c, changed)
		}
		want[c] = r.Tip()
	}
	if changed := h.Apply(record(events.Chain{}, events.Undecodable{})); changed != (events.Chain{}) {
		t.Errorf("a message on no chain changed %s", changed)
	}
	if h.Seq() != 8 {
		t.Errorf("position %d, want 8", h.Seq())
	}
	if diff := cmp.Diff(want, h.Tips(), cmp.AllowUnexported(events.Chain{})); diff != "" {
		t.Errorf("tips (-want +got):\n%s", diff)
	}
	for _, c := range chains {
		if h.Tip(c) != want[c] {
			t.Errorf("tip of %s: %v, want %v", c, h.Tip(c), want[c])
		}
	}
	for _, c := range []events.Chain{{}, events.ServerChain("x"), events.InstanceChain("a", "x"), events.WorkerChain("x")} {
		if tip := h.Tip(c); tip != (events.Tip{}) {
			t.Errorf("tip of %s: %v, want none", c, tip)
		}
	}
	var order []string
	for s := range h.Servers() {
		order = append(order, string(s.ID))
	}
	for i := range h.Instances() {
		order = append(order, string(i.Server)+"."+string(i.Instance))
	}
	if diff := cmp.Diff([]string{"a", "b", "a.0", "a.1", "b.0"}, order); diff != "" {
		t.Errorf("order (-want +got):\n%s", diff)
	}
	for range h.Instances() {
		break // an iteration may end early
	}
	if h.Server("x") != nil || h.Worker("x") != nil || h.Instance("x", "0") != nil || h.Fleet() == nil {
		t.Error("what is unknown must be nil, but for the fleet")
	}
	h.AdvanceTo(20)
	h.AdvanceTo(10)
	if h.Seq() != 20 {
		t.Errorf("position %d, want 20", h.Seq())
	}
}
