package main

import (
	"strings"
	"time"

	"github.com/cockroachdb/errors"
	"github.com/spf13/cobra"

	"github.com/toolfleet/toolfleet/cmd/internal/exit"
	"github.com/toolfleet/toolfleet/cmd/internal/show"
	"github.com/toolfleet/toolfleet/events"
)

func newTools() *cobra.Command {
	var (
		o      sessionFlags
		output format
	)
	cmd := &cobra.Command{
		Use:   "tools",
		Short: "List the fleet's tools",
		Long: "Lists the tools that an agent's session would offer, sorted by name. Waits for\n" +
			"servers that are starting and whose tools are not known yet.",
		Args: exit.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, closeSession, err := o.open(cmd.Context())
			if err != nil {
				return err
			}
			defer closeSession()
			tools, _ := s.Tools()
			warnOfMissing(cmd, s.Pending(), o.startupWait)
			if output.json {
				return show.ToolsJSON(cmd.OutOrStdout(), tools)
			}
			return show.Tools(cmd.OutOrStdout(), tools)
		},
	}
	o.register(cmd.Flags())
	output.register(cmd.Flags())
	return cmd
}

// warnOfMissing names the servers whose tools did not come in time.
func warnOfMissing(cmd *cobra.Command, pending []events.ServerID, waited time.Duration) {
	if len(pending) == 0 {
		return
	}
	names := make([]string, 0, len(pending))
	for _, id := range pending {
		names = append(names, string(id))
	}
	cmd.PrintErrln(errors.Newf("still starting after %v, their tools are missing: %s", waited, strings.Join(names, ", ")))
}
