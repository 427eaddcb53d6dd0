package main

import (
	"bufio"
	"context"

	"github.com/cockroachdb/errors"
	"github.com/spf13/cobra"

	"github.com/toolfleet/toolfleet/cmd/internal/attach"
	"github.com/toolfleet/toolfleet/cmd/internal/exit"
	"github.com/toolfleet/toolfleet/cmd/internal/show"
	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/events/jetlog"
)

func newEvents() *cobra.Command {
	var (
		flags  attach.Flags
		output format
		follow bool
		since  uint64
	)
	cmd := &cobra.Command{
		Use:   "events",
		Short: "Show the fleet's history",
		Long: "Shows the fleet's history from its beginning, or from --since.\n\n" +
			"With -o json each event is one line: seq, time, kind, chain, worker, epoch,\n" +
			"attempt, actor, reason, cause, correlation, id, body.",
		Args: exit.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			log, closeLog, err := openLog(cmd.Context(), &flags)
			if err != nil {
				return err
			}
			defer closeLog()
			return printEvents(cmd, log, events.Seq(max(since, 1)-1), follow, output)
		},
	}
	flags.Register(cmd.Flags())
	output.register(cmd.Flags())
	cmd.Flags().BoolVar(&follow, "follow", false, "go on with events as they happen")
	cmd.Flags().Uint64Var(&since, "since", 1, "sequence of the first event to show")
	return cmd
}

func printEvents(cmd *cobra.Command, log *jetlog.Log, after events.Seq, follow bool, output format) error {
	ctx, cancel := context.WithCancel(cmd.Context())
	defer cancel()
	o := &jetlog.FollowOptions{}
	if !follow {
		head, err := log.Head(ctx)
		if err != nil || head.Seq <= after {
			return err
		}
		o.Until = head.Seq
	}
	out := bufio.NewWriter(cmd.OutOrStdout())
	write := show.Event
	if output.json {
		write = show.EventJSON
	}
	for r, err := range log.Follow(ctx, after, o) {
		if err == nil {
			err = write(out, &r)
		}
		if err == nil && follow {
			err = out.Flush()
		}
		if err != nil {
			return errors.CombineErrors(err, out.Flush())
		}
	}
	return out.Flush()
}
