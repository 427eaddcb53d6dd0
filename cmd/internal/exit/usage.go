package exit

import "github.com/spf13/cobra"

// FlagError is for [cobra.Command.SetFlagErrorFunc].
func FlagError(cmd *cobra.Command, err error) error {
	return Usagef("%v (see %s --help)", err, cmd.CommandPath())
}

// NoArguments refuses arguments, also those of a command that has only
// subcommands.
func NoArguments(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return Usagef("%s has no %q (see %s --help)", cmd.CommandPath(), args[0], cmd.CommandPath())
}

// Arguments accepts between least and most arguments.
func Arguments(least, most int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) < least || len(args) > most {
			return Usagef("usage: %s", cmd.UseLine())
		}
		return nil
	}
}
