package kvview

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/events/eventstest"
	"github.com/toolfleet/toolfleet/projections"
)

// Past gives, at every position, the folds of the events up to it; at the end they
// are the stored views.
func TestPast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		f.someLife(2)
		f.ready("s1", "1", toolsJSON(InlineLimit+1, "huge"))
		f.say(events.ServerChain("s0"), events.Withdrawn{})
		f.say(events.WorkerChain("w"), events.Lost{Worker: "w"})
		all := eventstest.Stored(t, f.log, 0)
		var h projections.History
		for i := range all {
			h.Apply(all[i])
			r, err := Past(t.Context(), f.log, all[i].Seq, nil)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(folded(&h), copied(r)); diff != "" {
				t.Fatalf("at %d (-fold +past):\n%s", all[i].Seq, diff)
			}
			if at := r.AsOf(); at.Seq != all[i].Seq || !at.Time.Equal(all[i].Time) {
				t.Fatalf("as of %+v, want %d at %v", at, all[i].Seq, all[i].Time)
			}
		}
		f.projectAll()
		stored, err := Open(t.Context(), f.log.Conn(), fleetID, nil)
		if err != nil {
			t.Fatal(err)
		}
		last, err := Past(t.Context(), f.log, h.Seq(), nil)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(copied(stored), copied(last)); diff != "" {
			t.Errorf("the end (-stored +past):\n%s", diff)
		}
	})
}

// folded returns the states of a history, by name.
func folded(h *projections.History) map[string]any {
	all := make(map[string]any)
	for s := range h.Servers() {
		all["server "+string(s.ID)] = *s
	}
	for i := range h.Instances() {
		all[fmt.Sprintf("instance %s.%s", i.Server, i.Instance)] = *i
	}
	for w := range h.Workers() {
		all["worker "+string(w.ID)] = *w
	}
	if f := h.Fleet(); f.Seq > 0 {
		all["fleet"] = *f
	}
	return all
}

// copied returns those of a reader.
func copied(r *Reader) map[string]any {
	all := make(map[string]any)
	for _, s := range r.Servers() {
		all["server "+string(s.Value.ID)] = s.Value
		for _, i := range r.Instances(s.Value.ID) {
			all[fmt.Sprintf("instance %s.%s", i.Value.Server, i.Value.Instance)] = i.Value
		}
	}
	for _, w := range r.Workers() {
		all["worker "+string(w.Value.ID)] = w.Value
	}
	if f := r.Fleet(); f != nil {
		all["fleet"] = f.Value
	}
	return all
}

// The lists of that time are read from the store, long ones too; one that is gone
// is left out, and holds up nothing.
func TestPastLists(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		f.someLife(1)
		long := toolsJSON(InlineLimit+1, "huge")
		seq := f.ready("s0", "0", long)
		c := events.InstanceChain("s0", "0")
		later := f.say(c, events.ToolsListed{Listing: events.Listing{Digest: events.DigestOf([]byte("gone")), Count: 7}})
		at := func(seq events.Seq, o *PastOptions) *ListEntry {
			r, err := Past(t.Context(), f.log, seq, o)
			if err != nil {
				t.Fatal(err)
			}
			return r.Tools("s0", "0")
		}
		if e := at(seq, nil); e.Value.Tools != nil || e.Value.Count != 1 || e.Seq != seq {
			t.Errorf("without lists: %d tools at %d, %d bytes", e.Value.Count, e.Seq, len(e.Value.Tools))
		}
		if e := at(seq, &PastOptions{Lists: true}); string(e.Value.Tools) != long {
			t.Errorf("%d bytes of the list, want %d", len(e.Value.Tools), len(long))
		}
		began := time.Now()
		if e := at(later, &PastOptions{Lists: true}); e.Value.Tools != nil || e.Value.Count != 7 || time.Since(began) > 3*time.Second {
			t.Errorf("a list that is gone: %s, after %v", e.Value.Tools, time.Since(began))
		}
	})
}

// Of some chains only those are folded, and the others are not read.
func TestPastOfSomeChains(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		f.someLife(3)
		r, err := Past(t.Context(), f.log, f.history.Seq(), &PastOptions{Chains: []string{"server.s1", "instance.s1.*"}})
		if err != nil {
			t.Fatal(err)
		}
		want := map[string]any{
			"server s1":     *f.history.Server("s1"),
			"instance s1.0": *f.history.Instance("s1", "0"),
		}
		if diff := cmp.Diff(want, copied(r)); diff != "" {
			t.Errorf("chains (-want +got):\n%s", diff)
		}
	})
}
