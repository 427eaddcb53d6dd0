package kvview

import (
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/toolfleet/toolfleet/events"
)

// keysOf returns the keys of differences.
func keysOf(ds []Difference) (keys []string) {
	for _, d := range ds {
		keys = append(keys, d.Key)
	}
	return keys
}

func (f *fleet) wantDifferences(what string, want []string) {
	f.t.Helper()
	ds, err := Verify(f.t.Context(), f.log, nil)
	if err != nil {
		f.t.Fatal(err)
	}
	if diff := cmp.Diff(want, keysOf(ds)); diff != "" {
		f.t.Errorf("%s: differences (-want +got):\n%s", what, diff)
	}
}

// spoil damages views in every way that a rebuild has to mend, and returns the
// keys.
func (f *fleet) spoil() []string {
	f.t.Helper()
	v := f.read()
	raw := func(s string) string {
		k, _ := parseKey(s)
		return v.raw[k]
	}
	f.put("server.s0", strings.Replace(raw("server.s0"), `"seq":3`, `"seq":3000`, 1)) // claims to be newer
	f.put("status.s0.0", raw("status.s1.0"))                                          // another's
	f.put("tools.s0.0", "nonsense")
	f.put("server.never", strings.ReplaceAll(raw("server.s1"), "s1", "never")) // of nothing, and damaged
	f.put("worker.never", raw("worker.w"))                                     // of nothing
	kv, err := f.js().KeyValue(f.t.Context(), bucketName(fleetID))
	if err != nil {
		f.t.Fatal(err)
	}
	if err := kv.Purge(f.t.Context(), "server.s1"); err != nil {
		f.t.Fatal(err)
	}
	return []string{"server.never", "server.s0", "server.s1", "status.s0.0", "tools.s0.0", "worker.never"}
}

func TestVerifyAndRebuild(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		f.someLife(3)
		f.projectAll()
		f.wantDifferences("good views", nil)
		f.say(events.ServerChain("s2"), events.Disabled{})
		f.wantDifferences("views that are behind", nil)
		f.projectAll()
		good := f.verify()

		spoilt := f.spoil()
		f.wantDifferences("spoilt views", spoilt)
		ds, err := Rebuild(t.Context(), f.log, nil)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(spoilt, keysOf(ds)); diff != "" {
			t.Errorf("rebuilt (-want +got):\n%s", diff)
		}
		f.wantDifferences("rebuilt views", nil)
		rebuilt := f.read()
		if diff := cmp.Diff(good.raw, rebuilt.raw); diff != "" {
			t.Errorf("rebuilt (-before +after):\n%s", diff)
		}
		if rebuilt.position.Pass != good.position.Pass+1 || rebuilt.position.Seq != good.position.Seq {
			t.Errorf("position %+v, before %+v", rebuilt.position, good.position)
		}
		f.declare("later")
		f.projectAll()
		f.wantDifferences("views that go on", nil)
	})
}

// A projector that runs meanwhile does not bring back what was rebuilt, and goes
// on afterwards.
func TestRebuildBesideAProjector(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		f.someLife(3)
		stop := f.project(f.openLog("projector"), nil)
		f.await(f.history.Seq())
		f.spoil()
		if _, err := Rebuild(t.Context(), f.log, nil); err != nil {
			t.Fatal(err)
		}
		f.wantDifferences("rebuilt views", nil)
		for range 5 {
			f.say(events.ServerChain("s0"), events.RestartRequested{})
			f.ready("s0", "0", toolsJSON(50, "again"))
		}
		f.await(f.history.Seq())
		f.wantDifferences("views that go on", nil)
		if e := f.read(); e.position.Pass != 1 {
			t.Errorf("position %+v: the projector lost the pass", e.position)
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}

// Rebuild needs nothing but the history.
func TestRebuildOfNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		f.someLife(2)
		if _, err := Rebuild(t.Context(), f.log, nil); err != nil {
			t.Fatal(err)
		}
		if v := f.verify(); v.position.Seq != f.history.Seq() {
			t.Errorf("position %+v", v.position)
		}
		f.declare("more")
		f.projectAll()
		f.verify()
	})
}
