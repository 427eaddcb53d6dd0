package main

import (
	"fmt"

	"github.com/cockroachdb/errors"
	"github.com/spf13/cobra"

	"github.com/toolfleet/toolfleet/cmd/internal/exit"
	"github.com/toolfleet/toolfleet/cmd/internal/near"
	"github.com/toolfleet/toolfleet/cmd/internal/show"
	"github.com/toolfleet/toolfleet/events"
)

func newExplain() *cobra.Command {
	format := show.NewFormat(show.Text, show.JSON, show.YAML)
	cmd := &cobra.Command{
		Use:   "explain [CODE]",
		Short: "Say what a failure means, and what helps",
		Long:  "Says what the code of a failure means and what usually helps; without a code, lists\nall of them.",
		Args:  exit.Arguments(0, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return explainAll(cmd, format)
			}
			e, ok := events.Explain(events.Code(args[0]))
			if !ok {
				return unknownCode(args[0])
			}
			if format.Data() {
				return format.Write(cmd.OutOrStdout(), explanationOf(e))
			}
			retry := "Trying again does not help before something is changed."
			if e.Retry {
				retry = "It is tried again by itself: that may be enough."
			}
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "%s: %s\n%s\n%s\n", e.Code, e.Meaning, e.WayOut, retry)
			return err
		},
	}
	format.Register(cmd.Flags())
	return cmd
}

// explanation is the JSON shape of a code's explanation.
type explanation struct {
	Code    events.Code `json:"code"`
	Meaning string      `json:"meaning"`
	WayOut  string      `json:"wayOut"`
	Retry   bool        `json:"retry"`
}

func explanationOf(e events.Explanation) explanation {
	return explanation{e.Code, e.Meaning, e.WayOut, e.Retry}
}

func explainAll(cmd *cobra.Command, format *show.Format) error {
	all := []explanation{}
	for _, e := range events.Codes() {
		all = append(all, explanationOf(e))
	}
	if format.Data() {
		return format.Write(cmd.OutOrStdout(), all)
	}
	for _, e := range all {
		if _, err := fmt.Fprintf(cmd.OutOrStdout(), "%-30s%s\n", e.Code, e.Meaning); err != nil {
			return err
		}
	}
	return nil
}

func unknownCode(code string) error {
	var all []string
	for _, e := range events.Codes() {
		all = append(all, string(e.Code))
	}
	err := errors.Newf("there is no failure code %q", code)
	for _, n := range near.Names(code, all) {
		err = errors.WithHintf(err, "did you mean %s?", n)
	}
	return exit.With(exit.NotFound, errors.WithHint(err, "list them: toolfleet explain"))
}
