package main

import (
	"context"
	"strings"
	"time"

	"github.com/cockroachdb/errors"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/toolfleet/toolfleet/cmd/internal/attach"
	"github.com/toolfleet/toolfleet/session"
)

// sessionFlags are the flags of verbs that open a session.
type sessionFlags struct {
	attach.Flags
	project     string
	startupWait time.Duration
}

func (o *sessionFlags) register(flags *pflag.FlagSet) {
	o.Flags.Register(flags)
	flags.StringVar(&o.project, "project", "", "`label` of the project whose servers are wanted besides the fleet's")
	flags.DurationVar(&o.startupWait, "startup-wait", 10*time.Second, "how long to wait for servers whose tools are not known yet")
}

// listWait is how long a gateway's first lists wait.
func (o *sessionFlags) listWait() time.Duration {
	if o.startupWait == 0 {
		return -1 // not at all
	}
	return o.startupWait
}

// open opens a session, for certain tools or for all. The caller closes it.
func (o *sessionFlags) open(ctx context.Context, tools ...string) (s *session.Session, closeSession func(), err error) {
	f, err := attachTo(ctx, &o.Flags)
	if err != nil {
		return nil, nil, err
	}
	if s, err = o.openOn(ctx, f, tools...); err != nil {
		f.close()
		return nil, nil, err
	}
	return s, func() { s.Close(); f.close() }, nil
}

// openOn opens a session on the fleet's connection.
func (o *sessionFlags) openOn(ctx context.Context, f *fleet, tools ...string) (*session.Session, error) {
	s, err := session.Open(ctx, f.nc, &session.Options{
		Fleet: f.id, Project: o.project, StartupWait: o.startupWait, Need: tools,
	})
	return s, errors.Wrap(err, "open a session")
}

// warnOfMissing names, on standard error, the servers whose tools did not come in
// time.
func (o *sessionFlags) warnOfMissing(cmd *cobra.Command, s *session.Session) {
	pending := s.Pending()
	if len(pending) == 0 {
		return
	}
	names := make([]string, 0, len(pending))
	for _, id := range pending {
		names = append(names, string(id))
	}
	cmd.PrintErrf("still starting after %v, their tools are missing: %s\n", o.startupWait, strings.Join(names, ", "))
}
