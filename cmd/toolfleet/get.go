package main

import (
	"slices"

	"github.com/cockroachdb/errors"
	"github.com/spf13/cobra"

	"github.com/toolfleet/toolfleet/cmd/internal/attach"
	"github.com/toolfleet/toolfleet/cmd/internal/exit"
	"github.com/toolfleet/toolfleet/cmd/internal/near"
	"github.com/toolfleet/toolfleet/cmd/internal/show"
	"github.com/toolfleet/toolfleet/projections/kvview"
)

func newGet() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "get",
		Short: "Show what the fleet has",
		Args:  exit.NoArguments,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(
		newGetList("servers", "Show the servers and what became of them", show.Servers, show.ReadServers),
		newGetList("workers", "Show the workers and what they own", show.Workers, show.ReadWorkers),
		newGetList("definitions", "Show how the servers are started or reached", show.Definitions, show.ReadDefinitions),
	)
	return cmd
}

// newGetList returns the command for one kind of thing.
func newGetList[T any](kind, short string, view *show.View[T], read func(*kvview.Reader) []T) *cobra.Command {
	var (
		flags attach.Flags
		past  pastFlag
		watch bool
	)
	format := show.NewFormat()
	cmd := &cobra.Command{
		Use:     kind + " [ID...]",
		Aliases: []string{singular(kind)},
		Short:   short,
		Long: short + ": all of them, or some by their ids.\n" +
			"With -o json one that is asked for is an object, and more are an array.",
		RunE: func(cmd *cobra.Command, ids []string) error {
			if err := past.refuseWatch(watch); err != nil {
				return err
			}
			f, err := attachTo(cmd.Context(), &flags)
			if err != nil {
				return err
			}
			defer f.close()
			r, err := past.views(cmd, f, nil)
			if err != nil {
				return err
			}
			if !format.Data() {
				say(cmd, show.Notes(r)...)
			}
			list, err := choose(view, kind, read(r), ids)
			switch {
			case err != nil:
				return err
			case watch:
				return watchViews(cmd, f, r, view.Changes(format), func() []T { return those(view, read(r), ids) })
			case len(ids) == 1:
				return view.WriteOne(cmd.OutOrStdout(), format, &list[0])
			default:
				return writeList(cmd, view, format, list)
			}
		},
	}
	flags.Register(cmd.Flags())
	format.Register(cmd.Flags())
	past.register(cmd.Flags())
	cmd.Flags().BoolVarP(&watch, "watch", "w", false, "go on with what changes")
	return cmd
}

// writeList writes a list, or to standard error that it is empty.
func writeList[T any](cmd *cobra.Command, view *show.View[T], format *show.Format, list []T) error {
	if nothing := view.Nothing(format, list); nothing != "" {
		say(cmd, nothing)
	}
	return view.Write(cmd.OutOrStdout(), format, list)
}

func singular(kind string) string { return kind[:len(kind)-1] }

// those returns the things of those names, or all if there are none.
func those[T any](view *show.View[T], list []T, names []string) []T {
	if len(names) == 0 {
		return list
	}
	return slices.DeleteFunc(list, func(t T) bool { return !slices.Contains(names, view.Name(&t)) })
}

// choose returns the things of those names, each of which must be there.
func choose[T any](view *show.View[T], kind string, list []T, names []string) ([]T, error) {
	var all []string
	for i := range list {
		all = append(all, view.Name(&list[i]))
	}
	for _, n := range names {
		if !slices.Contains(all, n) {
			return nil, unknown(singular(kind), n, all)
		}
	}
	return those(view, list, names), nil
}

// unknown is the error of a name that nothing has, with those that may have been
// meant.
func unknown(kind, name string, all []string) error {
	err := errors.Newf("the fleet has no %s %q", kind, name)
	for _, n := range near.Names(name, all) {
		err = errors.WithHintf(err, "did you mean %s?", n)
	}
	return exit.With(exit.NotFound, err)
}
