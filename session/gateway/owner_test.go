package gateway

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/errors"
	"github.com/nats-io/nats.go"

	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/events/callwire"
	"github.com/toolfleet/toolfleet/events/eventstest"
	"github.com/toolfleet/toolfleet/events/jetlog"
	"github.com/toolfleet/toolfleet/projections/kvview"
	"github.com/toolfleet/toolfleet/session"
)

// history tells of a server that lists a tool, and returns when.
func history(t *testing.T, log *jetlog.Log) (last events.Seq) {
	t.Helper()
	digest, err := log.PutBlob(t.Context(), []byte(`[{"name":"a"}]`))
	if err != nil {
		t.Fatal(err)
	}
	d := events.Definition{Command: "serve"}
	tips := make(map[events.Chain]events.Tip)
	for _, e := range []events.Event{
		{Chain: events.ServerChain("s"), Body: events.Declared{Definition: d}},
		{Chain: events.InstanceChain("s", "0"), Epoch: 1, Body: events.Assigned{Worker: "w", Epoch: 1}},
		{Chain: events.InstanceChain("s", "0"), Epoch: 1, Body: events.Connecting{Attempt: 1, Definition: d.Digest()}},
		{Chain: events.InstanceChain("s", "0"), Epoch: 1, Body: events.Connected{}},
		{Chain: events.InstanceChain("s", "0"), Epoch: 1, Body: events.ToolsListed{Listing: events.Listing{Digest: digest, Count: 1}}},
	} {
		r, err := log.Append(t.Context(), e, tips[e.Chain])
		if err != nil {
			t.Fatal(err)
		}
		tips[e.Chain], last = r.Tip(), r.Seq
	}
	return last
}

// R21: what was asked of an owner that then dies has an answer, and so has what
// is asked of it afterwards.
func TestAnOwnerThatDies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := eventstest.NewServer(t, nil)
		open := func(writer string) (*jetlog.Log, *nats.Conn) {
			nc := server.Connect(writer)
			l, err := jetlog.Open(t.Context(), nc, events.DefaultFleet, &jetlog.Options{Writer: writer})
			if err != nil {
				t.Fatal(err)
			}
			return l, nc
		}
		log, _ := open("worker/other")
		owner, wire := open("worker/w")
		ctx, stop := context.WithCancel(t.Context())
		projected, served, ran := make(chan error, 1), make(chan error, 1), make(chan error, 1)
		go func() { projected <- kvview.Project(ctx, log, nil) }()
		last := history(t, log)
		taken := make(chan struct{})
		go func() {
			served <- owner.ServeCalls(ctx, events.CallSubject(events.DefaultFleet, "s", "0", 1),
				func(ctx context.Context, _ *callwire.Request, _ func(callwire.FrameKind, []byte)) ([]byte, error) {
					close(taken)
					<-ctx.Done()
					return nil, ctx.Err()
				})
		}()
		s, err := session.Open(ctx, server.Connect("session"), nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(s.Wait(ctx, last), s.WaitReady(ctx, "s")); err != nil {
			t.Fatal(err)
		}
		g := New(s, nil)
		go func() { ran <- g.Run(ctx) }()
		p := dial(t, g)
		p.send(request(1, "tools/call", stray(`{"name":"s__a","arguments":{}}`)))
		<-taken
		wire.Close() // it is dead, and nobody knows
		begun := time.Now()
		expectPart(t, p.next(), `"id":1`, `"isError":true`, session.ErrUnknownOutcome.Error())
		if d := time.Since(begun); d > callwire.SilenceLimit+time.Second {
			t.Errorf("answered after %v", d)
		}
		begun = time.Now()
		expectPart(t, p.ask(2, "tools/call", stray(`{"name":"s__a","arguments":{}}`)), `"id":2`, `"isError":true`, session.ErrNotExecuted.Error())
		if d := time.Since(begun); d > events.DefaultConnectTimeout+time.Second {
			t.Errorf("answered after %v", d)
		}
		p.close()
		s.Close()
		stop()
		<-served // its connection was closed
		for _, ended := range []chan error{projected, ran} {
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}
	})
}
