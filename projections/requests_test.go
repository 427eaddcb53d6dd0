package projections

import (
	"fmt"
	"strings"
	"testing"

	"github.com/toolfleet/toolfleet/events"
)

func TestRequests(t *testing.T) {
	one, two := events.Definition{Command: "one"}, events.Definition{Command: "two"}
	records := []events.Record{
		{Seq: 1, Event: events.Event{Correlation: "a", Body: events.Declared{Definition: one}}},
		{Seq: 2, Event: events.Event{Correlation: "b", Body: events.Updated{From: one, To: two}}},
		{Seq: 3, Event: events.Event{Correlation: "b", Body: events.UpdateRolledBack{}}},
		{Seq: 4, Event: events.Event{Correlation: "c", Body: events.UpdateSettled{}}},
		{Seq: 5, Event: events.Event{Correlation: "d", Body: events.Rejected{ID: "x"}}},
		{Seq: 6, Event: events.Event{Correlation: "a", Body: events.Disabled{}}},
		{Seq: 7, Event: events.Event{Body: events.Enabled{}}},
		{Seq: 8, Event: events.Event{Correlation: "e", Body: events.MoveRequested{Worker: "w"}}},
	}
	var s Server
	for _, r := range records {
		r.Chain = events.ServerChain("github")
		s = EvolveServer(s, r)
	}
	tests := map[string]struct {
		id      events.RequestID
		asked   events.Body
		seq     events.Seq
		verdict Verdict
	}{
		"the same again":                   {"a", events.Declared{Definition: one}, 1, RepeatedRequest},
		"another definition":               {"a", events.Declared{Definition: two}, 1, ReusedRequest},
		"another kind of request":          {"a", events.Disabled{}, 1, ReusedRequest},
		"declared, where it was updated":   {"b", events.Declared{Definition: two}, 2, RepeatedRequest},
		"updated from something else":      {"b", events.Updated{From: two, To: two}, 2, RepeatedRequest},
		"what it led to is no answer":      {"b", events.UpdateRolledBack{}, 2, ReusedRequest},
		"known from a consequence only":    {"c", events.Declared{Definition: one}, 0, NewRequest},
		"rejected, whatever it was":        {"d", events.Declared{Definition: one}, 5, RepeatedRequest},
		"the same wish":                    {"e", events.MoveRequested{Worker: "w"}, 8, RepeatedRequest},
		"the same wish with another value": {"e", events.MoveRequested{Worker: "v"}, 8, ReusedRequest},
		"never heard of":                   {"z", events.Disabled{}, 0, NewRequest},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			seq, verdict := s.Requests.Find(tt.id, Asked(tt.asked))
			if seq != tt.seq || verdict != tt.verdict {
				t.Errorf("Find(%s): %d, %d; want %d, %d", tt.id, seq, verdict, tt.seq, tt.verdict)
			}
		})
	}
}

func TestRequestsKeepTheLast(t *testing.T) {
	var w Worker
	for i := range RequestsKept + 10 {
		w = EvolveWorker(w, events.Record{Seq: events.Seq(i + 1), Event: events.Event{
			Chain: events.WorkerChain("w"), Correlation: events.RequestID(fmt.Sprint(i)), Body: events.Cordoned{},
		}})
	}
	if len(w.Requests) != RequestsKept {
		t.Fatalf("%d requests are kept, want %d", len(w.Requests), RequestsKept)
	}
	asked := Asked(events.Cordoned{})
	if _, v := w.Requests.Find("9", asked); v != NewRequest {
		t.Errorf("the oldest is still there")
	}
	for _, id := range []events.RequestID{"10", "73"} {
		if _, v := w.Requests.Find(id, asked); v != RepeatedRequest {
			t.Errorf("request %s is forgotten", id)
		}
	}
}

func TestRequestsTakeAnyID(t *testing.T) {
	ids := []events.RequestID{
		"plain", "\xff\xfe", "\xff\xfd",
		events.RequestID(strings.Repeat("x", 5000)), events.RequestID(strings.Repeat("x", 5001)),
	}
	var f Fleet
	for i, id := range ids {
		f = EvolveFleet(f, events.Record{Seq: events.Seq(i + 1), Event: events.Event{
			Chain: events.FleetChain(), Correlation: id, Body: events.Frozen{},
		}})
	}
	for i, id := range ids {
		if seq, v := f.Requests.Find(id, Asked(events.Frozen{})); seq != events.Seq(i+1) || v != RepeatedRequest {
			t.Errorf("id %d: %d, %d", i, seq, v)
		}
	}
	e := Entry[Fleet]{Value: f}
	data, err := e.Encode()
	if err != nil || len(data) > 2000 {
		t.Errorf("the entry has %d bytes, %v", len(data), err)
	}
}
