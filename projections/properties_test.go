package projections

import (
	"reflect"
	"slices"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/toolfleet/toolfleet/events"
)

// states returns all states of a history, as JSON by chain.
func states(t rapid.TB, h *History) map[string]string {
	t.Helper()
	all := make(map[string]string)
	add := func(c events.Chain, state any) {
		data, err := json.Marshal(state, json.Deterministic(true))
		if err != nil {
			t.Fatalf("%s: %v", c, err)
		}
		all[c.String()] = string(data)
	}
	for s := range h.Servers() {
		add(events.ServerChain(s.ID), s)
	}
	for i := range h.Instances() {
		add(events.InstanceChain(i.Server, i.Instance), i)
	}
	for w := range h.Workers() {
		add(events.WorkerChain(w.ID), w)
	}
	add(events.FleetChain(), h.Fleet())
	return all
}

func foldAll(records []events.Record) *History {
	var h History
	for _, r := range records {
		h.Apply(r)
	}
	return &h
}

func same(t rapid.TB, what string, want, got *History) {
	t.Helper()
	if diff := cmp.Diff(states(t, want), states(t, got)); diff != "" {
		t.Fatalf("%s (-want +got):\n%s", what, diff)
	}
}

func TestDuplicatesChangeNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		records := someRecords(t)
		want, got := foldAll(records), &History{}
		for i, r := range records {
			if changed := got.Apply(r); changed != r.Chain {
				t.Fatalf("event %d changed %s, not %s", r.Seq, changed, r.Chain)
			}
			again := records[rapid.IntRange(0, i).Draw(t, "again")]
			if changed := got.Apply(again); changed != (events.Chain{}) {
				t.Fatalf("event %d changed %s when it was delivered again", again.Seq, changed)
			}
		}
		same(t, "with duplicates", want, got)
	})
}

// R27, T4
func TestOldEpochsChangeNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := foldAll(someRecords(t))
		r := someRecord(t, h)
		before := h.Instance(r.Chain.Server(), r.Chain.Instance())
		if before == nil || before.Epoch == 0 {
			return
		}
		switch b := r.Body.(type) {
		case events.Undecodable:
			return // its epoch is not known
		case events.Assigned:
			b.Epoch = events.Epoch(rapid.Uint64Range(0, uint64(before.Epoch)-1).Draw(t, "old"))
			r.Body = b
		default:
			r.Epoch = events.Epoch(rapid.Uint64Range(0, uint64(before.Epoch)-1).Draw(t, "old"))
		}
		want := *before
		want.Tip = r.Tip()
		if got := EvolveInstance(*before, r); !reflect.DeepEqual(want, got) {
			t.Fatalf("%s of epoch %d in %d:\n%s", r.Kind(), r.Epoch, before.Epoch, cmp.Diff(want, got))
		}
	})
}

func TestOrderOfChainsIsIrrelevant(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		records := someRecords(t)
		// A shuffle that keeps each chain's own order.
		queues := make(map[events.Chain][]events.Record)
		var chains []events.Chain
		for _, r := range records {
			queues[r.Chain] = append(queues[r.Chain], r)
			chains = append(chains, r.Chain)
		}
		var shuffled []events.Record
		for _, c := range rapid.Permutation(chains).Draw(t, "order") {
			shuffled = append(shuffled, queues[c][0])
			queues[c] = queues[c][1:]
		}
		same(t, "in another order", foldAll(records), foldAll(shuffled))
	})
}

func TestUnreadableEventsAreCountedOnly(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		all := someRecords(t)
		readable := slices.DeleteFunc(slices.Clone(all), func(r events.Record) bool {
			switch r.Body.(type) {
			case events.Unknown, events.Undecodable:
				return true
			}
			return false
		})
		with, without := foldAll(all), foldAll(readable)
		for s := range with.Servers() {
			compareBut(t, s, without.Server(s.ID), &s.Progress)
		}
		for i := range with.Instances() {
			compareBut(t, i, without.Instance(i.Server, i.Instance), &i.Progress)
		}
		for w := range with.Workers() {
			compareBut(t, w, without.Worker(w.ID), &w.Progress)
		}
		compareBut(t, with.Fleet(), without.Fleet(), &with.Fleet().Progress)
	})
}

// compareBut compares two states except for their progress; without may be nil
// where with was made of unreadable events only.
func compareBut[S any](t *rapid.T, with, without *S, progress *Progress) {
	t.Helper()
	if without == nil {
		if progress.Unknown+progress.Undecodable == 0 {
			t.Fatalf("%+v has no counterpart", with)
		}
		return
	}
	ignore := cmp.Transformer("progress", func(Progress) int { return 0 })
	if diff := cmp.Diff(without, with, ignore); diff != "" {
		t.Fatalf("unreadable events changed the state (-without +with):\n%s", diff)
	}
}

func TestArgumentsAreNeverChanged(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		records := someRecords(t)
		h := foldAll(records)
		kept, before := h.Clone(), states(t, h)
		// Two branches grow from the same states: neither may see the other.
		left, right := h.Clone(), h.Clone()
		for range 10 {
			left.Apply(someRecord(t, left))
		}
		wantLeft := states(t, left)
		for range 10 {
			right.Apply(someRecord(t, right))
		}
		if diff := cmp.Diff(before, states(t, kept)); diff != "" {
			t.Fatalf("states changed behind their readers' backs:\n%s", diff)
		}
		if diff := cmp.Diff(wantLeft, states(t, left)); diff != "" {
			t.Fatalf("one branch changed the other:\n%s", diff)
		}
	})
}

func TestStoredStatesGoOnAsIfNeverStored(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		records := someRecords(t)
		cut := rapid.IntRange(0, len(records)).Draw(t, "cut")
		restored := restore(t, foldAll(records[:cut]))
		same(t, "stored and restored", foldAll(records[:cut]), restored)
		for _, r := range records { // from the beginning: what is folded is skipped
			restored.Apply(r)
		}
		same(t, "prefix and rest", foldAll(records), restored)
		if diff := cmp.Diff(foldAll(records).Tips(), restored.Tips(), cmp.AllowUnexported(events.Chain{})); diff != "" {
			t.Fatalf("tips (-want +got):\n%s", diff)
		}
	})
}

// restore returns a History made of the stored entries of another one.
func restore(t *rapid.T, h *History) *History {
	n := &History{}
	for s := range h.Servers() {
		n.Adopt(throughEntry(t, s))
	}
	for i := range h.Instances() {
		n.Adopt(throughEntry(t, i))
	}
	for w := range h.Workers() {
		n.Adopt(throughEntry(t, w))
	}
	n.Adopt(throughEntry(t, h.Fleet()))
	return n
}

func throughEntry[S any](t *rapid.T, s *S) *S {
	e := Entry[S]{Log: "log", Fold: Version, Value: *s}
	data, err := e.Encode()
	if err != nil {
		t.Fatalf("encode: %v", err)
	}
	got, err := DecodeEntry[S](data)
	if err != nil {
		t.Fatalf("decode: %v", err)
	}
	return &got.Value
}

func TestOtherChainsChangeNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := foldAll(someRecords(t))
		r := someRecord(t, h)
		for s := range h.Servers() {
			if r.Chain != events.ServerChain(s.ID) && !reflect.DeepEqual(*s, EvolveServer(*s, r)) {
				t.Fatalf("%s changed server %s", r.Chain, s.ID)
			}
		}
		for i := range h.Instances() {
			if r.Chain != events.InstanceChain(i.Server, i.Instance) && !reflect.DeepEqual(*i, EvolveInstance(*i, r)) {
				t.Fatalf("%s changed instance %s.%s", r.Chain, i.Server, i.Instance)
			}
		}
		for w := range h.Workers() {
			if r.Chain != events.WorkerChain(w.ID) && !reflect.DeepEqual(*w, EvolveWorker(*w, r)) {
				t.Fatalf("%s changed worker %s", r.Chain, w.ID)
			}
		}
		if f := h.Fleet(); r.Chain != events.FleetChain() && !reflect.DeepEqual(*f, EvolveFleet(*f, r)) {
			t.Fatalf("%s changed the fleet", r.Chain)
		}
	})
}

// T7, R25
func TestWorkingMeansConnectedAndListed(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		for i := range foldAll(someRecords(t)).Instances() {
			working := i.State.Working()
			if working && (i.Connection == nil || i.Tools.Seq <= i.Connection.Seq) {
				t.Fatalf("%s without tools of its connection: %+v", i.State, i)
			}
			if working != (i.Tools.State == ToolsLive) || working != !i.ReadySince.IsZero() || working != (i.State.Reach() == IsConnected) {
				t.Fatalf("%s: tools %s, ready since %s, %s", i.State, i.Tools.State, i.ReadySince, i.State.Reach())
			}
			if !i.State.Owned() && i.Connection != nil {
				t.Fatalf("%s is connected", i.State)
			}
		}
	})
}
