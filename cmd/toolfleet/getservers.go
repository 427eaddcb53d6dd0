package main

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/toolfleet/toolfleet/cmd/internal/attach"
	"github.com/toolfleet/toolfleet/cmd/internal/exit"
	"github.com/toolfleet/toolfleet/cmd/internal/show"
	"github.com/toolfleet/toolfleet/projections"
	"github.com/toolfleet/toolfleet/projections/kvview"
)

func newGetServers() *cobra.Command {
	var (
		flags  attach.Flags
		output format
	)
	cmd := &cobra.Command{
		Use:   "servers",
		Short: "Show the servers and what became of them",
		Args:  exit.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			servers, err := readServers(cmd, &flags)
			if err != nil {
				return err
			}
			if output.json {
				return show.ServersJSON(cmd.OutOrStdout(), servers)
			}
			return show.Servers(cmd.OutOrStdout(), servers)
		},
	}
	flags.Register(cmd.Flags())
	output.register(cmd.Flags())
	return cmd
}

// readServers reads the fleet's views, and says so when they are behind.
func readServers(cmd *cobra.Command, flags *attach.Flags) ([]projections.Status, error) {
	fleet, err := flags.FleetID()
	if err != nil {
		return nil, err
	}
	nc, err := flags.Connect(cmd.Context(), "toolfleet", nil)
	if err != nil {
		return nil, err
	}
	defer nc.Close()
	r, err := kvview.Open(cmd.Context(), nc, fleet, nil)
	if err != nil {
		return nil, err
	}
	if now := time.Now(); r.AsOf().Behind(now) {
		cmd.PrintErrln("no controller keeps the views current:", r.AsOf().Text(now))
	}
	return show.ReadServers(r), nil
}
