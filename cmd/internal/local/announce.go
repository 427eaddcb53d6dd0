package local

import (
	"context"
	"fmt"
	"time"

	"github.com/cockroachdb/errors"

	"github.com/toolfleet/toolfleet/cmd/internal/attach"
	"github.com/toolfleet/toolfleet/cmd/internal/show"
	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/projections"
	"github.com/toolfleet/toolfleet/projections/kvview"
)

// announce declares the servers, records where the fleet is, and shows what
// becomes of the servers until the context ends.
func (f *fleet) announce(ctx context.Context, folder attach.Folder) error {
	out := show.Terminal(f.Out)
	for _, note := range f.Servers.notes {
		fmt.Fprintln(out, note)
	}
	last, err := f.declare(ctx)
	if err != nil {
		return err
	}
	r, err := kvview.Open(ctx, f.controller.Conn(), f.Fleet, &kvview.ReaderOptions{Logger: f.Logger})
	if err != nil {
		return err
	}
	reading, stop := context.WithCancel(ctx)
	read := make(chan struct{})
	go func() {
		defer close(read)
		_ = r.Run(reading) // its error is that the connection was closed, which is its part's to tell
	}()
	defer func() {
		stop()
		<-read
	}()
	if err := r.Wait(ctx, last); err != nil {
		return errors.Wrap(err, "wait for the views")
	}
	if last, err = f.withdraw(ctx, r); err != nil {
		return err
	}
	if err := r.Wait(ctx, last); err != nil {
		return errors.Wrap(err, "wait for the views")
	}
	close(f.declared)
	if err := f.record(folder); err != nil {
		return err
	}
	fmt.Fprintf(out, "fleet %s is up on %s (durability: %s)\n", f.Fleet, f.nats.URL(), f.NATS.Durability)
	fmt.Fprintf(out, "%d servers: %s\n", len(f.Servers.entries), f.Servers.names())
	fmt.Fprintf(out, "use it from another terminal: toolfleet tools%s\n", f.flag())
	fmt.Fprintln(out, "stop it with Ctrl-C")
	f.watch(ctx, r)
	return nil
}

// flag is what other commands need to find a fleet that is not the default.
func (f *fleet) flag() string {
	if f.Fleet == events.DefaultFleet {
		return ""
	}
	return " --fleet " + string(f.Fleet)
}

// watch writes a line for each server that came into a new state, until the
// context ends. States that only lead to another one are passed over.
func (f *fleet) watch(ctx context.Context, r *kvview.Reader) {
	changes := r.Changes()
	defer r.Forget(changes)
	written := make(map[events.ServerID]string)
	for {
		select {
		case <-changes:
		case <-ctx.Done():
			return
		}
		servers := show.ReadServers(r)
		for i := range servers {
			s := &servers[i]
			if line := show.ServerLine(s); stays(s.State) && written[s.ID] != line {
				written[s.ID] = line
				fmt.Fprintf(f.Out, "%s  %s\n", time.Now().Format(time.TimeOnly), line)
			}
		}
	}
}

// stays says whether a state is one that a server may be in for long.
func stays(s projections.State) bool {
	switch s {
	case projections.Assigned, projections.Connecting, projections.Listing, projections.Failed, projections.Stopping, projections.Deferred:
		return false
	default:
		return true
	}
}
