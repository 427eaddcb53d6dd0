package local

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
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
	defer fmt.Fprintln(f.Err, "stopping everything, servers first")
	last, err := f.declare(ctx)
	if err != nil {
		return err
	}
	r, err := kvview.Open(ctx, f.controller.Conn(), f.Fleet, &kvview.ReaderOptions{Logger: f.logger})
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
	if !f.fresh {
		f.begin(ctx, r)
	}
	if from := (&attach.Flags{Fleet: string(f.Fleet)}).Elsewhere(); from != "" {
		f.note(fmt.Sprintf("other commands do not come here, but to the NATS servers of %s: unset that, or give them --server", from))
	}
	if err := f.record(folder); err != nil {
		return err
	}
	f.greet(show.Terminal(f.Out))
	f.watch(ctx, r)
	return nil
}

// beginWithin bounds the wait for a worker that begins; it need not be able to.
const beginWithin = 5 * time.Second

// begin lets the worker begin, and waits until the views show nothing of its
// former life as running. After a kill they still do, and commands would believe
// them.
func (f *fleet) begin(ctx context.Context, r *kvview.Reader) {
	changes := r.Changes()
	defer r.Forget(changes)
	var before events.Incarnation
	if w := r.Worker(f.id); w != nil {
		before = w.Value.Incarnation
	}
	close(f.declared)
	ctx, cancel := context.WithTimeout(ctx, beginWithin)
	defer cancel()
	for !f.begun(r, before) {
		select {
		case <-changes:
		case <-ctx.Done():
			return
		}
	}
}

// begun says whether the worker lives under another incarnation than before, and
// under no other.
func (f *fleet) begun(r *kvview.Reader, before events.Incarnation) bool {
	w := r.Worker(f.id)
	if w == nil || w.Value.Incarnation == before {
		return false
	}
	for _, s := range r.Servers() {
		for _, i := range r.Instances(s.Value.ID) {
			if i.Value.State.Owned() && i.Value.Worker == f.id && i.Value.Incarnation != w.Value.Incarnation {
				return false
			}
		}
	}
	return true
}

// greet says where the fleet is and what it has.
func (f *fleet) greet(out io.Writer) {
	fmt.Fprintf(out, "fleet %s is up on %s (durability: %s)\n", f.Fleet, strings.Join(f.nats.Addresses, ", "), f.NATS.Durability)
	fmt.Fprintf(out, "other clients present the token in %s\n", f.nats.TokenFile)
	names, flag := f.names(), (&attach.Flags{Fleet: string(f.Fleet)}).Flag()
	if f.http != nil {
		fmt.Fprintf(out, "HTTP is on %s, agents at /mcp, with the token that toolfleet token%s prints\n", f.http.URL, flag)
	}
	fmt.Fprintf(out, "%s: %s\n", show.Count(len(names), "server"), strings.Join(names, ", "))
	fmt.Fprintf(out, "use it from another terminal: toolfleet tools%s\n", flag)
	fmt.Fprintf(out, "stop it with Ctrl-C, or toolfleet down%s\n", flag)
}

// watch shows what becomes of the servers until the context ends: on a terminal a
// table until all have come to something, and else a line for each that came
// into a new state. States that only lead to another one are passed over there.
func (f *fleet) watch(ctx context.Context, r *kvview.Reader) {
	changes := r.Changes()
	defer r.Forget(changes)
	written := make(map[events.ServerID]string)
	starting := f.live != nil
	for {
		servers := show.ReadServers(r)
		draw := starting
		if starting {
			f.live.Draw(show.Servers.Lines(f.Out, servers))
			if starting = slices.ContainsFunc(servers, waited); !starting {
				f.live.Leave()
			}
		}
		for i := range servers {
			s := &servers[i]
			if line := show.ServerLine(s); stays(s.State) && written[s.ID] != line {
				written[s.ID] = line
				if !draw {
					fmt.Fprintf(f.Out, "%s  %s\n", time.Now().Format(time.TimeOnly), line)
				}
			}
		}
		// While many start, what a person sees is drawn once for many changes.
		if !pause(ctx, drawEvery) {
			return
		}
		select {
		case <-changes:
		case <-ctx.Done():
			return
		}
	}
}

// drawEvery is the least time between two looks at the servers.
const drawEvery = 50 * time.Millisecond

// pause returns false when the context ends first.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}

// waited says whether a server has not come to anything yet.
func waited(s projections.Status) bool { return !stays(s.State) }

// stays says whether a state is one that a server may be in for long.
func stays(s projections.State) bool {
	switch s {
	case projections.Assigned, projections.Connecting, projections.Listing, projections.Failed, projections.Stopping, projections.Deferred:
		return false
	default:
		return true
	}
}
