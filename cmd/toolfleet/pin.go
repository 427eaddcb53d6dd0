package main

import (
	"context"
	"os"
	"strings"

	"github.com/cockroachdb/errors"
	"github.com/spf13/cobra"

	"github.com/toolfleet/toolfleet/cmd/internal/exit"
	"github.com/toolfleet/toolfleet/cmd/internal/files"
	"github.com/toolfleet/toolfleet/cmd/internal/goal"
	"github.com/toolfleet/toolfleet/cmd/internal/outcome"
	"github.com/toolfleet/toolfleet/controller/client"
	"github.com/toolfleet/toolfleet/controller/request"
	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/projections/kvview"
)

func newPin() *cobra.Command {
	var (
		o   changeFlags
		to  string
		off bool
	)
	cmd := &cobra.Command{
		Use:   "pin SERVER",
		Short: "Keep a server on this host, or on another worker",
		Long: "Changes a server's definition, so that only one worker may run it: that of this host,\n" +
			"or --worker; --off lets any worker run it again. It then waits until the server is\n" +
			"ready there. An apply of the file that the server comes from undoes it, unless the\n" +
			"file says the same (placement.worker).",
		Args: func(cmd *cobra.Command, args []string) error {
			if off && to != "" {
				return exit.Usagef("--worker and --off do not go together")
			}
			return exit.Arguments(1, 1)(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return o.change(cmd, func(c *changer) error {
				worker := events.WorkerID(to)
				if worker == "" && !off {
					var err error
					if worker, err = here(c.views); err != nil {
						return err
					}
				}
				return outcome.Each(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr(), args, func(ctx context.Context, id string) (string, error) {
					return c.pin(ctx, events.ServerID(id), worker)
				})
			})
		},
	}
	o.register(cmd)
	cmd.Flags().StringVar(&to, "worker", "", "the `id` of the worker (default: that of this host)")
	cmd.Flags().BoolVar(&off, "off", false, "let any worker run it again")
	return cmd
}

// pin declares a server as it is, but for where it is placed.
func (c *changer) pin(ctx context.Context, id events.ServerID, worker events.WorkerID) (string, error) {
	e := c.views.Server(id)
	if e == nil || !e.Value.Exists() {
		return "", c.explain(request.Errorf(request.UnknownServer, "the fleet has no server %q", id), id)
	}
	if w := c.views.Worker(worker); worker != "" && (w == nil || w.Value.Joins == 0) {
		return "", c.explainHost(request.Errorf(request.UnknownWorker, "the fleet has no worker %q", worker), worker)
	}
	d := files.PlacedOn(e.Value.Definition, worker)
	answer, err := c.granted(ctx, func(ctx context.Context, o *client.RequestOptions) (request.Answer, error) {
		return c.client.Declare(ctx, id, d, o)
	})
	if err != nil {
		return "", c.explain(err, id)
	}
	word, reached := "pinned to "+string(worker), goal.On(worker, answer.Seq)
	if worker == "" {
		word, reached = "pinned no more", goal.Settled(answer.Seq)
	}
	if e.Value.Wanted() == events.Stopped {
		return word + "; it is not to run at the moment", nil
	}
	words, err := c.await(ctx, id, answer.Seq, c.limitOf(d), reached)
	if err != nil {
		return "", errors.Wrap(err, word)
	}
	return word + ": " + words, nil
}

// here returns the worker that runs on this host.
func here(r *kvview.Reader) (events.WorkerID, error) {
	host, err := os.Hostname()
	if err != nil {
		return "", errors.WithHint(errors.Wrap(err, "find out the name of this host"), "name a worker instead")
	}
	var all []string
	for _, e := range r.Workers() {
		if w := &e.Value; w.Present() && w.Host == host {
			all = append(all, string(w.ID))
		}
	}
	switch len(all) {
	case 0:
		return "", exit.With(exit.NotFound, errors.WithHint(errors.Newf("no worker of the fleet runs on this host, %s", host),
			"start one: worker, or toolfleet up; toolfleet get workers shows those that there are"))
	case 1:
		return events.WorkerID(all[0]), nil
	default:
		return "", exit.Usagef("several workers run on this host, %s: name one of %s", host, strings.Join(all, ", "))
	}
}
