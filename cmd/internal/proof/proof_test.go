package proof_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/errors"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/toolfleet/toolfleet/cmd/internal/proof"
	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/events/eventstest"
	"github.com/toolfleet/toolfleet/events/jetlog"
	"github.com/toolfleet/toolfleet/projections/kvview"
)

// fleet is a small history, with its views.
type fleet struct {
	t      *testing.T
	server *eventstest.Server
	log    *jetlog.Log
	tips   map[events.Chain]events.Tip
}

const id events.FleetID = "f"

var instance = events.InstanceChain("s", "0")

func newFleet(t *testing.T) *fleet {
	t.Helper()
	f := &fleet{t: t, server: eventstest.NewServer(t, nil), tips: make(map[events.Chain]events.Tip)}
	var err error
	if f.log, err = jetlog.Open(t.Context(), f.server.Connect("test"), id, nil); err != nil {
		t.Fatal(err)
	}
	f.say(events.WorkerChain("w"), 0, events.Joined{Host: "w", Incarnation: "i"})
	f.say(events.ServerChain("s"), 0, events.Declared{Definition: events.Definition{Command: "x"}})
	f.say(instance, 1, events.Assigned{Worker: "w", Incarnation: "i", Epoch: 1})
	for range 50 {
		f.say(instance, 1, events.Connecting{Attempt: 1, Definition: "d"})
		f.say(instance, 1, events.Failed{Failure: events.NewFailure(events.Exited, events.PhaseRun, "gone"), Attempt: 1})
	}
	return f
}

func (f *fleet) say(c events.Chain, epoch events.Epoch, b events.Body) {
	f.t.Helper()
	r, err := f.log.Append(f.t.Context(), events.Event{Chain: c, Epoch: epoch, Body: b}, f.tips[c])
	if err != nil {
		f.t.Fatal(err)
	}
	f.tips[c] = r.Tip()
}

// project writes the views of all there is.
func (f *fleet) project() {
	f.t.Helper()
	ctx, cancel := context.WithCancel(f.t.Context())
	done := make(chan error, 1)
	go func() { done <- kvview.Project(ctx, f.log, nil) }()
	head, err := f.log.Head(f.t.Context())
	if err != nil {
		f.t.Fatal(err)
	}
	time.Sleep(time.Second) // of fake time: the views of so little are written
	r, err := kvview.Open(f.t.Context(), f.log.Conn(), id, nil)
	cancel()
	if err = errors.CombineErrors(err, <-done); err != nil || r.AsOf().Seq != head.Seq {
		f.t.Fatalf("%v, views as of %d, want %d", err, r.AsOf().Seq, head.Seq)
	}
}

// prove proves through a log that is opened anew, as a command does.
func (f *fleet) prove() *proof.Proof {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(f.t.Context(), 10*time.Minute)
	defer cancel()
	l, err := jetlog.Open(ctx, f.server.Connect("prove"), id, nil)
	if err != nil {
		f.t.Fatal(err)
	}
	p, err := proof.Prove(ctx, l)
	if err != nil {
		f.t.Fatal(err)
	}
	return p
}

func (f *fleet) js() jetstream.JetStream {
	f.t.Helper()
	js, err := jetstream.New(f.log.Conn())
	if err != nil {
		f.t.Fatal(err)
	}
	return js
}

func TestAWholeHistory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		f.project()
		if p := f.prove(); len(p.Faults) > 0 || p.Events != 103 || p.Seq != 103 || p.Count != 0 {
			t.Errorf("%+v", p)
		}
		f.say(instance, 1, events.Connecting{Attempt: 1, Definition: "d"})
		if p := f.prove(); len(p.Faults) > 0 {
			t.Errorf("faults while the views are behind: %+v", p)
		}
	})
}

// A store whose bits were turned over, block by block: the first event that is
// missing or altered is named.
func TestADamagedStore(t *testing.T) {
	for _, part := range []int64{1, 4, 7} {
		synctest.Test(t, func(t *testing.T) {
			f := newFleet(t)
			f.project()
			f.server.Stop()
			pattern := filepath.Join(f.server.Dir(), "jetstream", "$G", "streams", jetlog.StreamName(id, "events"), "msgs", "*.blk")
			files, err := filepath.Glob(pattern)
			if err != nil || len(files) == 0 {
				t.Fatalf("no blocks at %s, %v", pattern, err)
			}
			slices.Sort(files)
			data, err := os.ReadFile(files[0])
			if err != nil {
				t.Fatal(err)
			}
			data[int64(len(data))*part/8] ^= 0x10
			if err := os.WriteFile(files[0], data, 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.Remove(filepath.Join(filepath.Dir(files[0]), "index.db")); err != nil {
				t.Fatal(err)
			}
			f.server.Start()
			time.Sleep(time.Second)
			p := f.prove()
			if len(p.Faults) == 0 || p.Faults[0].Seq != events.Seq(p.Events+1) || p.Events == 103 {
				t.Errorf("at %d/8: read %d events, %+v", part, p.Events, p.Faults)
			}
		})
	}
}

// A message that was written past the log: its link is not that of the event
// before it.
func TestAForgedEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		e := events.Event{
			Chain: instance, Epoch: 1, ID: "01941f29-7c00-7000-8000-000000000001", Source: "toolfleet/f/nobody",
			Time: time.Now().UTC(), Prev: f.tips[events.ServerChain("s")].Link, Body: events.HasStopped{How: "idle"},
		}
		m, err := events.Encode(id, &e)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.js().PublishMsg(t.Context(), &nats.Msg{Subject: m.Subject, Header: m.Header, Data: m.Data}); err != nil {
			t.Fatal(err)
		}
		p := f.prove()
		if len(p.Faults) == 0 || p.Faults[0].Seq != 104 || !strings.Contains(p.Faults[0].What, "event 104 of instance.s.0 does not link") {
			t.Errorf("%+v", p)
		}
	})
}

// What an old owner says, rightly linked: only the epoch tells.
func TestAnOldEpoch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		f.project()
		f.say(instance, 1, events.Lost{Worker: "w"})
		f.say(instance, 2, events.Assigned{Worker: "v", Incarnation: "j", Epoch: 2})
		f.say(instance, 1, events.Connecting{Attempt: 2, Definition: "d"})
		p := f.prove()
		if len(p.Faults) != 1 || p.Faults[0].Seq != 106 || !strings.Contains(p.Faults[0].What, "under epoch 1, when 2 was in force") {
			t.Errorf("%+v", p)
		}
	})
}

func TestAViewThatIsNoFold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		f.project()
		kv, err := f.js().KeyValue(t.Context(), jetlog.StreamName(id, "views"))
		if err != nil {
			t.Fatal(err)
		}
		e, err := kv.Get(t.Context(), "worker.w")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := kv.Put(t.Context(), "server.s", e.Value()); err != nil {
			t.Fatal(err)
		}
		p := f.prove()
		if len(p.Faults) != 1 || !strings.Contains(p.Faults[0].What, "view server.s is not what the history says") {
			t.Errorf("%+v", p)
		}
	})
}
