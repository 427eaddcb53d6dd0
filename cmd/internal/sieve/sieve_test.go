package sieve_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolfleet/toolfleet/cmd/internal/exit"
	"github.com/toolfleet/toolfleet/cmd/internal/sieve"
	"github.com/toolfleet/toolfleet/events"
)

const trace = "0af7651916cd43dd8448eb211c80319c"

// history is a small one; each event's id is its place.
func history() (records []events.Record) {
	github, instance := events.ServerChain("github"), events.InstanceChain("github", "0")
	for i, e := range []events.Event{
		{Chain: events.WorkerChain("a"), Source: "toolfleet/f/worker/a", Body: events.Joined{Host: "a"}},                          // 1
		{Chain: github, Actor: "ann@laptop", Correlation: "r1", Body: events.Declared{}, Source: "toolfleet/f/controller/c"},      // 2
		{Chain: instance, Actor: "system:plan", Cause: "2", Correlation: "r1", Body: events.Assigned{Worker: "a"}},                // 3
		{Chain: instance, Cause: "3", Source: "toolfleet/f/worker/a", Body: events.Connecting{Attempt: 1}},                        // 4
		{Chain: instance, Cause: "3", Body: events.Failed{}, Trace: events.Trace{Parent: "00-" + trace + "-b7ad6b7169203331-01"}}, // 5
		{Chain: events.ServerChain("files"), Actor: "ann@laptop", Body: events.Declared{}},                                        // 6
		{Chain: events.InstanceChain("files", "0"), Actor: "system:plan", Cause: "6", Body: events.Assigned{Worker: "b"}},         // 7
		{Chain: events.WorkerChain("b"), Body: events.Lost{Worker: "b"}},                                                          // 8
		{Chain: events.InstanceChain("files", "0"), Cause: "8", Body: events.Lost{Worker: "b"}},                                   // 9
		{Chain: github, Body: events.MoveRequested{Worker: "a"}},                                                                  // 10
	} {
		e.ID = events.EventID(string(rune('0' + i + 1)))
		records = append(records, events.Record{Event: e, Seq: events.Seq(i + 1)})
	}
	return records
}

func TestWants(t *testing.T) {
	for _, tt := range []struct {
		name string
		s    sieve.Sieve
		ids  []string
		want []events.Seq
	}{
		{"everything", sieve.Sieve{}, nil, []events.Seq{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}},
		{"a server", sieve.Sieve{}, []string{"github"}, []events.Seq{2, 3, 4, 5, 10}},
		{"a worker's chain, and a server", sieve.Sieve{}, []string{"b", "files"}, []events.Seq{6, 7, 8, 9}},
		{"a kind", sieve.Sieve{Kinds: []string{"assigned", "failed"}}, nil, []events.Seq{3, 5, 7}},
		{"a kind of one server", sieve.Sieve{Kinds: []string{"assigned"}}, []string{"files"}, []events.Seq{7}},
		{"a worker", sieve.Sieve{Workers: []string{"a"}}, nil, []events.Seq{1, 3, 4, 10}},
		{"a lost one", sieve.Sieve{Workers: []string{"b"}}, nil, []events.Seq{7, 8, 9}},
		{"who asked", sieve.Sieve{Actors: []string{"ann@laptop"}}, nil, []events.Seq{2, 6}},
		{"a trace", sieve.Sieve{Traces: []string{trace}}, nil, []events.Seq{5}},
		{"a trace in capitals", sieve.Sieve{Traces: []string{strings.ToUpper(trace)}}, nil, []events.Seq{5}},
		{"a whole traceparent", sieve.Sieve{Traces: []string{"00-" + trace + "-0000000000000001-00"}}, nil, []events.Seq{5}},
		{"what an event led to, step by step", sieve.Sieve{Causes: []string{"2"}}, nil, []events.Seq{2, 3, 4, 5}},
		{"what a request led to", sieve.Sieve{Causes: []string{"r1"}}, nil, []events.Seq{2, 3, 4, 5}},
		{"that on another chain, though not asked for in between", sieve.Sieve{Causes: []string{"2"}, Kinds: []string{"failed"}}, nil, []events.Seq{5}},
		{"the loss of a worker", sieve.Sieve{Causes: []string{"8"}}, []string{"files"}, []events.Seq{9}},
		{"nothing fits both", sieve.Sieve{Kinds: []string{"failed"}, Actors: []string{"ann@laptop"}}, nil, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if err := tt.s.Begin(tt.ids); err != nil {
				t.Fatal(err)
			}
			var got []events.Seq
			for _, r := range history() {
				if tt.s.Wants(&r) {
					got = append(got, r.Seq)
				}
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("events (-want +got):\n%s", diff)
			}
		})
	}
}

func TestChains(t *testing.T) {
	for _, tt := range []struct {
		s    sieve.Sieve
		ids  []string
		want []string
	}{
		{sieve.Sieve{}, nil, nil},
		{sieve.Sieve{Kinds: []string{"failed"}}, []string{"b", "a", "b"}, []string{"server.a", "instance.a.*", "worker.a", "server.b", "instance.b.*", "worker.b"}},
		{sieve.Sieve{Causes: []string{"x"}}, []string{"a"}, nil}, // what led to it may be anywhere
		{sieve.Sieve{}, []string{"*"}, nil},                      // it would match every chain
	} {
		if err := tt.s.Begin(tt.ids); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(tt.want, tt.s.Chains()); diff != "" {
			t.Errorf("%v: chains (-want +got):\n%s", tt.ids, diff)
		}
	}
}

func TestUnseen(t *testing.T) {
	var s sieve.Sieve
	if err := s.Begin([]string{"none", "github", "other"}); err != nil {
		t.Fatal(err)
	}
	for _, r := range history() {
		s.Wants(&r)
	}
	if got := s.Unseen(); !slices.Equal(got, []string{"none", "other"}) {
		t.Errorf("got %v", got)
	}
	wrong := sieve.Sieve{Kinds: []string{"tool-listed"}}
	if err := wrong.Begin(nil); exit.Of(err) != exit.Usage || !strings.Contains(err.Error(), "tools-listed") {
		t.Errorf("got %v", err)
	}
}
