package main

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/toolfleet/toolfleet/cmd/internal/show"
	"github.com/toolfleet/toolfleet/projections/shape"
	"github.com/toolfleet/toolfleet/session"
)

func newResources() *cobra.Command {
	return newSessionList("resources", "List the resources of the fleet's servers",
		"Lists the resources, and the templates of resources, that servers offer to be read:\n"+
			"those of all servers, or of some.", show.Resources,
		func(s *session.Session, servers []string) (list []shape.Resource) {
			for _, r := range show.ReadResources(s) {
				if len(servers) == 0 || slices.Contains(servers, string(r.Server)) {
					list = append(list, r)
				}
			}
			return list
		})
}

// newSessionList returns the command for something that servers list besides
// tools.
func newSessionList[T any](kind, short, long string, view *show.View[T], read func(*session.Session, []string) []T) *cobra.Command {
	var o sessionFlags
	format := show.NewFormat()
	cmd := &cobra.Command{
		Use:   kind + " [SERVER...]",
		Short: short,
		Long:  long + " Waits for servers that are\nstarting and of which nothing is known yet.",
		RunE: func(cmd *cobra.Command, servers []string) error {
			s, closeSession, err := o.openListed(cmd.Context(), cmd)
			if err != nil {
				return err
			}
			defer closeSession()
			if err := seesAll(s, servers); err != nil {
				return err
			}
			return writeList(cmd, view, format, read(s, servers))
		},
	}
	o.register(cmd.Flags())
	format.Register(cmd.Flags())
	return cmd
}

// listedWithin is how long a server that works may take to list what it offers
// besides tools.
const listedWithin = 2 * time.Second

// openListed opens a session and waits, shortly, for what servers list after
// their tools. What does not come in time is named on standard error.
func (o *sessionFlags) openListed(ctx context.Context, cmd *cobra.Command) (s *session.Session, closeSession func(), err error) {
	s, closeSession, err = o.open(ctx)
	if err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, min(listedWithin, o.startupWait))
	defer cancel()
	for ctx.Err() == nil && len(s.Unlisted()) > 0 {
		select {
		case <-s.Changes():
		case <-ctx.Done():
		}
	}
	o.warnOfMissing(cmd, s)
	if late := s.Unlisted(); len(late) > 0 {
		names := make([]string, 0, len(late))
		for _, id := range late {
			names = append(names, string(id))
		}
		cmd.PrintErrf("not all is listed yet by %s\n", strings.Join(names, ", "))
	}
	return s, closeSession, nil
}
