package main

import (
	"context"
	"time"

	"github.com/cockroachdb/errors"
	"github.com/spf13/cobra"

	"github.com/toolfleet/toolfleet/cmd/internal/arguments"
	"github.com/toolfleet/toolfleet/cmd/internal/exit"
	"github.com/toolfleet/toolfleet/cmd/internal/near"
	"github.com/toolfleet/toolfleet/cmd/internal/show"
	"github.com/toolfleet/toolfleet/session"
)

func newPrompt() *cobra.Command {
	var (
		o       sessionFlags
		timeout time.Duration
	)
	format := show.NewFormat(show.Text, show.JSON, show.YAML)
	cmd := &cobra.Command{
		Use:   "prompt NAME [JSON | ARGUMENT=TEXT ...]",
		Short: "Get a prompt",
		Long: "Gets a prompt with arguments, which are text: as ARGUMENT=TEXT, as a JSON object, or\n" +
			"\"-\" to read that from standard input. Writes the text of its messages, or with -o\n" +
			"json the whole result as the server sent it.",
		Example: `  toolfleet prompt example__review_text text="To be, or not to be"`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return exit.Usagef("usage: %s", cmd.UseLine())
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			given, err := arguments.Read(args[1:], cmd.InOrStdin())
			if err != nil {
				return exit.With(exit.Usage, err)
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), timeout)
			defer cancel()
			s, closeSession, err := o.openListed(ctx, cmd)
			if err != nil {
				return err
			}
			defer closeSession()
			result, err := s.Prompt(ctx, args[0], given, nil)
			if err != nil {
				return meantPrompt(err, args[0], s.Prompts())
			}
			return show.Messages(cmd.OutOrStdout(), format, result)
		},
	}
	o.register(cmd.Flags())
	format.Register(cmd.Flags())
	cmd.Flags().DurationVar(&timeout, "timeout", time.Minute, "how long it may take, with the wait for the server")
	return cmd
}

// meantPrompt adds to the error of a prompt what helps.
func meantPrompt(err error, name string, prompts []session.Prompt) error {
	var names []string
	for i := range prompts {
		if p := &prompts[i]; p.Name == name && errors.Is(err, session.ErrInvalidArguments) {
			return exit.With(exit.Usage, errors.WithHintf(err, "usage: toolfleet prompt %s %s", name, show.Arguments(p)))
		}
		names = append(names, prompts[i].Name)
	}
	if !errors.Is(err, session.ErrUnknownPrompt) {
		return err
	}
	for _, n := range near.Names(name, names) {
		err = errors.WithHintf(err, "did you mean %s?", n)
	}
	return exit.With(exit.NotFound, errors.WithHint(err, "list the prompts: toolfleet prompts"))
}
