package main

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/cockroachdb/errors"
	"github.com/spf13/cobra"

	"github.com/toolfleet/toolfleet/cmd/internal/exit"
	"github.com/toolfleet/toolfleet/cmd/internal/goal"
	"github.com/toolfleet/toolfleet/cmd/internal/outcome"
	"github.com/toolfleet/toolfleet/cmd/internal/position"
	"github.com/toolfleet/toolfleet/cmd/internal/revert"
	"github.com/toolfleet/toolfleet/controller/client"
	"github.com/toolfleet/toolfleet/controller/request"
	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/events/jetlog"
)

func newRollback() *cobra.Command {
	var (
		o  changeFlags
		to string
	)
	cmd := &cobra.Command{
		Use:   "rollback SERVER",
		Short: "Give a server a definition that it had before",
		Long: "Declares a server again as it was before its definition was last changed, or at a\n" +
			"position, with the versions of its secrets, and waits until it is ready. A server that\n" +
			"was removed comes back. It is refused when the value of a secret was deleted since.",
		Args: exit.Arguments(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			f, err := attachTo(cmd.Context(), &o.Flags)
			if err != nil {
				return err
			}
			defer f.close()
			id := events.ServerID(args[0])
			target, err := f.target(cmd.Context(), id, to)
			if err != nil {
				return err
			}
			f.sayWhere(cmd)
			return (&changer{f, nil, client.New(f.nc, f.id, nil), &o}).rollBack(cmd, id, target)
		},
	}
	o.register(cmd)
	cmd.Flags().StringVar(&to, "to", "", "`position` at which it had the definition (default: before the last change): "+position.Form)
	return cmd
}

// target returns what a server goes back to, whose secrets are still there.
func (f *fleet) target(ctx context.Context, id events.ServerID, to string) (*revert.Target, error) {
	log, err := f.log(ctx)
	if err != nil {
		return nil, err
	}
	at := events.Seq(0)
	if to != "" {
		if at, err = f.moment(ctx, log, to); err != nil {
			return nil, err
		}
	}
	var chain []events.Record
	if _, err := events.ParseServerID(string(id)); err == nil {
		for r, err := range log.Select(ctx, []string{"server." + string(id)}, nil) {
			if err != nil {
				return nil, err
			}
			chain = append(chain, r)
		}
	}
	t, err := revert.Find(id, chain, at)
	if err != nil {
		return nil, err
	}
	return t, stillStored(ctx, log, id, t.Definition)
}

// stillStored returns an error that names the secrets of a definition whose values
// are gone.
func stillStored(ctx context.Context, log *jetlog.Log, id events.ServerID, d *events.Definition) error {
	refs, err := revert.Secrets(d)
	if err != nil || len(refs) == 0 {
		return err
	}
	secrets, err := log.Secrets(ctx)
	if err != nil {
		return err
	}
	stored := make(map[events.ServerID][]jetlog.SecretRef)
	var missing []string
	for _, r := range refs {
		if _, read := stored[r.Server]; !read {
			if stored[r.Server], err = secrets.Versions(ctx, r.Server); err != nil {
				return err
			}
		}
		if len(revert.Missing([]jetlog.SecretRef{r}, stored[r.Server])) > 0 {
			missing = append(missing, r.Name())
		}
	}
	if len(missing) == 0 {
		return nil
	}
	return errors.WithHint(errors.Newf("the former definition of %s needs values that were deleted since: %s", id, strings.Join(missing, ", ")),
		"declare it anew with those values: toolfleet apply -f FILE")
}

func (c *changer) rollBack(cmd *cobra.Command, id events.ServerID, t *revert.Target) error {
	if t.Same {
		say(cmd, fmt.Sprintf("nothing to do: %s has that definition, since event %d", id, t.Seq))
		return nil
	}
	r, err := c.fleet.views(cmd)
	if err != nil {
		return err
	}
	c.views = r
	defer follow(cmd.Context(), r)()
	c.o.reason = cmp.Or(c.o.reason, fmt.Sprintf("rollback to the definition of event %d", t.Seq))
	return outcome.Each(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr(), []string{string(id)}, func(ctx context.Context, _ string) (string, error) {
		answer, err := c.granted(ctx, func(ctx context.Context, o *client.RequestOptions) (request.Answer, error) {
			return c.client.Declare(ctx, id, t.Definition, o)
		})
		if err != nil {
			return "", c.explain(err, id)
		}
		words, err := c.await(ctx, id, answer.Seq, c.limitOf(t.Definition), goal.Settled(answer.Seq))
		if err != nil {
			return "", errors.Wrap(err, "rolled back")
		}
		return fmt.Sprintf("rolled back to the definition of event %d, %s", t.Seq, words), nil
	})
}
