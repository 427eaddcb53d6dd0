package parts

import (
	"cmp"
	"context"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
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
	// Replicas of streams and buckets that have to be created, "1" to "5".
	Replicas string
	// HTTP says how HTTP is served. Default not at all.
	HTTP *HTTPOptions
	// Stderr is where the log goes.
	Stderr io.Writer
}

// maxReplicas is how many NATS allows.
const maxReplicas = 5

// Run connects and runs the parts that build returns until ctx ends or one of
// them fails.
func (d *Daemon) Run(ctx context.Context, build func(*jetlog.Log, *Host) []supervise.Part) error {
	fleet, err := d.FleetID()
	if err != nil {
		return err
	}
	replicas, err := strconv.Atoi(d.Replicas)
	if err != nil || replicas < 1 || replicas > maxReplicas {
		return exit.Usagef("--replicas %q: use a number from 1 to %d", d.Replicas, maxReplicas)
	}
	h := &Host{ID: d.ID, Data: d.Data, Logger: NewLogger(d.Stderr, slog.LevelInfo)}
	if err := h.Complete(fleet); err != nil {
		return err
	}
	stop, err := Telemetry(ctx, "toolfleet-"+d.Role, h)
	if err != nil {
		return err
	}
	defer stop()
	serving, err := d.listen(ctx, h)
	if err != nil {
		return err
	}
	defer serving.Close()
	nc, err := d.Connect(ctx, d.Role+"/"+h.ID, h.Logger)
	if err != nil {
		return err
	}
	log, err := OpenLog(ctx, nc, fleet, &jetlog.Options{Writer: d.Role + "/" + h.ID, Replicas: replicas, Logger: h.Logger})
	if err != nil {
		return err
	}
	h.Logger.Info("connected", d.Role, h.ID)
	all := append([]supervise.Part{Connected(log)}, build(log, h)...)
	if serving != nil {
		h.Logger.Info("serving HTTP", "url", serving.URL)
		all = append(all, serving.Fleet(log, h))
	}
	return supervise.Run(ctx, 0, all...)
}

// listen takes the address for HTTP, if it is to be served.
func (d *Daemon) listen(ctx context.Context, h *Host) (*HTTP, error) {
	if d.HTTP == nil {
		return nil, nil //nolint:nilnil // nothing was asked for
	}
	return ListenHTTP(ctx, d.HTTP, h)
}

// Complete fills in what was not given, for a process of a fleet.
func (h *Host) Complete(fleet events.FleetID) error {
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

// OpenLog opens a fleet's history; the connection is closed if that fails.
func OpenLog(ctx context.Context, nc *nats.Conn, fleet events.FleetID, o *jetlog.Options) (*jetlog.Log, error) {
	log, err := jetlog.Open(ctx, nc, fleet, o)
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
	flags.StringVar(&d.Replicas, "replicas", cmp.Or(os.Getenv("TOOLFLEET_REPLICAS"), "1"),
		"`number` of NATS servers that keep each stream that has to be created; 3 where there are three")
}
