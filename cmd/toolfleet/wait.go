package main

import (
	"context"
	"math"
	"time"

	"github.com/spf13/cobra"

	"github.com/toolfleet/toolfleet/cmd/internal/attach"
	"github.com/toolfleet/toolfleet/cmd/internal/exit"
	"github.com/toolfleet/toolfleet/cmd/internal/goal"
	"github.com/toolfleet/toolfleet/cmd/internal/outcome"
	"github.com/toolfleet/toolfleet/cmd/internal/show"
	"github.com/toolfleet/toolfleet/events"
)

// goals are what can be waited for.
var goals = map[string]goal.Goal{"ready": goal.Ready(0), "stopped": goal.Stopped, "gone": goal.Gone}

func newWait() *cobra.Command {
	var (
		flags   attach.Flags
		what    string
		timeout time.Duration
	)
	cmd := &cobra.Command{
		Use:   "wait SERVER...",
		Short: "Wait until servers are ready",
		Long: "Waits until servers are ready, stopped or gone. The exit status is 4 if that took too\n" +
			"long, and 1 if it will not happen by itself.",
		Args: func(cmd *cobra.Command, ids []string) error {
			if goals[what] == nil {
				return exit.Usagef("--for %q: use ready, stopped or gone", what)
			}
			return exit.Arguments(1, math.MaxInt)(cmd, ids)
		},
		RunE: func(cmd *cobra.Command, ids []string) error {
			f, err := attachTo(cmd.Context(), &flags)
			if err != nil {
				return err
			}
			defer f.close()
			r, err := f.views(cmd)
			if err != nil {
				return err
			}
			if what != "gone" {
				if _, err := choose(show.Servers, "servers", show.ReadServers(r), ids); err != nil {
					return err
				}
			}
			f.sayWhenLost(cmd)
			defer follow(cmd.Context(), r)()
			ctx, cancel := context.WithTimeout(cmd.Context(), timeout)
			defer cancel()
			return outcome.Each(ctx, cmd.OutOrStdout(), cmd.ErrOrStderr(), ids, func(ctx context.Context, id string) (string, error) {
				return goal.Await(ctx, r, events.ServerID(id), goals[what])
			})
		},
	}
	flags.Register(cmd.Flags())
	cmd.Flags().StringVar(&what, "for", "ready", "what to wait for: `ready|stopped|gone`")
	cmd.Flags().DurationVar(&timeout, "timeout", time.Minute, "how long to wait")
	return cmd
}
