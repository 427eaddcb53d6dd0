package main

import (
	"slices"

	"github.com/spf13/cobra"

	"github.com/toolfleet/toolfleet/cmd/internal/exit"
	"github.com/toolfleet/toolfleet/cmd/internal/show"
	"github.com/toolfleet/toolfleet/projections"
	"github.com/toolfleet/toolfleet/session"
)

func newTools() *cobra.Command {
	var (
		o     sessionFlags
		past  pastFlag
		watch bool
	)
	format := show.NewToolFormat()
	cmd := &cobra.Command{
		Use:   "tools [SERVER...]",
		Short: "List the fleet's tools",
		Long: "Lists the tools that an agent's session would offer, sorted by name: those of all\n" +
			"servers, or of some. Waits for servers that are starting and whose tools are not\n" +
			"known yet. With -o openai (Chat Completions), -o openai-responses or -o anthropic it\n" +
			"writes the array that a request to that API takes as its tools.",
		RunE: func(cmd *cobra.Command, servers []string) error {
			if err := past.refuseWatch(watch); err != nil {
				return err
			}
			if watch && format.ForModel() {
				return exit.Usagef("-o %s and --watch do not go together: it is one array", format)
			}
			if past.given() {
				return o.pastTools(cmd, &past, format, servers)
			}
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
			return writeTools(cmd, format, toolsOf(s, servers))
		},
	}
	o.register(cmd.Flags())
	format.Register(cmd.Flags())
	past.register(cmd.Flags())
	cmd.Flags().BoolVarP(&watch, "watch", "w", false, "go on with what changes")
	return cmd
}

// writeTools writes a list of tools, for people, programs or models.
func writeTools(cmd *cobra.Command, format *show.Format, tools []session.Tool) error {
	if format.ForModel() {
		return show.ToolsForModel(cmd.OutOrStdout(), format, tools)
	}
	return writeList(cmd, show.Tools, format, tools)
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
