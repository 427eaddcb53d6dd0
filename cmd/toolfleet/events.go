package main

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/cockroachdb/errors"
	"github.com/spf13/cobra"

	"github.com/toolfleet/toolfleet/cmd/internal/attach"
	"github.com/toolfleet/toolfleet/cmd/internal/exit"
	"github.com/toolfleet/toolfleet/cmd/internal/near"
	"github.com/toolfleet/toolfleet/cmd/internal/position"
	"github.com/toolfleet/toolfleet/cmd/internal/show"
	"github.com/toolfleet/toolfleet/cmd/internal/sieve"
	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/events/jetlog"
	"github.com/toolfleet/toolfleet/projections/kvview"
)

// history is the command events with its flags.
type history struct {
	flags  attach.Flags
	format *show.Format
	sieve  sieve.Sieve
	since  string
	until  string
	follow bool
}

func newEvents() *cobra.Command {
	h := &history{format: show.NewFormat(show.Table, show.JSON, show.YAML)}
	cmd := &cobra.Command{
		Use:   "events [ID...]",
		Short: "Show the fleet's history",
		Long: "Shows the fleet's history, or that of some servers and workers, from its beginning\n" +
			"or from --since. Filters are combined: an event has to fit each; of one that is\n" +
			"given several times, any.\n\n" +
			"With -o json each event is one line: seq, time, kind, chain, worker, epoch,\n" +
			"attempt, actor, reason, cause, correlation, id, body.",
		Example: "  toolfleet events github --since 15m\n  toolfleet events -o json -f\n" +
			"  toolfleet events --kind failed,parked --worker host-a --since 2d --until 1d",
		RunE: func(cmd *cobra.Command, ids []string) error {
			if err := h.sieve.Begin(ids); err != nil {
				return err
			}
			if h.follow && h.until != "" {
				return exit.Usagef("--until and --follow do not go together: what is to come has no end")
			}
			now := time.Now()
			from, err := position.Parse(h.since, now)
			if err != nil {
				return err
			}
			to, err := position.Parse(cmp.Or(h.until, "0s"), now)
			if err != nil {
				return err
			}
			f, err := attachTo(cmd.Context(), &h.flags)
			if err != nil {
				return err
			}
			defer f.close()
			return h.run(cmd, f, from, to)
		},
	}
	h.flags.Register(cmd.Flags())
	h.format.Register(cmd.Flags())
	h.sieve.Register(cmd.Flags())
	cmd.Flags().BoolVarP(&h.follow, "follow", "f", false, "go on with events as they happen")
	cmd.Flags().BoolVarP(&h.follow, "watch", "w", false, "the same as --follow")
	cmd.Flags().StringVar(&h.since, "since", "0", "`position` to begin at: "+position.Form)
	cmd.Flags().StringVar(&h.until, "until", "", "`position` of the last event wanted")
	return cmd
}

func (h *history) run(cmd *cobra.Command, f *fleet, from, to position.Position) error {
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
	last := head.Seq
	if h.until != "" {
		if last, err = f.last(ctx, head.Seq, to); err != nil {
			return err
		}
	}
	if h.follow {
		f.sayWhenLost(cmd)
		for _, id := range f.unknownOf(ctx, h.sieve.IDs) {
			say(cmd, fmt.Sprintf("the fleet has no server or worker %q yet: waiting for it", id))
		}
	}
	out := bufio.NewWriter(cmd.OutOrStdout())
	err = h.print(out, h.stored(ctx, log, first, last), first)
	if err == nil && h.follow && cmd.Context().Err() == nil {
		if err = out.Flush(); err == nil {
			err = h.print(out, log.Follow(ctx, head.Seq, nil), first)
		}
	}
	if cmd.Context().Err() != nil {
		err = nil // that is how it ends
	}
	return errors.CombineErrors(errors.CombineErrors(err, out.Flush()), h.found(ctx, f))
}

// stored returns the events from first to last, or those of them that can be
// wanted.
func (h *history) stored(ctx context.Context, log *jetlog.Log, first, last events.Seq) iter.Seq2[events.Record, error] {
	after := max(first, 1) - 1
	if len(h.sieve.Causes) > 0 {
		after = 0 // what was led to later goes back to them
	}
	if chains := h.sieve.Chains(); len(chains) > 0 {
		return log.Select(ctx, chains, &jetlog.SelectOptions{After: after, Until: last})
	}
	if after >= last {
		return func(func(events.Record, error) bool) {}
	}
	return log.Follow(ctx, after, &jetlog.FollowOptions{Until: last})
}

// print writes the wanted ones of some events, each at once when more are to come.
func (h *history) print(out *bufio.Writer, some iter.Seq2[events.Record, error], first events.Seq) error {
	for r, err := range some {
		if err == nil && h.sieve.Wants(&r) && r.Seq >= first {
			err = show.Event(out, h.format, &r)
		}
		if err == nil && h.follow {
			err = out.Flush()
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// found returns an error for the first id that the history has no event of. Where
// only a part of it was read, the views tell what there was besides.
func (h *history) found(ctx context.Context, f *fleet) error {
	if h.follow {
		return nil
	}
	for _, id := range h.sieve.Unseen() {
		known, err := f.known(ctx)
		if (h.since != "0" || h.until != "") && (err != nil || slices.Contains(known, id)) {
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

// first returns the first sequence at a position or later.
func (f *fleet) first(ctx context.Context, last events.Seq, p position.Position) (events.Seq, error) {
	if p.Time.IsZero() {
		return max(p.Seq, 1), nil
	}
	return position.First(last, p.Time, f.at(ctx))
}

// last returns the last sequence at a position or earlier; 0 if there is none.
func (f *fleet) last(ctx context.Context, last events.Seq, p position.Position) (events.Seq, error) {
	if p.Time.IsZero() {
		return min(p.Seq, last), nil
	}
	next, err := position.First(last, p.Time.Add(1), f.at(ctx))
	return max(next, 1) - 1, err
}
