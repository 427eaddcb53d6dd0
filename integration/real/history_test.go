//go:build real

package real

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/events/jetlog"
	"github.com/toolfleet/toolfleet/projections"
	"github.com/toolfleet/toolfleet/projections/kvview"
)

// checkHistory folds the whole history again and compares each state with the
// view that the fleet has of it.
func checkHistory(t *testing.T, f *fleet) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	log := f.open(ctx)
	defer log.Conn().Close()
	var views *kvview.Reader
	var head events.Head
	f.eventually("views of a quiet history", time.Minute, func() bool {
		before, err := log.Head(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if views, err = kvview.Open(ctx, log.Conn(), log.Fleet(), nil); err != nil {
			t.Fatal(err)
		}
		if head, err = log.Head(ctx); err != nil {
			t.Fatal(err)
		}
		return head.Seq == before.Seq && views.AsOf().Seq == head.Seq
	})
	var h projections.History
	for r, err := range log.Follow(ctx, 0, &jetlog.FollowOptions{Until: head.Seq}) {
		if err != nil {
			t.Fatal(err)
		}
		h.Apply(r)
	}
	servers, instances := 0, 0
	for s := range h.Servers() {
		servers++
		compare(t, "server "+string(s.ID), *s, views.Server(s.ID))
	}
	for i := range h.Instances() {
		instances++
		compare(t, "instance of "+string(i.Server), *i, views.Instance(i.Server, i.Instance))
		if tools := views.Tools(i.Server, i.Instance); tools == nil || tools.Value.Digest != i.Tools.Digest {
			t.Errorf("tools of %s: the view has %+v, the history %s", i.Server, tools, i.Tools.Digest)
		}
	}
	for w := range h.Workers() {
		compare(t, "worker "+string(w.ID), *w, views.Worker(w.ID))
	}
	if servers != 3 || instances != 3 {
		t.Errorf("the history has %d servers and %d instances, want 3 of each", servers, instances)
	}
}

// open opens the fleet's history, as its record says where it is.
func (f *fleet) open(ctx context.Context) *jetlog.Log {
	f.t.Helper()
	data, err := os.ReadFile(filepath.Join(f.state, "toolfleet", "default", "up.json"))
	if err != nil {
		f.t.Fatal(err)
	}
	var record struct {
		URL string `json:"url"`
	}
	if err := json.Unmarshal(data, &record); err != nil {
		f.t.Fatal(err)
	}
	nc, err := jetlog.Connect(ctx, &jetlog.ConnectOptions{URL: record.URL, Name: "test"})
	if err != nil {
		f.t.Fatal(err)
	}
	log, err := jetlog.Open(ctx, nc, events.DefaultFleet, nil)
	if err != nil {
		f.t.Fatal(err)
	}
	return log
}

// compare compares a folded state with the view's entry of it, by the digest of
// its canonical form.
func compare[S any](t *testing.T, what string, folded S, view *projections.Entry[S]) {
	t.Helper()
	if view == nil {
		t.Errorf("%s: no view has it", what)
		return
	}
	e := projections.Entry[S]{Value: folded}
	if _, err := e.Encode(); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	if e.Digest != view.Digest {
		t.Errorf("%s: folded again it is\n%+v\nbut the view has\n%+v", what, folded, view.Value)
	}
}
