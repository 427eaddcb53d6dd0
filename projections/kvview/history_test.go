package kvview

import (
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/events/jetlog"
	"github.com/toolfleet/toolfleet/projections"
)

// newHistory deletes the stream of events and opens the log anew.
func (f *fleet) newHistory() {
	f.t.Helper()
	if err := f.js().DeleteStream(f.t.Context(), jetlog.StreamName(fleetID, "events")); err != nil {
		f.t.Fatal(err)
	}
	f.log = f.openLog("after")
	f.history = projections.History{}
}

func TestNewHistory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		f.someLife(3)
		f.projectAll()
		old := f.read()
		time.Sleep(time.Second)
		f.newHistory()
		f.declare("s1")
		f.say(events.FleetChain(), events.Frozen{})
		stopWitness := f.witness()
		f.projectAll()
		stopWitness()
		v := f.verify()
		if v.position.Log <= old.position.Log || v.position.Seq != 2 {
			t.Errorf("position %+v, before %+v", v.position, old.position)
		}
		if diff := cmp.Diff(old.keys(), v.keys()); diff != "" {
			t.Errorf("keys (-before +after):\n%s", diff)
		}
		for k, raw := range v.raw {
			e, err := projections.DecodeRaw([]byte(raw))
			if err != nil || e.Log != v.position.Log {
				t.Errorf("%s is of history %s, %v", k, e.Log, err)
			}
			if alive := k.String() == "server.s1" || k.kind == fleetKey; alive != (e.Seq > 0) {
				t.Errorf("%s is at %d", k, e.Seq)
			}
		}
		again := f.read()
		f.projectAll()
		after := f.read()
		if diff := cmp.Diff([]string(nil), after.changedSince(again)); diff != "" {
			t.Errorf("written again: %s", diff)
		}
	})
}

// A new history whose id is not greater, because a clock went back, still gets
// views that are.
func TestNewHistoryOfAnEarlierTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		f.declare("a")
		future := events.NewLogID(time.Now().Add(time.Hour), 0)
		e := projections.Entry[projections.Server]{Log: future, Fold: projections.Version, Seq: 1, Value: projections.Server{ID: "a"}}
		data, err := e.Encode()
		if err != nil {
			t.Fatal(err)
		}
		f.put("server.a", string(data))
		f.put("position", `{"log":"`+string(future)+`","fold":1,"seq":1}`)
		for range 2 {
			f.projectAll()
			v := f.verify()
			head, err := f.log.Head(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if v.position.Log != future.Regressed() || v.position.Source != head.Log {
				t.Errorf("position %+v", v.position)
			}
			f.declare("b")
		}
	})
}

// loseEnd makes the server forget what was written to the stream of events since
// its store was copied to that folder.
func (f *fleet) loseEnd(copied string) {
	f.t.Helper()
	f.server.Stop()
	store := f.eventStore()
	if err := os.RemoveAll(store); err != nil {
		f.t.Fatal(err)
	}
	if err := os.CopyFS(store, os.DirFS(copied)); err != nil {
		f.t.Fatal(err)
	}
	f.server.Start()
}

// copyEvents copies the store of the stream of events.
func (f *fleet) copyEvents() string {
	f.t.Helper()
	f.server.Stop()
	copied := filepath.Join(f.t.TempDir(), "events")
	if err := os.CopyFS(copied, os.DirFS(f.eventStore())); err != nil {
		f.t.Fatal(err)
	}
	f.server.Start()
	return copied
}

func (f *fleet) eventStore() string {
	f.t.Helper()
	var found []string
	err := filepath.WalkDir(f.server.Dir(), func(path string, d os.DirEntry, err error) error {
		if err == nil && d.IsDir() && d.Name() == jetlog.StreamName(fleetID, "events") {
			found = append(found, path)
		}
		return err
	})
	if err != nil || len(found) != 1 {
		f.t.Fatalf("store of events: %v, %v", found, err)
	}
	return found[0]
}

// reopen follows a change of the server's store.
func (f *fleet) reopen(seq events.Seq) {
	f.t.Helper()
	f.log = f.openLog("reopened")
	f.history = projections.History{}
	for r, err := range f.log.Follow(f.t.Context(), 0, &jetlog.FollowOptions{Until: seq}) {
		if err != nil {
			f.t.Fatal(err)
		}
		f.history.Apply(r)
	}
}

// A history that lost its end, whose stream is the same, goes on under a greater
// id, whether it is seen at once or only after it grew again.
func TestHistoryThatLostItsEnd(t *testing.T) {
	for name, regrown := range map[string]int{"shorter": 0, "as long": 2, "longer": 5} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFleet(t)
				f.someLife(2)
				kept := f.history.Seq()
				copied := f.copyEvents()
				f.say(events.ServerChain("s0"), events.Disabled{})
				f.declare("lost")
				f.projectAll()
				old := f.read()

				f.loseEnd(copied)
				f.reopen(kept)
				for range regrown {
					f.say(events.ServerChain("s0"), events.RestartRequested{})
				}
				f.projectAll()
				v := f.verify()
				if v.position.Log != old.position.Log.Regressed() || v.position.Seq != kept+events.Seq(regrown) {
					t.Errorf("position %+v, before %+v", v.position, old.position)
				}
				lost, err := projections.DecodeEntry[projections.Server]([]byte(v.raw[key{kind: serverKey, id: "lost"}]))
				if err != nil || lost.Value.Exists() {
					t.Errorf("the lost server is still there: %v", err)
				}
				f.declare("next")
				f.projectAll()
				if again := f.verify(); again.position.Log != v.position.Log {
					t.Errorf("the next projector began anew under %s", again.position.Log)
				}
			})
		})
	}
}
