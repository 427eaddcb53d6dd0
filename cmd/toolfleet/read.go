package main

import (
	"context"
	"strings"
	"time"

	"github.com/cockroachdb/errors"
	"github.com/spf13/cobra"

	"github.com/toolfleet/toolfleet/cmd/internal/exit"
	"github.com/toolfleet/toolfleet/cmd/internal/near"
	"github.com/toolfleet/toolfleet/cmd/internal/show"
	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/session"
)

func newRead() *cobra.Command {
	var (
		o       sessionFlags
		server  string
		timeout time.Duration
	)
	format := show.NewFormat(show.Text, show.JSON, show.YAML)
	cmd := &cobra.Command{
		Use:   "read URI",
		Short: "Read a resource",
		Long: "Reads a resource and writes its contents as they are: text, or the bytes of what\n" +
			"is none, which a terminal does not get. With -o json it writes the whole result as\n" +
			"the server sent it. A resource that no server lists, as those of templates, needs\n" +
			"--from if the templates of several fit.",
		Example: "  toolfleet read example://guide",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return exit.Usagef("usage: %s", cmd.UseLine())
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, cancel := context.WithTimeout(cmd.Context(), timeout)
			defer cancel()
			s, closeSession, err := o.openListed(ctx, cmd)
			if err != nil {
				return err
			}
			defer closeSession()
			id, err := whoHas(s, args[0], server)
			if err != nil {
				return err
			}
			result, err := s.Read(ctx, id, args[0], nil)
			if err != nil {
				return err
			}
			return show.Contents(cmd.OutOrStdout(), format, result)
		},
	}
	o.register(cmd.Flags())
	format.Register(cmd.Flags())
	cmd.Flags().StringVar(&server, "from", "", "`id` of the server to read from")
	cmd.Flags().DurationVar(&timeout, "timeout", time.Minute, "how long it may take, with the wait for the server")
	return cmd
}

// whoHas returns the server to read a resource from: the one that was named, else
// the only one that lists it, else the only one of whose templates one may fit.
func whoHas(s *session.Session, uri, named string) (events.ServerID, error) {
	if named != "" {
		return events.ServerID(named), seesAll(s, []string{named})
	}
	var uris []string
	listing, fitting := make(map[events.ServerID]bool), make(map[events.ServerID]bool)
	for _, r := range show.ReadResources(s) {
		before, _, _ := strings.Cut(r.URITemplate, "{")
		switch {
		case r.URI == uri:
			listing[r.Server] = true
		case r.URI != "":
			uris = append(uris, r.URI)
		case strings.HasPrefix(uri, before):
			fitting[r.Server] = true
		}
	}
	of := listing
	if len(of) == 0 {
		of = fitting
	}
	var ids []string
	for _, n := range s.Status().Servers {
		if of[n.ID] {
			ids = append(ids, string(n.ID))
		}
	}
	switch len(ids) {
	case 0:
		err := errors.Newf("no server lists %s", uri)
		for _, n := range near.Names(uri, uris) {
			err = errors.WithHintf(err, "did you mean %s?", n)
		}
		return "", exit.With(exit.NotFound, errors.WithHint(err, "list the resources: toolfleet resources, or name the server: --from ID"))
	case 1:
		return events.ServerID(ids[0]), nil
	default:
		return "", errors.WithHint(exit.Usagef("several servers have %s: %s", uri, strings.Join(ids, ", ")), "say which one: --from ID")
	}
}
