package parts

import (
	"context"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/cockroachdb/errors"
	"github.com/nats-io/nats.go"
	"github.com/spf13/pflag"

	"github.com/toolfleet/toolfleet/cmd/internal/attach"
	"github.com/toolfleet/toolfleet/cmd/internal/build"
	"github.com/toolfleet/toolfleet/cmd/internal/exit"
	"github.com/toolfleet/toolfleet/cmd/internal/supervise"
	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/events/jetlog"
	"github.com/toolfleet/toolfleet/otel"
)

// Interrupted returns a context that ends with the first interrupt or
// termination signal; the second one ends the process.
func Interrupted() (context.Context, context.CancelFunc) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	return ctx, stop
}

// Daemon is a process that runs parts of a fleet apart from others.
type Daemon struct {
	attach.Flags
	// Role is "controller" or "worker".
	Role string
	// ID of the worker or controller. Default [DefaultID].
	ID string
	// Data is the host's folder. Default the fleet's state folder.
	Data string
	// Stderr is where the log goes.
	Stderr io.Writer
}

// Run connects and runs the parts that build returns until ctx ends or one of
// them fails.
func (d *Daemon) Run(ctx context.Context, build func(*jetlog.Log, *Host) []supervise.Part) error {
	fleet, err := d.FleetID()
	if err != nil {
		return err
	}
	h := &Host{ID: d.ID, Data: d.Data, Logger: NewLogger(d.Stderr, slog.LevelInfo)}
	if err := h.complete(fleet); err != nil {
		return err
	}
	stop, err := Telemetry(ctx, "toolfleet-"+d.Role, h)
	if err != nil {
		return err
	}
	defer stop()
	nc, err := d.Connect(ctx, d.Role+"/"+h.ID, h.Logger)
	if err != nil {
		return err
	}
	log, err := OpenLog(ctx, nc, fleet, d.Role+"/"+h.ID, 0, h)
	if err != nil {
		return err
	}
	h.Logger.Info("connected", d.Role, h.ID)
	return supervise.Run(ctx, 0, append([]supervise.Part{Connected(log)}, build(log, h)...)...)
}

// complete fills in what was not given.
func (h *Host) complete(fleet events.FleetID) error {
	if h.ID == "" {
		h.ID = DefaultID()
	}
	if _, err := events.ParseWorkerID(h.ID); err != nil {
		return exit.With(exit.Usage, errors.Wrap(err, "--id"))
	}
	if h.Data != "" {
		abs, err := filepath.Abs(h.Data)
		h.Data = abs
		return errors.Wrap(err, "--data")
	}
	folder, err := attach.StateFolder(fleet)
	h.Data = string(folder)
	return err
}

// OpenLog opens a fleet's history for a writer such as "worker/host-a"; the
// connection is closed if that fails. MaxBytes limits the event stream if it has
// to be created; 0 is the default.
func OpenLog(ctx context.Context, nc *nats.Conn, fleet events.FleetID, writer string, maxBytes int64, h *Host) (*jetlog.Log, error) {
	log, err := jetlog.Open(ctx, nc, fleet, &jetlog.Options{Writer: writer, MaxBytes: maxBytes, Logger: h.Logger})
	if err != nil {
		nc.Close()
	}
	return log, err
}

// Telemetry starts what the environment asks for.
func Telemetry(ctx context.Context, service string, h *Host) (stop func(), err error) {
	t, err := otel.Start(ctx, &otel.Options{Service: service, Version: build.Version(), Instance: h.ID, Logger: h.Logger})
	if err != nil {
		return nil, err
	}
	return func() {
		if err := t.Shutdown(ctx); err != nil {
			h.Logger.Warn("telemetry was not sent", "err", err)
		}
	}, nil
}

// Register adds the daemon's flags to a command's.
func (d *Daemon) Register(flags *pflag.FlagSet) {
	d.Flags.Register(flags)
	flags.StringVar(&d.ID, "id", "", "id of this "+d.Role+" (default: the host's name)")
	flags.StringVar(&d.Data, "data", "", "folder for what is kept on this host (default: the fleet's state folder)")
}
