package main

import (
	"context"
	"time"

	"github.com/cockroachdb/errors"
	"github.com/spf13/cobra"

	"github.com/toolfleet/toolfleet/cmd/internal/attach"
	"github.com/toolfleet/toolfleet/cmd/internal/exit"
	"github.com/toolfleet/toolfleet/cmd/internal/goal"
	"github.com/toolfleet/toolfleet/cmd/internal/near"
	"github.com/toolfleet/toolfleet/cmd/internal/outcome"
	"github.com/toolfleet/toolfleet/cmd/internal/show"
	"github.com/toolfleet/toolfleet/controller/client"
	"github.com/toolfleet/toolfleet/controller/request"
	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/projections"
	"github.com/toolfleet/toolfleet/projections/kvview"
)

// ask is a request about one server.
type ask = func(*client.Client, context.Context, events.ServerID, *client.RequestOptions) (request.Answer, error)

// kind is one of the verbs that change servers.
type kind struct {
	verb, short string
	ask         ask
	// among says which servers --all is about.
	among func(*projections.Status) bool
	// goal is what a server has to come to after the request's event, which is 0 if
	// nothing had to be changed.
	goal func(events.Seq) goal.Goal
}

var kinds = []kind{
	{"start", "Start servers, and wait until they are ready", (*client.Client).Start, isEnabled, goal.Ready},
	{"stop", "Stop servers, and wait until nothing of them runs", (*client.Client).Stop, isEnabled, stopped},
	{"restart", "Restart servers, and wait until they are ready again", (*client.Client).Restart, isRunning, goal.Ready},
	{"enable", "Allow servers to run", (*client.Client).Enable, not(isEnabled), enabled},
	{"disable", "Forbid servers to run, and wait until nothing of them runs", (*client.Client).Disable, isEnabled, stopped},
	{"rm", "Remove servers from the fleet", (*client.Client).Withdraw, everyone, func(events.Seq) goal.Goal { return goal.Gone }},
}

func isEnabled(s *projections.Status) bool { return s.Enabled }
func isRunning(s *projections.Status) bool { return s.Want == events.Running }
func everyone(*projections.Status) bool    { return true }

func not(f func(*projections.Status) bool) func(*projections.Status) bool {
	return func(s *projections.Status) bool { return !f(s) }
}

func stopped(events.Seq) goal.Goal { return goal.Stopped }

// enabled is reached at once by a server that the fleet wants stopped.
func enabled(since events.Seq) goal.Goal {
	return func(s *projections.Status) (string, error) {
		if s != nil && s.Enabled && s.Want == events.Stopped {
			return "enabled; it stays stopped until it is started", nil
		}
		return goal.Ready(since)(s)
	}
}

// changeFlags are the flags of what changes servers.
type changeFlags struct {
	attach.Flags
	reason  string
	noWait  bool
	timeout time.Duration
}

func (o *changeFlags) register(cmd *cobra.Command) {
	o.Flags.Register(cmd.Flags())
	cmd.Flags().StringVar(&o.reason, "reason", "", "why, in your `words`: they are kept in the history")
	cmd.Flags().BoolVar(&o.noWait, "no-wait", false, "return when the change is accepted")
	cmd.Flags().DurationVar(&o.timeout, "timeout", 0, "how long a server may take (default: its own limits)")
}

func newChanges() []*cobra.Command {
	all := make([]*cobra.Command, 0, len(kinds))
	for i := range kinds {
		all = append(all, newChange(&kinds[i]))
	}
	return all
}

func newChange(k *kind) *cobra.Command {
	var (
		o   changeFlags
		all bool
	)
	cmd := &cobra.Command{
		Use:   k.verb + " (SERVER... | --all)",
		Short: k.short,
		Long: k.short + ". All of them at once: none waits for\n" +
			"another. There is one line for each; the exit status is 1 if one failed.",
		Args: func(cmd *cobra.Command, ids []string) error {
			if (len(ids) > 0) == all {
				return exit.Usagef("usage: %s", cmd.UseLine())
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, ids []string) error {
			f, err := attachTo(cmd.Context(), &o.Flags)
			if err != nil {
				return err
			}
			defer f.close()
			r, err := f.views(cmd)
			if err != nil {
				return err
			}
			defer follow(cmd.Context(), r)()
			if all {
				ids = among(r, k.among)
			}
			f.sayWhere(cmd)
			if len(ids) == 0 {
				cmd.PrintErrf("the fleet has no server that it could %s\n", k.verb)
			}
			c := &changer{f, r, client.New(f.nc, f.id, nil), &o}
			return outcome.Each(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr(), ids, func(ctx context.Context, id string) (string, error) {
				return c.change(ctx, k, events.ServerID(id))
			})
		},
	}
	o.register(cmd)
	cmd.Flags().BoolVar(&all, "all", false, "all servers that it can be done to")
	return cmd
}

// among returns the ids of the servers of which that holds.
func among(r *kvview.Reader, that func(*projections.Status) bool) (ids []string) {
	for _, s := range show.ReadServers(r) {
		if that(&s) {
			ids = append(ids, string(s.ID))
		}
	}
	return ids
}

// changer asks for changes and waits until they are made.
type changer struct {
	fleet  *fleet
	views  *kvview.Reader
	client *client.Client
	o      *changeFlags
}

// askWithin bounds a request: a fleet without a controller is told of soon.
const askWithin = 10 * time.Second

func (c *changer) change(ctx context.Context, k *kind, id events.ServerID) (string, error) {
	limit := c.limit(id) // before rm forgets it
	answer, err := c.granted(ctx, func(ctx context.Context, o *client.RequestOptions) (request.Answer, error) {
		return k.ask(c.client, ctx, id, o)
	})
	if err != nil {
		return "", c.explain(err, id)
	}
	since := answer.Seq
	prefix := ""
	if answer.Unchanged {
		since, prefix = 0, "unchanged: "
	}
	words, err := c.await(ctx, id, answer.Seq, limit, k.goal(since))
	if err != nil {
		return "", err
	}
	return prefix + words, nil
}

// granted makes a request within its time.
func (c *changer) granted(ctx context.Context, ask func(context.Context, *client.RequestOptions) (request.Answer, error)) (request.Answer, error) {
	ctx, cancel := context.WithTimeout(ctx, askWithin)
	defer cancel()
	return ask(ctx, &client.RequestOptions{Reason: c.o.reason})
}

// await waits for what follows a request about a server.
func (c *changer) await(ctx context.Context, id events.ServerID, seq events.Seq, limit time.Duration, reached goal.Goal) (string, error) {
	return c.awaitThat(ctx, seq, limit, func(ctx context.Context) (string, error) {
		return goal.Await(ctx, c.views, id, reached)
	})
}

// awaitThat waits for what follows a request.
func (c *changer) awaitThat(ctx context.Context, seq events.Seq, limit time.Duration, follows func(context.Context) (string, error)) (string, error) {
	if c.o.noWait {
		return "accepted", nil
	}
	if limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, limit)
		defer cancel()
	}
	if err := c.views.Wait(ctx, seq); err != nil {
		return "", errors.Wrap(err, "wait for the views to show it")
	}
	return follows(ctx)
}

// slack is what a change takes besides the server's own limits.
const slack = 5 * time.Second

// limit returns how long a server may take to stop and to start: its own limits;
// 0 is for ever.
func (c *changer) limit(id events.ServerID) time.Duration {
	d := &events.Definition{}
	if e := c.views.Server(id); e != nil && e.Value.Exists() {
		d = e.Value.Definition
	}
	return c.limitOf(d)
}

func (c *changer) limitOf(d *events.Definition) time.Duration {
	if c.o.timeout > 0 {
		return c.o.timeout
	}
	if d.ConnectTimeout() == 0 || d.GracePeriod() == 0 {
		return 0
	}
	return d.ConnectTimeout() + d.GracePeriod() + slack
}

// explain gives a refusal its way out and its status.
func (c *changer) explain(err error, id events.ServerID) error {
	switch {
	case errors.Is(err, request.ErrUnknownServer):
		for _, n := range near.Names(string(id), among(c.views, everyone)) {
			err = errors.WithHintf(err, "did you mean %s?", n)
		}
		return exit.With(exit.NotFound, err)
	case errors.Is(err, request.ErrFrozen):
		return errors.WithHint(err, "toolfleet unfreeze")
	case errors.Is(err, request.ErrServerDisabled):
		return errors.WithHintf(err, "toolfleet enable %s", id)
	case errors.Is(err, request.ErrServerStopped):
		return errors.WithHintf(err, "toolfleet start %s", id)
	case errors.Is(err, client.ErrNoController):
		return exit.With(exit.Failed, errors.WithHint(err, "nothing was changed; start a controller, or toolfleet up"))
	default:
		return err
	}
}

// explainHost does the same where a worker is meant.
func (c *changer) explainHost(err error, id events.WorkerID) error {
	switch {
	case errors.Is(err, request.ErrUnknownWorker):
		var all []string
		for _, e := range c.views.Workers() {
			all = append(all, string(e.Value.ID))
		}
		for _, n := range near.Names(string(id), all) {
			err = errors.WithHintf(err, "did you mean %s?", n)
		}
		return exit.With(exit.NotFound, err)
	case errors.Is(err, request.ErrDoesNotFit):
		return errors.WithHint(err, "toolfleet get workers shows what there is")
	default:
		return c.explain(err, "")
	}
}
