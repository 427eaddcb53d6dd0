package main

import (
	"context"

	"github.com/cockroachdb/errors"
	"github.com/spf13/cobra"

	"github.com/toolfleet/toolfleet/cmd/internal/exit"
	"github.com/toolfleet/toolfleet/cmd/internal/goal"
	"github.com/toolfleet/toolfleet/cmd/internal/outcome"
	"github.com/toolfleet/toolfleet/controller/client"
	"github.com/toolfleet/toolfleet/controller/request"
	"github.com/toolfleet/toolfleet/events"
)

func newMove() *cobra.Command {
	var o changeFlags
	cmd := &cobra.Command{
		Use:   "move SERVER WORKER",
		Short: "Move a server to a worker, and wait until it is ready there",
		Long: "Moves a server, or one instance of it, to a worker that may run it, and waits until it\n" +
			"is ready there. Nothing keeps it there afterwards: see toolfleet pin.",
		Args: exit.Arguments(2, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			id, to := events.ServerID(args[0]), events.WorkerID(args[1])
			return o.change(cmd, func(c *changer) error {
				return outcome.Each(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr(), args[:1], func(ctx context.Context, _ string) (string, error) {
					return c.move(ctx, id, to)
				})
			})
		},
	}
	o.register(cmd)
	return cmd
}

func (c *changer) move(ctx context.Context, id events.ServerID, to events.WorkerID) (string, error) {
	answer, err := c.granted(ctx, func(ctx context.Context, o *client.RequestOptions) (request.Answer, error) {
		return c.client.Move(ctx, id, to, o)
	})
	if err != nil {
		return "", c.explainMove(err, id, to)
	}
	since, prefix := answer.Seq, ""
	if answer.Unchanged {
		since, prefix = 0, "unchanged: "
	}
	words, err := c.await(ctx, id, answer.Seq, c.limit(id), goal.On(to, since))
	if err != nil {
		return "", err
	}
	return prefix + words, nil
}

func (c *changer) explainMove(err error, id events.ServerID, to events.WorkerID) error {
	if errors.IsAny(err, request.ErrUnknownWorker, request.ErrDoesNotFit) {
		return c.explainHost(err, to)
	}
	return c.explain(err, id)
}
