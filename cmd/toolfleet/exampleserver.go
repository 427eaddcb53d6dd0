package main

import (
	"github.com/spf13/cobra"

	"github.com/toolfleet/toolfleet/cmd/internal/build"
	"github.com/toolfleet/toolfleet/cmd/internal/example"
	"github.com/toolfleet/toolfleet/cmd/internal/exit"
)

func newExampleServer() *cobra.Command {
	return &cobra.Command{
		Use:    "example-server",
		Short:  "Be a small MCP server on standard input and output",
		Hidden: true,
		Args:   exit.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return example.Serve(cmd.Context(), build.Version(), cmd.InOrStdin(), cmd.OutOrStdout())
		},
	}
}
