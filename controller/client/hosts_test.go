package client_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/errors"

	"github.com/toolfleet/toolfleet/controller/client"
	"github.com/toolfleet/toolfleet/controller/request"
	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/events/eventstest"
)

// The verbs about workers and the fleet, over the wire: each is written on its
// chain, once, with who asked and why.
func TestClientAboutHosts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := eventstest.NewServer(t, nil)
		control(t, s, "one")
		l := open(t, s.Connect("test"), "test")
		c := client.New(s.Connect("client"), fleet, &client.Options{Actor: "ann@host"})
		ctx := within(t, time.Minute)
		worker := events.WorkerChain("w")
		if _, err := l.Append(ctx, events.Event{Chain: worker, Body: events.Joined{Incarnation: "w-1"}}, events.Tip{}); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Declare(ctx, "s", &events.Definition{Command: "x", Placement: &events.Placement{Labels: map[string]string{"zone": "1"}}}, nil); err != nil {
			t.Fatal(err)
		}
		for _, step := range []struct {
			ask   func(*client.RequestOptions) (request.Answer, error)
			chain events.Chain
			body  events.Body
			err   error
		}{
			{func(o *client.RequestOptions) (request.Answer, error) { return c.Cordon(ctx, "w", o) }, worker, events.Cordoned{}, nil},
			{func(o *client.RequestOptions) (request.Answer, error) { return c.Drain(ctx, "w", o) }, worker, events.Draining{}, nil},
			{func(o *client.RequestOptions) (request.Answer, error) { return c.Uncordon(ctx, "w", o) }, worker, events.Uncordoned{}, nil},
			{func(o *client.RequestOptions) (request.Answer, error) { return c.Freeze(ctx, o) }, events.FleetChain(), events.Frozen{}, nil},
			{func(o *client.RequestOptions) (request.Answer, error) { return c.Drain(ctx, "w", o) }, worker, nil, request.ErrFrozen},
			{func(o *client.RequestOptions) (request.Answer, error) { return c.Unfreeze(ctx, o) }, events.FleetChain(), events.Unfrozen{}, nil},
			{func(o *client.RequestOptions) (request.Answer, error) { return c.Cordon(ctx, "x", o) }, worker, nil, request.ErrUnknownWorker},
			{func(o *client.RequestOptions) (request.Answer, error) { return c.Move(ctx, "s", "w", o) }, worker, nil, request.ErrDoesNotFit},
		} {
			o := &client.RequestOptions{ID: events.RequestID(time.Now().String()), Reason: "why not"}
			first, err := step.ask(o)
			if !errors.Is(err, step.err) || (err == nil) != (step.err == nil) {
				t.Fatalf("%v: error is %v, want %v", step.body, err, step.err)
			}
			time.Sleep(time.Second) // of fake time, for another id
			if step.err != nil {
				continue
			}
			r := eventstest.Stored(t, l, first.Seq-1)[0]
			if r.Chain != step.chain || r.Body != step.body || r.Actor != "ann@host" || r.Reason != "why not" {
				t.Errorf("event %d is %+v, want %T", first.Seq, r.Event, step.body)
			}
			if again, err := step.ask(o); err != nil || again.Seq != first.Seq || !again.Repeated {
				t.Errorf("the repeat of %T is answered with %+v, %v", step.body, again, err)
			}
		}
	})
}
