package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/toolfleet/toolfleet/cmd/internal/attach"
	"github.com/toolfleet/toolfleet/cmd/internal/exit"
	"github.com/toolfleet/toolfleet/cmd/internal/show"
	"github.com/toolfleet/toolfleet/projections/kvview"
)

func newRebuild() *cobra.Command {
	var flags attach.Flags
	cmd := &cobra.Command{
		Use:   "rebuild",
		Short: "Make the views anew from the history",
		Long: "Folds the whole history and makes the views what it says: only what differs is\n" +
			"written, and named. Everything may go on running meanwhile.",
		Args: exit.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			f, err := attachTo(cmd.Context(), &flags)
			if err != nil {
				return err
			}
			defer f.close()
			log, err := f.log(cmd.Context())
			if err != nil {
				return err
			}
			f.sayWhere(cmd)
			differences, err := kvview.Rebuild(cmd.Context(), log, nil)
			for _, d := range differences {
				fmt.Fprintln(show.Terminal(cmd.OutOrStdout()), difference(d))
			}
			if err == nil && len(differences) == 0 {
				fmt.Fprintln(cmd.OutOrStdout(), "the views are what the history says")
			}
			return err
		},
	}
	flags.Register(cmd.Flags())
	return cmd
}

// difference says what was wrong with an entry.
func difference(d kvview.Difference) string {
	switch {
	case d.Stored.Log == "":
		return d.Key + ": was missing or damaged, made anew"
	case d.Folded.Log == "":
		return d.Key + ": should not be there, removed"
	default:
		return fmt.Sprintf("%s: was not what the history says at %d, made anew", d.Key, d.Stored.Seq)
	}
}
