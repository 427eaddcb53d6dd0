package main

import (
	"context"
	"math"
	"time"

	"github.com/spf13/cobra"

	"github.com/toolfleet/toolfleet/cmd/internal/exit"
	"github.com/toolfleet/toolfleet/cmd/internal/goal"
	"github.com/toolfleet/toolfleet/cmd/internal/outcome"
	"github.com/toolfleet/toolfleet/controller/client"
	"github.com/toolfleet/toolfleet/controller/request"
	"github.com/toolfleet/toolfleet/events"
)

// hostKind is one of the verbs about workers.
type hostKind struct {
	verb, short, long string
	ask               func(*client.Client, context.Context, events.WorkerID, *client.RequestOptions) (request.Answer, error)
	// follow is called before that; what it returns waits for what follows, and
	// says what it came to.
	follow func(c *changer, id events.WorkerID) following
}

type following = func(context.Context) (string, error)

// words follow a change that is made when it is accepted.
func words(text string) func(*changer, events.WorkerID) following {
	return func(*changer, events.WorkerID) following {
		return func(context.Context) (string, error) { return text, nil }
	}
}

func newCordon() *cobra.Command {
	return newHostChange(&hostKind{
		"cordon", "Place nothing new on workers",
		"What runs on them stays. It holds until uncordon, also when the worker is started again.",
		(*client.Client).Cordon,
		words("cordoned"),
	})
}

func newUncordon() *cobra.Command {
	return newHostChange(&hostKind{
		"uncordon", "Allow workers to run servers again",
		"It ends cordon and drain. Nothing moves back by itself.",
		(*client.Client).Uncordon,
		words("takes servers again"),
	})
}

func newDrain() *cobra.Command {
	return newHostChange(&hostKind{
		"drain", "Move what runs on workers elsewhere, and place nothing new there",
		"A stateless server is started elsewhere first; others are stopped, then started. It\n" +
			"holds until uncordon, also when the worker is started again.",
		(*client.Client).Drain,
		func(c *changer, id events.WorkerID) following { return goal.NewDrain(c.views, id).Await },
	})
}

func newHostChange(k *hostKind) *cobra.Command {
	var o changeFlags
	cmd := &cobra.Command{
		Use:   k.verb + " WORKER...",
		Short: k.short,
		Long:  k.short + ".\n" + k.long,
		Args:  exit.Arguments(1, math.MaxInt),
		RunE: func(cmd *cobra.Command, ids []string) error {
			return o.change(cmd, func(c *changer) error {
				return outcome.Each(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr(), ids, func(ctx context.Context, id string) (string, error) {
					return c.changeHost(ctx, k, events.WorkerID(id))
				})
			})
		},
	}
	o.register(cmd)
	return cmd
}

// change attaches to the fleet, says which one it is, and runs f with what changes
// and waits.
func (o *changeFlags) change(cmd *cobra.Command, f func(*changer) error) error {
	fleet, err := attachTo(cmd.Context(), &o.Flags)
	if err != nil {
		return err
	}
	defer fleet.close()
	r, err := fleet.views(cmd)
	if err != nil {
		return err
	}
	defer follow(cmd.Context(), r)()
	fleet.sayWhere(cmd)
	return f(&changer{fleet, r, client.New(fleet.nc, fleet.id, nil), o})
}

func (c *changer) changeHost(ctx context.Context, k *hostKind, id events.WorkerID) (string, error) {
	limit, follows := c.limitOfWorker(id), k.follow(c, id)
	answer, err := c.granted(ctx, func(ctx context.Context, o *client.RequestOptions) (request.Answer, error) {
		return k.ask(c.client, ctx, id, o)
	})
	if err != nil {
		return "", c.explainHost(err, id)
	}
	prefix := ""
	if answer.Unchanged {
		prefix = "unchanged: "
	}
	words, err := c.awaitThat(ctx, answer.Seq, limit, follows)
	if err != nil {
		return "", err
	}
	return prefix + words, nil
}

// limitOfWorker returns how long it may take until all that a worker runs is
// started elsewhere, and stopped there; 0 is for ever.
func (c *changer) limitOfWorker(id events.WorkerID) time.Duration {
	longest := slack
	for _, e := range c.views.Servers() {
		for _, i := range c.views.Instances(e.Value.ID) {
			if i.Value.Worker != id || !i.Value.State.Owned() {
				continue
			}
			limit := c.limit(e.Value.ID)
			if limit == 0 {
				return 0
			}
			longest = max(longest, limit)
		}
	}
	return longest
}
