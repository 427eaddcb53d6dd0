package main

import (
	"context"
	"io"
	"time"

	"github.com/cockroachdb/errors"
	"github.com/spf13/cobra"

	"github.com/toolfleet/toolfleet/cmd/internal/exit"
	"github.com/toolfleet/toolfleet/cmd/internal/show"
	"github.com/toolfleet/toolfleet/session"
)

func newCall() *cobra.Command {
	var (
		o       sessionFlags
		output  format
		timeout time.Duration
	)
	cmd := &cobra.Command{
		Use:   "call TOOL [JSON]",
		Short: "Call a tool",
		Long: "Calls a tool with arguments, a JSON object; \"-\" reads them from standard input.\n" +
			"Writes the text of the result, or with -o json the whole result as the server\n" +
			"sent it. The exit status is 5 if the tool reports an error.",
		Example: `  toolfleet call example__convert_units '{"value": 3, "from": "mi", "to": "km"}'`,
		Args:    exit.Arguments(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			arguments, err := readArguments(cmd, args[1:])
			if err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), timeout)
			defer cancel()
			s, closeSession, err := o.open(ctx, args[0])
			if err != nil {
				return err
			}
			defer closeSession()
			r, err := s.Call(ctx, args[0], arguments, nil)
			if err != nil {
				return explainCall(err)
			}
			return printResult(cmd, r, output)
		},
	}
	o.register(cmd.Flags())
	output.register(cmd.Flags())
	cmd.Flags().DurationVar(&timeout, "timeout", time.Minute, "how long the call may take, with the wait for its server")
	return cmd
}

func readArguments(cmd *cobra.Command, args []string) ([]byte, error) {
	switch {
	case len(args) == 0:
		return []byte("{}"), nil
	case args[0] == "-":
		data, err := io.ReadAll(cmd.InOrStdin())
		return data, errors.Wrap(err, "read the arguments from standard input")
	default:
		return []byte(args[0]), nil
	}
}

func explainCall(err error) error {
	switch {
	case errors.Is(err, session.ErrUnknownTool):
		return exit.With(exit.NotFound, errors.WithHint(err, "list the tools: toolfleet tools"))
	case errors.Is(err, session.ErrInvalidArguments):
		return exit.With(exit.Usage, err)
	default:
		return err
	}
}

func printResult(cmd *cobra.Command, r *session.Result, output format) error {
	write := show.Result
	if output.json {
		write = show.ResultJSON
	}
	if err := write(cmd.OutOrStdout(), r); err != nil {
		return err
	}
	if r.IsError {
		return exit.With(exit.ToolError, errors.New("the tool reported an error"))
	}
	return nil
}
