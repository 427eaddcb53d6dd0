package main

import (
	"context"
	"time"

	"github.com/cockroachdb/errors"
	"github.com/spf13/cobra"

	"github.com/toolfleet/toolfleet/cmd/internal/attach"
	"github.com/toolfleet/toolfleet/cmd/internal/exit"
	"github.com/toolfleet/toolfleet/cmd/internal/near"
	"github.com/toolfleet/toolfleet/cmd/internal/show"
	"github.com/toolfleet/toolfleet/controller"
	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/events/jetlog"
	"github.com/toolfleet/toolfleet/projections"
	"github.com/toolfleet/toolfleet/projections/story"
)

func newWhy() *cobra.Command {
	var (
		flags attach.Flags
		past  pastFlag
	)
	format := show.NewFormat(show.Text, show.JSON, show.YAML)
	cmd := &cobra.Command{
		Use:   "why SERVER|TOOL|WORKER",
		Short: "Say why something is as it is, or is not there",
		Long: "Says what a server, tool or worker is, and the events that led to it: each because\n" +
			"of the next, down to who asked for it, when, and in which words. It says also why\n" +
			"something is not there. The exit status is 3 for what the fleet never had.",
		Args: exit.Arguments(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			f, err := attachTo(cmd.Context(), &flags)
			if err != nil {
				return err
			}
			defer f.close()
			q, err := f.question(cmd, args[0], &past)
			if err != nil {
				return err
			}
			a := story.Why(q)
			if a.Kind == story.IsUnknown {
				err := errors.Newf("%s: %s", args[0], a.Summary)
				for _, n := range near.Names(args[0], namesIn(q.History)) {
					err = errors.WithHintf(err, "did you mean %s?", n)
				}
				return exit.With(exit.NotFound, errors.WithHint(err, a.Help))
			}
			return show.Answer(cmd.OutOrStdout(), format, a)
		},
	}
	flags.Register(cmd.Flags())
	format.Register(cmd.Flags())
	past.register(cmd.Flags())
	return cmd
}

// question reads what an answer about a subject rests on.
func (f *fleet) question(cmd *cobra.Command, subject string, past *pastFlag) (*story.Question, error) {
	ctx := cmd.Context()
	log, err := f.log(ctx)
	if err != nil {
		return nil, err
	}
	head, err := log.Head(ctx)
	if err != nil {
		return nil, err
	}
	seq, now := head.Seq, time.Now()
	if past.given() {
		if seq, err = f.moment(ctx, log, past.at); err != nil {
			return nil, err
		}
		if now, err = f.stored(ctx, seq); err != nil {
			return nil, err
		}
		cmd.PrintErrf("as of seq %d, %s\n", seq, now.Local().Format(time.DateTime))
	}
	lists := newLists(ctx, log)
	q := &story.Question{Subject: subject, History: new(projections.History), Now: now, Names: lists.names}
	for r, err := range log.Follow(ctx, 0, &jetlog.FollowOptions{Until: seq}) {
		if seq == 0 {
			break // the fleet has no history yet
		}
		if err != nil {
			return nil, err
		}
		q.History.Apply(r)
		if story.Concerns(subject, &r) {
			q.Records = append(q.Records, r)
		}
	}
	q.Waiting = waiting(q.History)
	return q, ctx.Err()
}

// waiting returns a function that says why an instance has no owner.
func waiting(h *projections.History) func(events.ServerID, events.InstanceID) string {
	reasons := controller.Waiting(h)
	return func(s events.ServerID, n events.InstanceID) string { return reasons[events.InstanceChain(s, n)] }
}

func namesIn(h *projections.History) (names []string) {
	for s := range h.Servers() {
		names = append(names, string(s.ID))
	}
	for w := range h.Workers() {
		names = append(names, string(w.ID))
	}
	return names
}

// readWithin is how long a list that the history tells of is waited for: it was
// stored before.
const readWithin = 2 * time.Second

// read reads a blob.
func read(ctx context.Context, log *jetlog.Log, d events.Digest) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, readWithin)
	defer cancel()
	return log.GetBlob(ctx, d)
}
