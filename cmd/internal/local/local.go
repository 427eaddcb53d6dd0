// Package local runs a whole fleet in one process: an embedded NATS server, a
// controller, a projector, a worker and an HTTP server. It is what toolfleet up
// does.
//
// It reads the configuration and takes the address for HTTP first, so that a file
// that cannot be read, or an address that is taken, starts nothing. Then it starts the parts in that order, declares the servers of the
// file, and records where it listens, so that other commands find it, once the
// fleet's views show them. Where there is a history, the worker begins only then,
// so that it starts nothing of an earlier file. A server that an earlier start
// took from the same file, and that is not in it any more, is withdrawn; all
// others stay.
//
// The state folder's lock makes sure that one process runs a user's fleet at a
// time. When the context ends, or a part fails, everything is stopped in the
// opposite order, within 10 s.
package local

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"runtime/debug"
	"time"

	"github.com/cockroachdb/errors"

	"github.com/toolfleet/toolfleet/cmd/internal/attach"
	"github.com/toolfleet/toolfleet/cmd/internal/files"
	"github.com/toolfleet/toolfleet/cmd/internal/parts"
	"github.com/toolfleet/toolfleet/cmd/internal/show"
	"github.com/toolfleet/toolfleet/cmd/internal/supervise"
	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/events/jetlog"
)

// Options of [Run].
type Options struct {
	Fleet events.FleetID
	// Servers to declare.
	Servers []files.Servers
	// Data is the host's folder. Default the fleet's state folder.
	Data string
	// NATS says how the embedded server listens and stores.
	NATS parts.EmbeddedOptions
	// HTTP says how HTTP is served.
	HTTP parts.HTTPOptions
	// Out is where people read where the fleet is and what became of servers, Err
	// where they read notes and progress.
	Out, Err io.Writer
}

const (
	// stopWithin is for all parts together. Within it a server has its whole
	// default grace period.
	stopWithin = 9 * time.Second
	// The worker's share of it.
	drain          = time.Second
	lastWords      = time.Second
	workerStopsIn  = 8 * time.Second
	announcerStops = time.Second
)

// Run runs the fleet until the context ends.
func Run(ctx context.Context, o *Options) (err error) {
	collectRarely()
	folder, err := attach.StateFolder(o.Fleet)
	if err != nil {
		return err
	}
	lock, err := folder.Lock(o.Fleet)
	if err != nil {
		return err
	}
	defer func() { err = errors.CombineErrors(err, lock.Close()) }()
	if err := folder.Forget(); err != nil { // that of one that was killed
		return err
	}
	live := show.NewLive(o.Out)
	o.Err = live.Above(o.Err)
	h := &parts.Host{ID: parts.DefaultID(), Data: o.Data, Logger: parts.NewLogger(o.Err, slog.LevelWarn)}
	if h.Data == "" {
		h.Data = string(folder)
	} else if h.Data, err = filepath.Abs(h.Data); err != nil {
		return errors.Wrap(err, "--data")
	}
	stopTelemetry, err := parts.Telemetry(ctx, "toolfleet", h)
	if err != nil {
		return err
	}
	defer stopTelemetry()
	serving, err := parts.ListenHTTP(ctx, &o.HTTP, h)
	if err != nil {
		return err
	}
	defer serving.Close()
	f, err := start(ctx, o, h)
	if err != nil {
		if errors.Is(err, context.Canceled) {
			fmt.Fprintln(o.Err, "stopped before it was up")
			return nil
		}
		return err
	}
	f.live, f.http = live, serving
	defer func() { err = errors.CombineErrors(err, folder.Forget()) }()
	if err := supervise.Run(ctx, stopWithin, f.parts(h, folder)...); err != nil {
		return err
	}
	fmt.Fprintln(o.Err, "everything is stopped")
	return nil
}

// collectRarely has garbage collected when the heap has grown to four times what
// lives, unless the environment says otherwise. A whole fleet lives in some 15 MiB,
// and a start or a stream of calls makes as much garbage several times a second.
func collectRarely() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(300)
	}
}

// parts returns all parts, in the order in which they are started.
func (f *fleet) parts(h *parts.Host, folder attach.Folder) []supervise.Part {
	all := []supervise.Part{parts.Running(f.nats), parts.Connected(f.worker), parts.Connected(f.controller)}
	all = append(all, parts.ControlPlane(f.controller, h)...)
	all = append(all,
		f.once(parts.Worker(f.worker, h, &parts.WorkerOptions{Drain: drain, LastWords: lastWords, StopWithin: workerStopsIn})))
	if f.http != nil {
		all = append(all, f.http.Fleet(f.controller, h))
	}
	return append(all, supervise.Part{Name: "announcer", StopWithin: announcerStops, Run: func(ctx context.Context) error {
		return f.announce(ctx, folder)
	}})
}

// fleet is what the parts stand on.
type fleet struct {
	*Options
	id     events.WorkerID
	nats   *parts.Server
	http   *parts.HTTP // nil if there is none
	live   *show.Live  // nil without a terminal
	logger *slog.Logger
	// Two logs, because what they append tells who wrote it.
	controller, worker *jetlog.Log
	// declared is closed when the fleet's views show what the file asks for; from
	// the beginning if the fleet is fresh, without anything from an earlier file.
	declared chan struct{}
	fresh    bool
	// notes are what was said of the servers while it started.
	notes []string
}

// once lets a part begin when the servers are declared.
func (f *fleet) once(p supervise.Part) supervise.Part {
	run := p.Run
	p.Run = func(ctx context.Context) error {
		select {
		case <-f.declared:
			return run(ctx)
		case <-ctx.Done():
			return nil
		}
	}
	return p
}

// start starts the server and opens the logs.
func start(ctx context.Context, o *Options, h *parts.Host) (_ *fleet, err error) {
	f := &fleet{Options: o, id: events.WorkerID(h.ID), logger: h.Logger, declared: make(chan struct{})}
	f.nats, err = parts.Embedded(ctx, h, &o.NATS)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.CombineErrors(err, f.nats.Shutdown(context.WithoutCancel(ctx)))
		}
	}()
	if f.controller, err = f.open(ctx, "controller/"+h.ID, h); err != nil {
		return nil, err
	}
	if f.worker, err = f.open(ctx, "worker/"+h.ID, h); err != nil {
		return nil, err
	}
	// Before servers are declared, whose secrets are encrypted to its recipient.
	if _, _, err = parts.Secrets(ctx, f.worker, h); err != nil {
		return nil, err
	}
	head, err := f.worker.Head(ctx)
	if f.fresh = head.Seq == 0; f.fresh {
		close(f.declared)
	}
	return f, err
}

func (f *fleet) open(ctx context.Context, writer string, h *parts.Host) (*jetlog.Log, error) {
	nc, err := f.nats.Connect(writer)
	if err != nil {
		return nil, err
	}
	// A stream reserves its limit from the store's.
	return parts.OpenLog(ctx, nc, f.Fleet, &jetlog.Options{
		Writer: writer, MaxBytes: min(jetlog.DefaultMaxBytes, f.nats.StoreLimit()/2), Logger: h.Logger,
	})
}

// record writes down where the fleet listens.
func (f *fleet) record(folder attach.Folder) error {
	r := attach.Running{
		URL: f.nats.URL, Addresses: f.nats.Addresses, TokenFile: f.nats.TokenFile,
		Durability: f.NATS.Durability.String(),
		PID:        os.Getpid(), Since: time.Now().UTC(), Started: attach.StartOf(os.Getpid()), Notes: f.notes,
	}
	if f.http != nil {
		r.HTTP, r.HTTPTokenFile = f.http.URL, f.http.TokenFile
	}
	return folder.Record(r)
}
