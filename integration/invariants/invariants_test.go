package invariants

import (
	"context"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/toolfleet/toolfleet/controller/request"
	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/events/eventstest"
	"github.com/toolfleet/toolfleet/events/jetlog"
	"github.com/toolfleet/toolfleet/projections/kvview"
	"github.com/toolfleet/toolfleet/session"
)

// Each check is broken once: one that cannot fail proves nothing.

// wants fails unless the error says that, or there is none where that is "".
func wants(t *testing.T, err error, text string) {
	t.Helper()
	if (err == nil) != (text == "") || err != nil && !strings.Contains(err.Error(), text) {
		t.Errorf("got %v, want %q", err, text)
	}
}

// fleet is a history behind a line.
type fleet struct {
	t      *testing.T
	ledger *Ledger
	line   *Line
	log    *jetlog.Log
	tips   map[events.Chain]events.Tip
}

func newFleet(t *testing.T) *fleet {
	t.Helper()
	broker := eventstest.NewServer(t, nil)
	f := &fleet{t: t, ledger: &Ledger{}, tips: make(map[events.Chain]events.Tip)}
	f.line = NewLine(f.ledger)
	outage := eventstest.NewOutage(func(string, string) (net.Conn, error) {
		c, err := broker.InProcessConn()
		if err != nil {
			return nil, err
		}
		return f.line.Wrap(c), nil
	})
	var err error
	if f.log, err = jetlog.Open(t.Context(), broker.Connect("test", nats.InProcessServer(outage)), "f", nil); err != nil {
		t.Fatal(err)
	}
	return f
}

func (f *fleet) say(ctx context.Context, c events.Chain, b events.Body, epoch events.Epoch) (events.Record, error) {
	r, err := f.log.Append(ctx, events.Event{Chain: c, Body: b, Epoch: epoch, Correlation: "asked"}, f.tips[c])
	if err == nil {
		f.tips[c] = r.Tip()
	}
	return r, err
}

func (f *fleet) declare(id events.ServerID) events.Record {
	f.t.Helper()
	r, err := f.say(f.t.Context(), events.ServerChain(id), events.Declared{Definition: events.Definition{Command: "x"}}, 0)
	if err != nil {
		f.t.Fatal(err)
	}
	return r
}

func TestLedger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		r := f.declare("a")
		wants(t, f.ledger.Check(t.Context(), f.log), "")
		if f.ledger.Len() != 1 {
			t.Errorf("the ledger has %d events", f.ledger.Len())
		}
		f.ledger.note(r.Seq+1, "gone")
		wants(t, f.ledger.Check(t.Context(), f.log), "history ends at 1")
		f.ledger.note(r.Seq, "other")
		wants(t, f.ledger.Check(t.Context(), f.log), "was acknowledged as "+string(r.ID)+" and as other")
	})
}

// A message at a trap arrives or not, and its sender does not know.
func TestTraps(t *testing.T) {
	for _, stored := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			f := newFleet(t)
			f.declare("a")
			dead, cancel := context.WithCancel(t.Context())
			sprung := f.line.Set(Trap{
				At:     func(p *Publish) bool { return p.Subject == "tf.evt.f.server.b" && p.Header.Get("ce-type") != "" },
				Stored: stored, Then: cancel,
			})
			if _, err := f.say(dead, events.ServerChain("b"), events.Withdrawn{}, 0); err == nil {
				t.Error("the append was acknowledged")
			}
			<-sprung
			f.line.Open()
			head, err := f.log.Head(t.Context())
			if err != nil || head.Seq == 2 != stored || f.ledger.Len() != 1 {
				t.Errorf("stored %v: the history ends at %d, the ledger has %d; %v", stored, head.Seq, f.ledger.Len(), err)
			}
		})
	}
}

func TestRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		r := f.declare("a")
		granted := Accepted{Server: "a", ID: "asked", Answer: request.Answer{Seq: r.Seq}}
		wants(t, Requests(t.Context(), f.log, []Accepted{granted}), "a: it should run, and has no instance")
		wants(t, Requests(t.Context(), f.log, []Accepted{{Server: "a", ID: "b", Answer: granted.Answer}}), "is declared of request asked")
		wants(t, Requests(t.Context(), f.log, []Accepted{{Server: "a", ID: "b", Answer: request.Answer{Seq: 99}}}), "which is not there")

		worker, instance := events.WorkerChain("w"), events.InstanceChain("a", "0")
		definition := events.Definition{Command: "x"}
		for _, step := range []struct {
			chain events.Chain
			body  events.Body
			want  string
		}{
			{instance, events.Assigned{Worker: "w", Incarnation: "i", Epoch: 1}, "instance 0 is assigned"},
			{instance, events.Connecting{Attempt: 1, Definition: definition.Digest()}, "instance 0 is connecting"},
			{instance, events.Connected{}, "instance 0 is listing"},
			{instance, events.ToolsListed{}, "of a worker that is gone"},
			{worker, events.Joined{Incarnation: "i"}, ""},
			{events.ServerChain("a"), events.RestartRequested{}, "was not restarted for event"},
			{instance, events.Connecting{Attempt: 2, Definition: events.DigestOf(nil)}, "instance 0 is connecting"},
			{instance, events.Connected{}, "instance 0 is listing"},
			{instance, events.ToolsListed{}, "runs another definition"},
			{events.ServerChain("a"), events.Withdrawn{}, "instance 0 is ready, and should be stopped"},
			{instance, events.HasStopped{}, ""},
		} {
			if _, err := f.say(t.Context(), step.chain, step.body, 1); err != nil {
				t.Fatal(err)
			}
			wants(t, Requests(t.Context(), f.log, []Accepted{granted}), step.want)
		}
		_, err := f.say(t.Context(), events.ServerChain("u"), events.Declared{Definition: events.Definition{Command: "x", Disabled: true}}, 0)
		if err != nil {
			t.Fatal(err)
		}
		wants(t, Requests(t.Context(), f.log, nil), "")
		if _, err := f.say(t.Context(), events.ServerChain("u"), events.Updated{To: events.Definition{Command: "y", Disabled: true}}, 0); err != nil {
			t.Fatal(err)
		}
		wants(t, Requests(t.Context(), f.log, nil), "neither settled nor rolled back")
	})
}

func TestViewsAndSessions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		f.declare("a")
		soon, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		wants(t, Views(soon, f.log), "views of event 1; they are at 0")

		views, err := Watch(t.Context(), f.log)
		if err != nil {
			t.Fatal(err)
		}
		projecting, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- kvview.Project(projecting, f.log, nil) }()
		wants(t, Views(t.Context(), f.log), "")
		blob, err := f.log.PutBlob(t.Context(), []byte(`[{"name":"one"}]`))
		if err != nil {
			t.Fatal(err)
		}
		d := events.Definition{Command: "x"}
		for _, b := range []events.Body{
			events.Assigned{Worker: "w", Incarnation: "i", Epoch: 1},
			events.Connecting{Attempt: 1, Definition: d.Digest()},
			events.Connected{},
			events.ToolsListed{Listing: events.Listing{Digest: blob, Count: 1}},
		} {
			if _, err := f.say(t.Context(), events.InstanceChain("a", "0"), b, 1); err != nil {
				t.Fatal(err)
			}
		}
		s, err := session.Open(t.Context(), f.log.Conn(), &session.Options{Fleet: "f"})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(s.Close)
		wants(t, Sessions(t.Context(), f.log, map[string]*session.Session{"s": s}), "")
		if got := differences("s", s, map[string]string{"a one": `live {"name":"two"}`, "a two": "live"}); len(got) != 2 {
			t.Errorf("differences %q", got)
		}
		stop()
		wants(t, <-done, "")
		wants(t, views(), "")
		if err := f.log.Conn().Publish("$KV.tf-f-views.server.a", []byte(`{}`)); err != nil {
			t.Fatal(err)
		}
		wants(t, Views(t.Context(), f.log), "server.a: stored")
	})
}

func TestOrders(t *testing.T) {
	entry := func(seq string) []byte {
		return []byte(`{"log":"l","fold":1,"seq":` + seq + `,"digest":"` + digestOfNull + `","value":null}`)
	}
	position := func(seq, pass string) []byte {
		return []byte(`{"log":"l","fold":1,"seq":` + seq + `,"pass":` + pass + `}`)
	}
	for name, tt := range map[string]struct {
		see  func(o *orders)
		want string
	}{
		"forward":     {func(o *orders) { o.see("server.a", true, entry("4")) }, ""},
		"the same":    {func(o *orders) { o.see("server.a", true, entry("3")) }, ""},
		"back":        {func(o *orders) { o.see("server.a", true, entry("2")) }, "server.a went back"},
		"position":    {func(o *orders) { o.see("position", true, position("2", "0")) }, "position went back"},
		"deleted":     {func(o *orders) { o.see("server.a", false, nil) }, "server.a was deleted"},
		"damaged":     {func(o *orders) { o.see("server.a", true, []byte("x")) }, "decode entry"},
		"a rebuild":   {func(o *orders) { o.see("position", true, position("2", "1")); o.see("server.a", false, nil) }, ""},
		"after a one": {func(o *orders) { o.see("position", true, position("2", "1")); o.see("server.a", true, entry("1")) }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			var o orders
			o.see("server.a", true, entry("3"))
			o.see("position", true, position("3", "0"))
			tt.see(&o)
			wants(t, complain("8", o.wrong), tt.want)
		})
	}
}

const digestOfNull = "74234e98afe7498fb5daf1f36ac2d78acc339464f950703b8c019892f982b90b"
