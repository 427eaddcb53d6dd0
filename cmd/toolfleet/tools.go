package main

import (
	"slices"

	"github.com/spf13/cobra"

	"github.com/toolfleet/toolfleet/cmd/internal/show"
	"github.com/toolfleet/toolfleet/projections"
	"github.com/toolfleet/toolfleet/session"
)

func newTools() *cobra.Command {
	var (
		o     sessionFlags
		watch bool
	)
	format := show.NewFormat()
	cmd := &cobra.Command{
		Use:   "tools [SERVER...]",
		Short: "List the fleet's tools",
		Long: "Lists the tools that an agent's session would offer, sorted by name: those of all\n" +
			"servers, or of some. Waits for servers that are starting and whose tools are not\n" +
			"known yet.",
		RunE: func(cmd *cobra.Command, servers []string) error {
			if watch {
				return o.watchTools(cmd, format, servers)
			}
			s, closeSession, err := o.open(cmd.Context())
			if err != nil {
				return err
			}
			defer closeSession()
			if err := seesAll(s, servers); err != nil {
				return err
			}
			o.warnOfMissing(cmd, s)
			return writeList(cmd, show.Tools, format, toolsOf(s, servers))
		},
	}
	o.register(cmd.Flags())
	format.Register(cmd.Flags())
	cmd.Flags().BoolVarP(&watch, "watch", "w", false, "go on with what changes")
	return cmd
}

// seesAll returns an error for the first of the servers that a session does not
// see.
func seesAll(s *session.Session, servers []string) error {
	var all []string
	for _, n := range s.Status().Servers {
		if n.State != projections.Withdrawn {
			all = append(all, string(n.ID))
		}
	}
	for _, id := range servers {
		if !slices.Contains(all, id) {
			return unknown("server", id, all)
		}
	}
	return nil
}
