// The example writes one chain with two writers, decides a conflict again,
// replays the history to a position and proves after a restart that nothing of
// it is missing. It needs nothing but Go:
//
//	go run ./events/jetlog/example
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"

	"github.com/cockroachdb/errors"

	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/events/jetlog"
)

func main() {
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx)
	cancel()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

const fleet events.FleetID = "example"

// github is the chain that both writers write.
var github = events.InstanceChain("github", "0")

func run(ctx context.Context) error {
	dir, err := os.MkdirTemp("", "jetlog-example-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)

	last, err := write(ctx, dir)
	if err != nil {
		return err
	}
	fmt.Println("\nNATS is restarted on the same data.")
	return prove(ctx, dir, last)
}

// write lets two writers append to one chain and returns its end.
func write(ctx context.Context, dir string) (events.Tip, error) {
	nats, err := jetlog.StartEmbedded(ctx, &jetlog.EmbeddedOptions{Dir: dir})
	if err != nil {
		return events.Tip{}, err
	}
	defer stop(ctx, nats)
	controller, err := open(ctx, nats, "controller/a")
	if err != nil {
		return events.Tip{}, err
	}
	worker, err := open(ctx, nats, "worker/host-1")
	if err != nil {
		return events.Tip{}, err
	}

	// The controller makes host-1 the owner; the worker speaks under that epoch.
	assigned, err := controller.Append(ctx, events.Event{
		Chain: github, Epoch: 1, Actor: "system:plan",
		Body: events.Assigned{Worker: "host-1", Incarnation: "i1", Epoch: 1, Reason: "the only worker"},
	}, events.Tip{})
	if err != nil {
		return events.Tip{}, err
	}
	show("controller appends", assigned)
	connecting, err := worker.Append(ctx, events.Event{
		Chain: github, Epoch: 1, Attempt: 1,
		Body: events.Connecting{Attempt: 1, Generation: 1, Definition: "1f3a"},
	}, assigned.Tip())
	if err != nil {
		return events.Tip{}, err
	}
	show("worker appends", connecting)

	// Now the controller gives the instance to another owner: the worker does not
	// know yet, and what it appends on what it knows is refused.
	reassigned, err := controller.Append(ctx, events.Event{
		Chain: github, Epoch: 2, Actor: "system:plan",
		Body: events.Assigned{Worker: "host-2", Incarnation: "i7", Epoch: 2, Reason: "host-1 is drained"},
	}, connecting.Tip())
	if err != nil {
		return events.Tip{}, err
	}
	show("controller appends", reassigned)
	_, err = worker.Append(ctx, events.Event{
		Chain: github, Epoch: 1, Attempt: 1, Body: events.Connected{Protocol: "2025-11-25", Era: "handshake", PID: 4711},
	}, connecting.Tip())
	if !errors.Is(err, events.ErrConflict) {
		return events.Tip{}, errors.Newf("the fence did not hold: %v", err)
	}
	fmt.Println("worker is refused: ", err)

	// A conflict means: read what is new, and decide again.
	tip := connecting.Tip()
	for r, err := range worker.ReadChain(ctx, github, tip) {
		if err != nil {
			return events.Tip{}, err
		}
		tip = r.Tip()
		if a, ok := r.Body.(events.Assigned); ok && a.Epoch > 1 {
			fmt.Printf("worker decides again: epoch %d is %s's, so it closes and says nothing more\n", a.Epoch, a.Worker)
		}
	}
	return tip, nil
}

// prove replays the history after a restart.
func prove(ctx context.Context, dir string, last events.Tip) error {
	nats, err := jetlog.StartEmbedded(ctx, &jetlog.EmbeddedOptions{Dir: dir})
	if err != nil {
		return err
	}
	defer stop(ctx, nats)
	l, err := open(ctx, nats, "reader")
	if err != nil {
		return err
	}
	head, err := l.Head(ctx)
	if err != nil {
		return err
	}
	if err := head.Check(events.Position{Seq: last.Seq}); err != nil {
		return err
	}

	fmt.Println("\nThe history as it was at 2:")
	for r, err := range l.Follow(ctx, 0, &jetlog.FollowOptions{Until: 2}) {
		if err != nil {
			return err
		}
		show("", r)
	}

	// Follow checks that no event is missing and that each links to the one
	// before it. What is left to prove is that it reached the end that is known.
	var end events.Tip
	for r, err := range l.Follow(ctx, 0, &jetlog.FollowOptions{Until: head.Seq}) {
		if err != nil {
			return err
		}
		end = r.Tip()
	}
	if end != last {
		return errors.Newf("the history ends in %+v, not in %+v", end, last)
	}
	fmt.Printf("\nWhole: %d events, and the last one's link is the one that was written:\n%s\n", head.Count, end.Link)
	return nil
}

func stop(ctx context.Context, nats *jetlog.Embedded) {
	if err := nats.Shutdown(context.WithoutCancel(ctx)); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
}

func open(ctx context.Context, nats *jetlog.Embedded, writer string) (*jetlog.Log, error) {
	nc, err := nats.Connect(writer)
	if err != nil {
		return nil, err
	}
	return jetlog.Open(ctx, nc, fleet, &jetlog.Options{Writer: writer})
}

func show(who string, r events.Record) {
	fmt.Printf("%-20s %d %s epoch %d: %s %s\n", who, r.Seq, r.Chain, r.Epoch, r.Kind(), r.Data)
}
