package main

import (
	"github.com/spf13/cobra"

	"github.com/toolfleet/toolfleet/cmd/internal/exit"
	"github.com/toolfleet/toolfleet/cmd/internal/show"
	"github.com/toolfleet/toolfleet/projections"
	"github.com/toolfleet/toolfleet/projections/kvview"
	"github.com/toolfleet/toolfleet/session"
)

func newWatch() *cobra.Command {
	var (
		o    sessionFlags
		what string
	)
	format := show.NewFormat()
	cmd := &cobra.Command{
		Use:   "watch [tools|status]",
		Short: "Show what changes, as it happens",
		Long: "Shows the tools of the fleet, or the status of its servers, and then each one that\n" +
			"changes, until Ctrl-C.",
		ValidArgs: []string{"tools", "status"},
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				args = []string{"status"}
			}
			if what = args[0]; len(args) > 1 || what != "tools" && what != "status" {
				return exit.Usagef("usage: toolfleet watch [tools|status]")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			if what == "tools" {
				return o.watchTools(cmd, format, nil)
			}
			f, err := attachTo(cmd.Context(), &o.Flags)
			if err != nil {
				return err
			}
			defer f.close()
			r, err := f.views(cmd)
			if err != nil {
				return err
			}
			return watchViews(cmd, f, r, show.Servers.Changes(format), func() []projections.Status { return show.ReadServers(r) })
		},
	}
	o.register(cmd.Flags())
	format.Register(cmd.Flags())
	return cmd
}

// watchViews writes what changes in the fleet's views until the command is
// interrupted.
func watchViews[T any](cmd *cobra.Command, f *fleet, r *kvview.Reader, changes *show.Changes[T], read func() []T) error {
	f.sayWhenLost(cmd)
	defer follow(cmd.Context(), r)()
	changed := r.Changes()
	defer r.Forget(changed)
	return watching(cmd, changed, func() error { return changes.Write(cmd.OutOrStdout(), read()) })
}

// watchTools writes what changes in a session's tools.
func (o *sessionFlags) watchTools(cmd *cobra.Command, format *show.Format, servers []string) error {
	f, err := attachTo(cmd.Context(), &o.Flags)
	if err != nil {
		return err
	}
	defer f.close()
	f.sayWhenLost(cmd)
	s, err := o.openOn(cmd.Context(), f)
	if err != nil {
		return err
	}
	defer s.Close()
	changes := show.Tools.Changes(format)
	return watching(cmd, s.Changes(), func() error { return changes.Write(cmd.OutOrStdout(), toolsOf(s, servers)) })
}

// watching writes now, and whenever something changed, until the command is
// interrupted.
func watching(cmd *cobra.Command, changed <-chan struct{}, write func() error) error {
	for {
		if err := write(); err != nil {
			return err
		}
		select {
		case <-changed:
		case <-cmd.Context().Done():
			return nil
		}
	}
}

// toolsOf returns the tools of those servers, or of all.
func toolsOf(s *session.Session, servers []string) []session.Tool {
	all, _ := s.Tools()
	if len(servers) == 0 {
		return all
	}
	var some []session.Tool
	for _, t := range all {
		for _, id := range servers {
			if string(t.Server) == id {
				some = append(some, t)
			}
		}
	}
	return some
}
