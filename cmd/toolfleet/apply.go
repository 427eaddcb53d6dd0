package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/cockroachdb/errors"
	"github.com/spf13/cobra"

	"github.com/toolfleet/toolfleet/cmd/internal/exit"
	"github.com/toolfleet/toolfleet/cmd/internal/files"
	"github.com/toolfleet/toolfleet/cmd/internal/goal"
	"github.com/toolfleet/toolfleet/cmd/internal/outcome"
	"github.com/toolfleet/toolfleet/cmd/internal/show"
	"github.com/toolfleet/toolfleet/controller/client"
	"github.com/toolfleet/toolfleet/controller/request"
	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/projections"
	"github.com/toolfleet/toolfleet/projections/kvview"
)

func newApply() *cobra.Command {
	var (
		o      changeFlags
		paths  []string
		dryRun bool
		onHere bool
	)
	cmd := &cobra.Command{
		Use:   "apply -f FILE...",
		Short: "Declare the servers of a file, and wait until they are ready",
		Long: "Declares the servers of configuration files (the mcpServers shape), replaces those\n" +
			"that differ, and withdraws what an earlier apply took from the same file and it\n" +
			"has no longer. A file that does not parse changes nothing; a bad entry keeps\n" +
			"nobody else.",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(paths) == 0 {
				return exit.Usagef("usage: %s", cmd.UseLine())
			}
			return exit.NoArguments(cmd, args)
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			sources, err := files.Read(paths...)
			if err != nil {
				return err
			}
			rejected := notes(cmd, sources)
			f, err := attachTo(cmd.Context(), &o.Flags)
			if err != nil {
				return err
			}
			defer f.close()
			r, err := f.views(cmd)
			if err != nil {
				return err
			}
			if onHere {
				if sources, err = placedHere(r, sources); err != nil {
					return err
				}
			}
			states := statesOf(r)
			steps := files.Plan(sources, states)
			f.sayWhere(cmd)
			say(cmd, files.Remarks(sources, states)...)
			if dryRun {
				err = foretell(cmd, steps)
			} else {
				err = (&applier{changer{f, r, nil, &o}, steps}).run(cmd)
			}
			if err == nil && rejected {
				return exit.Told(exit.Failed)
			}
			return err
		},
	}
	o.register(cmd)
	cmd.Flags().StringArrayVarP(&paths, "file", "f", nil, "configuration `file`; may be repeated")
	cmd.Flags().BoolVar(&onHere, "here", false, "have the worker of this host, and no other, run them")
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "say what would be done, and do nothing")
	return cmd
}

// placedHere places what the sources declare on this host's worker.
func placedHere(r *kvview.Reader, sources []files.Servers) ([]files.Servers, error) {
	worker, err := here(r)
	if err != nil {
		return nil, err
	}
	return files.PlaceOn(sources, worker)
}

// notes writes what is to be said about sources, and says whether one has entries
// that were left out.
func notes(cmd *cobra.Command, sources []files.Servers) (rejected bool) {
	for _, s := range sources {
		say(cmd, s.Notes...)
		rejected = rejected || len(s.Rejected) > 0
	}
	return rejected
}

// say writes lines to standard error.
func say(cmd *cobra.Command, lines ...string) {
	for _, line := range lines {
		fmt.Fprintln(show.Terminal(cmd.ErrOrStderr()), line)
	}
}

func statesOf(r *kvview.Reader) []*projections.Server {
	var all []*projections.Server
	for _, e := range r.Servers() {
		all = append(all, &e.Value)
	}
	return all
}

// foretell says what would be done, in the order of the steps.
func foretell(cmd *cobra.Command, steps []files.Step) error {
	return outcome.InTurn(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr(), idsOf(steps), func(_ context.Context, id string) (string, error) {
		s := stepOf(steps, id)
		switch {
		case s.Err != nil:
			return "", s.Err
		case s.Entry == nil:
			return "would be withdrawn", nil
		case s.New:
			return "would be created", nil
		case len(s.Changed) > 0:
			return "would be updated: " + strings.Join(s.Changed, ", "), nil
		default:
			return "would stay, unless a secret has another value", nil
		}
	})
}

func idsOf(steps []files.Step) []string {
	ids := make([]string, 0, len(steps))
	for _, s := range steps {
		ids = append(ids, string(s.ID))
	}
	return ids
}

func stepOf(steps []files.Step, id string) *files.Step {
	i := slices.IndexFunc(steps, func(s files.Step) bool { return string(s.ID) == id })
	return &steps[i]
}

// applier takes the steps of an apply.
type applier struct {
	changer
	steps []files.Step
}

func (a *applier) run(cmd *cobra.Command) error {
	log, err := a.fleet.log(cmd.Context())
	if err != nil {
		return err
	}
	secrets, err := log.Secrets(cmd.Context())
	if err != nil {
		return err
	}
	a.client = client.New(a.fleet.nc, a.fleet.id, &client.Options{Secrets: secrets})
	defer follow(cmd.Context(), a.views)()
	return outcome.Each(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr(), idsOf(a.steps), func(ctx context.Context, id string) (string, error) {
		s := stepOf(a.steps, id)
		if s.Entry == nil {
			words, err := a.change(ctx, withdrawal, s.ID)
			return strings.Replace(words, "gone", "withdrawn", 1), err
		}
		return a.declare(ctx, s)
	})
}

var withdrawal = &kinds[slices.IndexFunc(kinds, func(k kind) bool { return k.verb == "rm" })]

func (a *applier) declare(ctx context.Context, s *files.Step) (string, error) {
	answer, err := a.granted(ctx, func(ctx context.Context, o *client.RequestOptions) (request.Answer, error) {
		return a.client.Declare(ctx, s.ID, &s.Entry.Definition, o)
	})
	if err != nil {
		return "", a.explain(err, s.ID)
	}
	word, reached := "updated", goal.Settled(answer.Seq)
	switch {
	case answer.Unchanged:
		word, reached = "unchanged", asWanted
	case s.New:
		word = "created"
	}
	words, err := a.await(ctx, s.ID, answer.Seq, a.limitOf(&s.Entry.Definition), reached)
	if err != nil {
		return "", errors.Wrap(err, word)
	}
	return word + ", " + words, nil
}

// asWanted is reached by a server that is as it is wanted.
func asWanted(s *projections.Status) (string, error) {
	if s != nil && s.Want == events.Stopped {
		return goal.Stopped(s)
	}
	return goal.Ready(0)(s)
}
