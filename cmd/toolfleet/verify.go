package main

import (
	"fmt"
	"time"

	"github.com/cockroachdb/errors"
	"github.com/spf13/cobra"

	"github.com/toolfleet/toolfleet/cmd/internal/attach"
	"github.com/toolfleet/toolfleet/cmd/internal/exit"
	"github.com/toolfleet/toolfleet/cmd/internal/proof"
	"github.com/toolfleet/toolfleet/cmd/internal/show"
)

func newVerify() *cobra.Command {
	var flags attach.Flags
	format := show.NewFormat(show.Text, show.JSON, show.YAML)
	cmd := &cobra.Command{
		Use:   "verify",
		Short: "Prove that the history is whole, and that the views are what it says",
		Long: "Reads the whole history and proves that nothing is missing or altered, that every\n" +
			"event links to the one before it in its chain and stands after what it is because\n" +
			"of, that each instance had one owner after the other, and that the views are the\n" +
			"folds of their events. The exit status is 1, and the first offending event is\n" +
			"named, if one of that is not so. It changes nothing; everything may go on running.",
		Args: exit.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			f, err := attachTo(cmd.Context(), &flags)
			if err != nil {
				return err
			}
			defer f.close()
			log, err := f.log(cmd.Context())
			if err != nil {
				return err
			}
			p, err := proof.Prove(cmd.Context(), log)
			if err != nil {
				return err
			}
			if err := writeProof(cmd, format, p); err != nil {
				return err
			}
			if len(p.Faults) > 0 {
				return exit.Told(exit.Failed)
			}
			return nil
		},
	}
	flags.Register(cmd.Flags())
	format.Register(cmd.Flags())
	return cmd
}

// writeProof writes what was proven, or what is wrong.
func writeProof(cmd *cobra.Command, format *show.Format, p *proof.Proof) error {
	if format.Data() {
		return format.Write(cmd.OutOrStdout(), p)
	}
	out := show.Terminal(cmd.OutOrStdout())
	if p.Unknown+p.Undecodable > 0 {
		cmd.PrintErrf("%s of kinds that this build does not know, %s that no event can be read from\n",
			show.Count(p.Unknown, "event"), show.Count(p.Undecodable, "message"))
	}
	if len(p.Faults) == 0 {
		_, err := fmt.Fprintf(out, "%s, up to %d: whole, linked and in order, one owner after the other; the views are what they say (%v)\n",
			show.Count(p.Events, "event"), p.Seq, p.Took.Round(time.Millisecond))
		return errors.Wrap(err, "write the output")
	}
	for _, f := range p.Faults {
		if _, err := fmt.Fprintf(out, "%d: %s\n", f.Seq, f.What); err != nil {
			return errors.Wrap(err, "write the output")
		}
	}
	if p.Count > len(p.Faults) {
		cmd.PrintErrf("and %d more\n", p.Count-len(p.Faults))
	}
	return nil
}
