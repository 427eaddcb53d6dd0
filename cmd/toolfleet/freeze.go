package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/toolfleet/toolfleet/cmd/internal/exit"
	"github.com/toolfleet/toolfleet/cmd/internal/outcome"
	"github.com/toolfleet/toolfleet/controller/client"
	"github.com/toolfleet/toolfleet/controller/request"
)

func newFreeze() *cobra.Command {
	return newFleetChange("freeze", "Leave everything as it is: no automatic start, restart, move or update",
		"What runs goes on, and what fails stays down. stop and disable still work; what would\n"+
			"start, restart, move, update or remove a server is refused until unfreeze.",
		"frozen", (*client.Client).Freeze)
}

func newUnfreeze() *cobra.Command {
	return newFleetChange("unfreeze", "End a freeze",
		"What failed, or was to be placed, meanwhile is made up for.",
		"thawed", (*client.Client).Unfreeze)
}

func newFleetChange(verb, short, long, done string, ask func(*client.Client, context.Context, *client.RequestOptions) (request.Answer, error)) *cobra.Command {
	var o changeFlags
	cmd := &cobra.Command{
		Use:   verb,
		Short: short,
		Long:  short + ".\n" + long,
		Args:  exit.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return o.change(cmd, func(c *changer) error {
				return outcome.Each(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr(), []string{"fleet " + string(c.fleet.id)}, func(ctx context.Context, _ string) (string, error) {
					return c.changeFleet(ctx, done, ask)
				})
			})
		},
	}
	o.register(cmd)
	return cmd
}

func (c *changer) changeFleet(
	ctx context.Context, done string, ask func(*client.Client, context.Context, *client.RequestOptions) (request.Answer, error),
) (string, error) {
	answer, err := c.granted(ctx, func(ctx context.Context, o *client.RequestOptions) (request.Answer, error) {
		return ask(c.client, ctx, o)
	})
	if err != nil {
		return "", c.explain(err, "")
	}
	if answer.Unchanged {
		done = "unchanged: " + done
	}
	return c.awaitThat(ctx, answer.Seq, slack, func(context.Context) (string, error) { return done, nil })
}
