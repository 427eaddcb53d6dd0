package main

import (
	"context"
	"time"

	"github.com/cockroachdb/errors"
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
	flags.StringVar(&o.project, "project", "", "label of the project whose servers are wanted besides the fleet's")
	flags.DurationVar(&o.startupWait, "startup-wait", 10*time.Second, "how long to wait for servers whose tools are not known yet")
}

// open opens a session, for certain tools or for all. The caller closes it.
func (o *sessionFlags) open(ctx context.Context, tools ...string) (s *session.Session, closeSession func(), err error) {
	fleet, err := o.FleetID()
	if err != nil {
		return nil, nil, err
	}
	nc, err := o.Connect(ctx, "toolfleet", nil)
	if err != nil {
		return nil, nil, err
	}
	s, err = session.Open(ctx, nc, &session.Options{
		Fleet: fleet, Project: o.project, StartupWait: o.startupWait, Need: tools,
	})
	if err != nil {
		nc.Close()
		return nil, nil, errors.Wrap(err, "open a session")
	}
	return s, func() { s.Close(); nc.Close() }, nil
}
