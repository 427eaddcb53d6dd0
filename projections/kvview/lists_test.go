package kvview

import (
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/projections"
)

// R35: resources and prompts have entries of their own, which are written when
// the list changes, and only where there ever was one.
func TestListsOfResourcesAndPrompts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		stop := f.project(f.openLog("projector"), nil)
		f.someLife(2)
		f.await(f.history.Seq())
		r, stopReader := f.reader(f.log.Conn())
		i, resources, prompts := r.Instance("s0", "0"), r.Resources("s0", "0"), r.Prompts("s0", "0")
		if got, want := string(resources.Value.Resources), `{"resources":[{"uri":"file:///first","name":"first"}],"templates":[]}`; got != want {
			t.Errorf("resources %s", got)
		}
		if got, want := string(prompts.Value.Prompts), `[{"name":"first"}]`; got != want {
			t.Errorf("prompts %s", got)
		}
		if resources.Value.Tools != nil || prompts.Value.Resources != nil || i.Value.Resources.Digest != resources.Value.Digest || resources.Value.Count != 1 {
			t.Errorf("instance %+v, resources %+v", i.Value, resources.Value)
		}
		if r.Resources("s1", "0") != nil || r.Prompts("s1", "0") != nil {
			t.Error("an instance that listed none has entries")
		}
		before := f.verify()

		// The same lists of the next connection are not written again.
		f.say(events.InstanceChain("s0", "0"), events.Failed{Failure: events.NewFailure(events.Exited, events.PhaseRun, "")})
		f.ready("s0", "0", toolsJSON(100, "tool-0", "other"))
		f.await(f.offer("s0", "0", "first"))
		again := f.verify()
		if diff := cmp.Diff([]string{"status.s0.0"}, again.changedSince(before)); diff != "" {
			t.Errorf("written for a restart (-want +got):\n%s", diff)
		}
		f.await(f.offer("s0", "0", strings.Repeat("x", InlineLimit)))
		changed := f.verify()
		if diff := cmp.Diff([]string{"prompts.s0.0", "resources.s0.0", "status.s0.0"}, changed.changedSince(again)); diff != "" {
			t.Errorf("written for other lists (-want +got):\n%s", diff)
		}
		if err := r.Wait(t.Context(), f.history.Seq()); err != nil {
			t.Fatal(err)
		}
		f.holds(r)
		if e := r.Resources("s0", "0"); e.Value.Resources != nil || e.Value.Digest == "" || e.Value.Count != 1 {
			t.Errorf("a list that is too long: %+v", e.Value)
		}

		// Another definition begins without, and says so.
		c := events.InstanceChain("s0", "0")
		f.await(f.say(c, events.Connecting{Attempt: 2, Generation: 2, Definition: "d2"}))
		f.verify()
		if err := r.Wait(t.Context(), f.history.Seq()); err != nil {
			t.Fatal(err)
		}
		if e := r.Prompts("s0", "0"); e.Value.Digest != "" || e.Value.Count != 0 || e.Seq != f.history.Seq() {
			t.Errorf("after another definition: %+v", e)
		}
		stopReader()
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}

// A rebuild knows the lists, and removes those that should not be.
func TestRebuildOfLists(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		f.someLife(2)
		f.projectAll()
		right := f.read()
		forged := ListEntry{Log: right.position.Log, Fold: projections.Version, Seq: 3, Value: List{Server: "s1", Instance: "0", Count: 7}}
		data, err := forged.Encode()
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"resources.s0.0", "prompts.s1.0"} {
			if _, err := f.js().Publish(t.Context(), subjectPrefix(fleetID)+name, data); err != nil {
				t.Fatal(err)
			}
		}
		found, err := Verify(t.Context(), f.log, nil)
		if err != nil {
			t.Fatal(err)
		}
		var keys []string
		for _, d := range found {
			keys = append(keys, d.Key)
		}
		if diff := cmp.Diff([]string{"prompts.s1.0", "resources.s0.0"}, keys); diff != "" {
			t.Errorf("differences (-want +got):\n%s", diff)
		}
		if _, err := Rebuild(t.Context(), f.log, nil); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(right.raw, f.verify().raw); diff != "" {
			t.Errorf("rebuilt (-before +after):\n%s", diff)
		}
	})
}
