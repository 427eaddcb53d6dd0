package main

import (
	"bufio"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/cockroachdb/errors"
	"github.com/spf13/cobra"

	"github.com/toolfleet/toolfleet/cmd/internal/attach"
	"github.com/toolfleet/toolfleet/cmd/internal/exit"
	"github.com/toolfleet/toolfleet/cmd/internal/near"
	"github.com/toolfleet/toolfleet/cmd/internal/position"
	"github.com/toolfleet/toolfleet/cmd/internal/show"
	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/events/jetlog"
	"github.com/toolfleet/toolfleet/projections/kvview"
)

// history is the command events with its flags.
type history struct {
	flags  attach.Flags
	format *show.Format
	since  string
	follow bool
	ids    []string
	// unseen are those of the ids of which no event was read.
	unseen map[string]bool
}

func newEvents() *cobra.Command {
	h := &history{format: show.NewFormat(show.Table, show.JSON, show.YAML)}
	cmd := &cobra.Command{
		Use:   "events [ID...]",
		Short: "Show the fleet's history",
		Long: "Shows the fleet's history, or that of some servers and workers, from its beginning\n" +
			"or from --since.\n\n" +
			"With -o json each event is one line: seq, time, kind, chain, worker, epoch,\n" +
			"attempt, actor, reason, cause, correlation, id, body.",
		Example: "  toolfleet events github --since 15m\n  toolfleet events -o json -f",
		RunE: func(cmd *cobra.Command, ids []string) error {
			h.ids, h.unseen = ids, make(map[string]bool)
			for _, id := range ids {
				h.unseen[id] = true
			}
			from, err := position.Parse(h.since, time.Now())
			if err != nil {
				return err
			}
			f, err := attachTo(cmd.Context(), &h.flags)
			if err != nil {
				return err
			}
			defer f.close()
			return h.run(cmd, f, from)
		},
	}
	h.flags.Register(cmd.Flags())
	h.format.Register(cmd.Flags())
	cmd.Flags().BoolVarP(&h.follow, "follow", "f", false, "go on with events as they happen")
	cmd.Flags().BoolVarP(&h.follow, "watch", "w", false, "the same as --follow")
	cmd.Flags().StringVar(&h.since, "since", "0", "`position` to begin at: "+position.Form)
	return cmd
}

func (h *history) run(cmd *cobra.Command, f *fleet, from position.Position) error {
	ctx, cancel := context.WithCancel(cmd.Context())
	defer cancel()
	log, err := f.log(ctx)
	if err != nil {
		return err
	}
	head, err := log.Head(ctx)
	if err != nil {
		return err
	}
	first, err := f.first(ctx, head.Seq, from)
	if err != nil {
		return err
	}
	o := &jetlog.FollowOptions{}
	if h.follow {
		f.sayWhenLost(cmd)
		for _, id := range f.unknownOf(ctx, h.ids) {
			say(cmd, fmt.Sprintf("the fleet has no server or worker %q yet: waiting for it", id))
		}
	} else {
		if head.Seq < first {
			return h.found(ctx, f)
		}
		o.Until = head.Seq
	}
	out := bufio.NewWriter(cmd.OutOrStdout())
	for r, err := range log.Follow(ctx, min(first-1, head.Seq), o) { // what is to come may be what is wanted
		if err == nil && r.Seq >= first && h.wants(r.Chain) {
			err = show.Event(out, h.format, &r)
		}
		if err == nil && h.follow {
			err = out.Flush()
		}
		if err != nil {
			if cmd.Context().Err() != nil {
				err = nil // that is how it ends
			}
			return errors.CombineErrors(err, out.Flush())
		}
	}
	return errors.CombineErrors(out.Flush(), h.found(ctx, f))
}

// found returns an error for the first id that the history has no event of. Where
// only the end of it was read, the views tell what there was before.
func (h *history) found(ctx context.Context, f *fleet) error {
	if h.follow {
		return nil
	}
	for _, id := range h.ids {
		if !h.unseen[id] {
			continue
		}
		known, err := f.known(ctx)
		if h.since != "0" && (err != nil || slices.Contains(known, id)) {
			continue
		}
		err = errors.Newf("the history has no event of %s", id)
		for _, n := range near.Names(id, known) {
			err = errors.WithHintf(err, "did you mean %s?", n)
		}
		return exit.With(exit.NotFound, err)
	}
	return nil
}

// wants says whether a chain is one of those that are shown: that of a server and
// of its instances, or that of a worker.
func (h *history) wants(c events.Chain) bool {
	for _, id := range h.ids {
		if string(c.Server()) == id || string(c.Worker()) == id {
			h.unseen[id] = false
			return true
		}
	}
	return len(h.ids) == 0
}

// known returns the ids of the servers and workers that the fleet has, or had.
func (f *fleet) known(ctx context.Context) (ids []string, err error) {
	r, err := kvview.Open(ctx, f.nc, f.id, nil)
	if err != nil {
		return nil, err
	}
	for _, e := range r.Servers() {
		ids = append(ids, string(e.Value.ID))
	}
	for _, e := range r.Workers() {
		ids = append(ids, string(e.Value.ID))
	}
	return ids, nil
}

// unknownOf returns those of the ids that nothing in the fleet has or had, as far
// as there are views to tell.
func (f *fleet) unknownOf(ctx context.Context, ids []string) []string {
	if len(ids) == 0 {
		return nil
	}
	known, err := f.known(ctx)
	if err != nil {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return slices.Contains(known, id) })
}

// first returns the sequence that a position is.
func (f *fleet) first(ctx context.Context, last events.Seq, p position.Position) (events.Seq, error) {
	if p.Time.IsZero() {
		return max(p.Seq, 1), nil
	}
	stream, err := f.js.Stream(ctx, jetlog.StreamName(f.id, "events"))
	if err != nil {
		return 0, errors.Wrap(err, "find the first event since then")
	}
	return position.First(last, p.Time, func(s events.Seq) (time.Time, error) {
		m, err := stream.GetMsg(ctx, uint64(s))
		if err != nil {
			return time.Time{}, errors.Wrapf(err, "find the first event since then: read %d", s)
		}
		return m.Time, nil
	})
}
