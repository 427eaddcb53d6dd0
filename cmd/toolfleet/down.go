package main

import (
	"context"
	"fmt"
	"time"

	"github.com/cockroachdb/errors"
	"github.com/spf13/cobra"

	"github.com/toolfleet/toolfleet/cmd/internal/attach"
	"github.com/toolfleet/toolfleet/cmd/internal/detach"
	"github.com/toolfleet/toolfleet/cmd/internal/exit"
)

func newDown() *cobra.Command {
	var (
		flags   attach.Flags
		timeout time.Duration
	)
	cmd := &cobra.Command{
		Use:   "down",
		Short: "Stop the fleet that toolfleet up runs on this host",
		Args:  exit.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			fleet, err := flags.FleetID()
			if err != nil {
				return err
			}
			folder, err := attach.StateFolder(fleet)
			if err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), timeout)
			defer cancel()
			r, err := detach.Stop(ctx, fleet, folder)
			if errors.Is(err, detach.ErrNotRunning) {
				return exit.With(exit.NotFound, err)
			}
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "fleet %s is stopped (process %d)\n", fleet, r.PID)
			return err
		},
	}
	flags.RegisterFleet(cmd.Flags())
	cmd.Flags().DurationVar(&timeout, "timeout", 20*time.Second, "how long the stop may take")
	return cmd
}
