package main

import (
	"context"
	"fmt"
	"time"

	"github.com/cockroachdb/errors"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/spf13/cobra"

	"github.com/toolfleet/toolfleet/cmd/internal/attach"
	"github.com/toolfleet/toolfleet/cmd/internal/build"
	"github.com/toolfleet/toolfleet/cmd/internal/exit"
	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/events/jetlog"
	"github.com/toolfleet/toolfleet/otel"
	"github.com/toolfleet/toolfleet/projections/kvview"
)

// fleet is one that a command is attached to.
type fleet struct {
	nc *nats.Conn
	js jetstream.JetStream
	id events.FleetID
	// flush sends what is left of the command's telemetry.
	flush func()
}

// attachTo connects to the fleet that the flags name, which must exist. The
// caller closes it.
func attachTo(ctx context.Context, flags *attach.Flags) (*fleet, error) {
	id, err := flags.FleetID()
	if err != nil {
		return nil, err
	}
	nc, err := flags.Connect(ctx, "toolfleet", nil)
	if err != nil {
		return nil, err
	}
	js, err := jetstream.New(nc)
	f := &fleet{nc: nc, js: js, id: id}
	if err == nil {
		err = f.exists(ctx)
	}
	if err == nil {
		err = f.trace(ctx)
	}
	if err != nil {
		nc.Close()
		return nil, err
	}
	return f, nil
}

// trace starts the command's telemetry, if it is asked for.
func (f *fleet) trace(ctx context.Context) error {
	t, err := otel.Start(ctx, &otel.Options{Service: "toolfleet", Version: build.Version(), Brief: true})
	f.flush = func() {
		_ = t.Shutdown(context.WithoutCancel(ctx)) // what is lost is no fault of the command's
	}
	return err
}

func (f *fleet) close() {
	f.nc.Close()
	f.flush()
}

// lookWithin bounds a question to NATS that people wait for.
const lookWithin = 10 * time.Second

// exists returns an error that says so if there is no such fleet: opening its log
// would make one.
func (f *fleet) exists(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, lookWithin)
	defer cancel()
	_, err := f.js.Stream(ctx, jetlog.StreamName(f.id, "events"))
	switch {
	case errors.Is(err, jetstream.ErrStreamNotFound):
		return exit.With(exit.NotFound, errors.WithHintf(errors.Newf("there is no fleet %s on %s", f.id, f.address()),
			"start one: toolfleet up --fleet %s, or name another: --fleet NAME", f.id))
	case errors.IsAny(err, nats.ErrNoResponders, jetstream.ErrJetStreamNotEnabled, jetstream.ErrJetStreamNotEnabledForAccount):
		return errors.WithHint(errors.Newf("JetStream is off on %s", f.address()),
			"turn it on: nats-server --jetstream, or jetstream {} in its configuration; for an account, allow it there")
	default:
		return nil // who may not look may still be allowed what is asked for
	}
}

// address is where the fleet is, without credentials.
func (f *fleet) address() string { return "nats://" + f.nc.ConnectedAddr() }

// sayWhere tells, on standard error, which fleet is about to be changed.
func (f *fleet) sayWhere(cmd *cobra.Command) {
	cmd.PrintErrf("fleet %s on %s\n", f.id, f.address())
}

// sayWhenLost tells, on standard error, when NATS goes away, and when it is back:
// for commands that wait for what is to come.
func (f *fleet) sayWhenLost(cmd *cobra.Command) {
	address := f.address()
	f.nc.SetDisconnectErrHandler(func(nc *nats.Conn, _ error) {
		if !nc.IsClosed() {
			say(cmd, fmt.Sprintf("the connection to NATS at %s is lost: waiting until it is back", address))
		}
	})
	f.nc.SetReconnectHandler(func(*nats.Conn) { say(cmd, fmt.Sprintf("the connection to NATS at %s is back", f.address())) })
}

// log opens the fleet's history.
func (f *fleet) log(ctx context.Context) (*jetlog.Log, error) {
	return jetlog.Open(ctx, f.nc, f.id, nil)
}

// views reads the fleet's views, and says so when they are behind.
func (f *fleet) views(cmd *cobra.Command) (*kvview.Reader, error) {
	r, err := kvview.Open(cmd.Context(), f.nc, f.id, nil)
	if errors.Is(err, kvview.ErrNoViews) {
		return nil, errors.WithHint(err, "a controller writes them: start one, or toolfleet up")
	}
	if err != nil {
		return nil, err
	}
	if now := time.Now(); r.AsOf().Behind(now) {
		cmd.PrintErrln("no controller keeps the views current:", r.AsOf().Text(now))
	}
	return r, nil
}

// follow keeps a reader current until it is told to stop.
func follow(ctx context.Context, r *kvview.Reader) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = r.Run(ctx) // its error is that the connection was closed, which ends the command
	}()
	return func() {
		cancel()
		<-done
	}
}
