package main

import (
	"github.com/spf13/cobra"

	"github.com/toolfleet/toolfleet/cmd/internal/attach"
	"github.com/toolfleet/toolfleet/cmd/internal/exit"
	"github.com/toolfleet/toolfleet/cmd/internal/show"
	"github.com/toolfleet/toolfleet/projections"
	"github.com/toolfleet/toolfleet/projections/kvview"
)

func newStatus() *cobra.Command {
	var (
		flags attach.Flags
		past  pastFlag
		watch bool
	)
	format := show.NewFormat(show.Table, show.Wide, show.JSON, show.YAML)
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show on one screen how the fleet is",
		Long:  "Shows on one screen how the fleet is. The exit status is 1 if a server that should run\nis not ready.",
		Args:  exit.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := past.refuseWatch(watch); err != nil {
				return err
			}
			f, err := attachTo(cmd.Context(), &flags)
			if err != nil {
				return err
			}
			defer f.close()
			if watch {
				r, err := f.views(cmd)
				if err != nil {
					return err
				}
				return watchViews(cmd, f, r, show.Servers.Changes(format), func() []projections.Status { return show.ReadServers(r) })
			}
			r, err := statusViews(cmd, f, &past)
			if err != nil {
				return err
			}
			s := show.ReadStatus(r, f.id, f.address(), past.now(r))
			if err := s.Write(cmd.OutOrStdout(), format); err != nil {
				return err
			}
			if !s.Ready {
				return exit.Told(exit.Failed)
			}
			return nil
		},
	}
	flags.Register(cmd.Flags())
	format.Register(cmd.Flags())
	past.register(cmd.Flags())
	cmd.Flags().BoolVarP(&watch, "watch", "w", false, "go on with what changes")
	return cmd
}

// statusViews returns the views that the status is of. It tells by itself how far
// they are.
func statusViews(cmd *cobra.Command, f *fleet, past *pastFlag) (*kvview.Reader, error) {
	if past.given() {
		return past.views(cmd, f, nil)
	}
	return kvview.Open(cmd.Context(), f.nc, f.id, nil)
}
