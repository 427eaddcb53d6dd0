package main

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/cockroachdb/errors"
	"github.com/spf13/cobra"

	"github.com/toolfleet/toolfleet/cmd/internal/attach"
	"github.com/toolfleet/toolfleet/cmd/internal/exit"
	"github.com/toolfleet/toolfleet/cmd/internal/tokens"
	"github.com/toolfleet/toolfleet/guard"
)

func newToken() *cobra.Command {
	var (
		flags  attach.Flags
		data   string
		scopes []string
	)
	cmd := &cobra.Command{
		Use:   "token",
		Short: "Print the token for HTTP",
		Long: "Prints a token for the HTTP interface of this host, alone, for use in scripts: the one\n" +
			"that may do everything, or with --scope one that may do that alone, which is made if\n" +
			"there is none. The tokens are in the file http-token of the data folder; who removes a\n" +
			"line of it takes that token back, at once.",
		Example: "  export TOOLFLEET_TOKEN=$(toolfleet token --scope call)\n" +
			`  curl -H "Authorization: Bearer $(toolfleet token --scope read)" http://127.0.0.1:8377/v1/servers`,
		Args: exit.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			path, err := tokenFile(&flags, data)
			if err != nil {
				return err
			}
			wanted, err := parseScopes(scopes)
			if err != nil {
				return err
			}
			token, err := tokens.Token(path, wanted...)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), token)
			return errors.Wrap(err, "write the output")
		},
	}
	flags.RegisterFleet(cmd.Flags())
	cmd.Flags().StringVar(&data, "data", "", "data `folder` of the process that serves HTTP (default: that of the running up, or the fleet's state folder)")
	cmd.Flags().StringSliceVar(&scopes, "scope", nil, "`scope` that it has, and no other: read, call or change; may be repeated")
	return cmd
}

// parseScopes returns scopes by their names.
func parseScopes(names []string) ([]guard.Scope, error) {
	var scopes []guard.Scope
	for _, name := range names {
		s := guard.Scope(strings.TrimSpace(name))
		if !slices.Contains(guard.Scopes(), s) {
			return nil, exit.Usagef("--scope %q: use read, call or change", name)
		}
		scopes = append(scopes, s)
	}
	return scopes, nil
}

// tokenFile returns where a fleet's tokens are on this host: in a folder, where the
// running up has them, or where the next process will.
func tokenFile(flags *attach.Flags, data string) (string, error) {
	id, err := flags.FleetID()
	if err != nil {
		return "", err
	}
	if data != "" {
		return filepath.Join(data, tokens.Name), nil
	}
	folder, err := attach.StateFolder(id)
	if err != nil {
		return "", err
	}
	if r, err := folder.Running(); err == nil && r.HTTPTokenFile != "" {
		return r.HTTPTokenFile, nil
	}
	return filepath.Join(string(folder), tokens.Name), nil
}
