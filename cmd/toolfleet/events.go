package main

import (
	"bufio"
	"context"
	"strings"
	"time"

	"github.com/cockroachdb/errors"
	"github.com/spf13/cobra"

	"github.com/toolfleet/toolfleet/cmd/internal/attach"
	"github.com/toolfleet/toolfleet/cmd/internal/exit"
	"github.com/toolfleet/toolfleet/cmd/internal/position"
	"github.com/toolfleet/toolfleet/cmd/internal/show"
	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/events/jetlog"
)

// history is the command events with its flags.
type history struct {
	flags  attach.Flags
	format *show.Format
	since  string
	follow bool
	ids    []string
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
		Example: "  toolfleet events github --since 15m\n  toolfleet events -o json --follow",
		RunE: func(cmd *cobra.Command, ids []string) error {
			h.ids = ids
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
	cmd.Flags().BoolVarP(&h.follow, "follow", "w", false, "go on with events as they happen")
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
	if !h.follow {
		if head.Seq < first {
			return h.found(0)
		}
		o.Until = head.Seq
	}
	out := bufio.NewWriter(cmd.OutOrStdout())
	shown := 0
	for r, err := range log.Follow(ctx, min(first-1, head.Seq), o) { // what is to come may be what is wanted
		if err == nil && r.Seq >= first && h.wants(r.Chain) {
			shown++
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
	return errors.CombineErrors(out.Flush(), h.found(shown))
}

// found returns an error if nothing was found of what was asked for by name in
// the whole history.
func (h *history) found(shown int) error {
	if shown > 0 || len(h.ids) == 0 || h.follow || h.since != "0" {
		return nil
	}
	return exit.With(exit.NotFound, errors.Newf("the history has no event of %s", strings.Join(h.ids, ", ")))
}

// wants says whether a chain is one of those that are shown: that of a server and
// of its instances, or that of a worker.
func (h *history) wants(c events.Chain) bool {
	for _, id := range h.ids {
		if string(c.Server()) == id || string(c.Worker()) == id {
			return true
		}
	}
	return len(h.ids) == 0
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
