package parts

import (
	"context"
	"path/filepath"
	"runtime"
	"time"

	"github.com/cockroachdb/errors"

	"github.com/toolfleet/toolfleet/cmd/internal/build"
	"github.com/toolfleet/toolfleet/cmd/internal/supervise"
	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/events/jetlog"
	"github.com/toolfleet/toolfleet/otel"
	"github.com/toolfleet/toolfleet/worker"
	"github.com/toolfleet/toolfleet/worker/keeper"
)

const (
	// lockWithin is how long the worker waits for its folder, and lockRetry lies
	// between two attempts at it.
	lockWithin = 3 * time.Second
	lockRetry  = 50 * time.Millisecond
)

// WorkerOptions of [Worker].
type WorkerOptions struct {
	// Labels of the host, besides those that are found out: os, arch and hostname.
	// One of the same name counts instead. See [events.CheckLabel].
	Labels map[string]string
	// Handover is how long the worker, when it stops, goes on with what is not
	// taken over by others so far. Default 0: it stops at once.
	Handover time.Duration
	// Drain is how long calls in flight have when the worker stops. Default 30 s.
	Drain time.Duration
	// LastWords is how long the worker tries to say that it left. Default 2 s.
	LastWords time.Duration
	// StopWithin is how long the stop may take in all. Default: Handover, Drain and
	// 15 s.
	StopWithin time.Duration
}

// Worker owns MCP servers on this host. Its state folder is <data>/worker, its
// identity for secrets the file <data>/identity.
func Worker(log *jetlog.Log, h *Host, o *WorkerOptions) supervise.Part {
	var w WorkerOptions
	if o != nil {
		w = *o
	}
	if w.Drain == 0 {
		w.Drain = 30 * time.Second
	}
	if w.LastWords == 0 {
		w.LastWords = 2 * time.Second
	}
	if w.StopWithin == 0 {
		w.StopWithin = w.Handover + w.Drain + 15*time.Second
	}
	return supervise.Part{Name: "worker", StopWithin: w.StopWithin, Run: func(ctx context.Context) error {
		labels, err := labelsOf(w.Labels)
		if err != nil {
			return err
		}
		folder, err := lockFolder(ctx, filepath.Join(h.Data, "worker"))
		if err != nil {
			return err
		}
		defer func() { _ = folder.Close() }() // the process keeps nothing else of it
		if err := sweep(folder, h); err != nil {
			return err
		}
		secrets, recipients, err := Secrets(ctx, log, h)
		if err != nil {
			return err
		}
		p := worker.Parts{Journal: log, Inbox: log, Blobs: log, Calls: log, Secrets: secrets}
		options := &worker.Options{
			Fleet: log.Fleet(), ID: events.WorkerID(h.ID), Labels: labels, Recipients: recipients,
			Versions: map[string]string{"toolfleet": build.Version(), "go": runtime.Version()},
			Logs:     filepath.Join(h.Data, "worker", "logs"),
			Limits:   worker.Limits{Drain: w.Drain, Handover: w.Handover, LastWords: w.LastWords},
			Logger:   h.Logger, Tracer: otel.Tracer("worker"),
		}
		if w.Handover > 0 {
			options.Leave = ctx.Done()
		}
		return inUse(ctx, log, options, live(ctx, log, folder, p, options))
	}}
}

// sweep ends what an earlier run of the worker left.
func sweep(folder *jetlog.Folder, h *Host) error {
	if folder.Made() {
		return nil
	}
	killed, err := keeper.Sweep(folder.ID())
	if killed > 0 {
		h.Logger.Warn("killed what an earlier run of the worker left", "worker", h.ID)
	}
	return errors.Wrap(err, "end what an earlier run of the worker left")
}

// lockFolder takes the worker's folder. The keeper of a worker that was just
// killed has it until it has ended the children.
func lockFolder(ctx context.Context, dir string) (*jetlog.Folder, error) {
	for end := time.Now().Add(lockWithin); ; {
		folder, err := jetlog.LockFolder(dir)
		if !errors.Is(err, jetlog.ErrFolderLocked) || time.Now().After(end) || !pause(ctx, lockRetry) {
			return folder, err
		}
	}
}

// live is the worker's incarnations, one after the other: when its lease is
// lost for good it stops everything and joins as a new one.
func live(ctx context.Context, log *jetlog.Log, folder *jetlog.Folder, p worker.Parts, o *worker.Options) error {
	for {
		o.Incarnation = newIncarnation()
		err := incarnate(ctx, log, folder, p, o)
		switch {
		case ctx.Err() != nil:
			return err
		case errors.IsAny(err, jetlog.ErrLeaseLost, worker.ErrSuperseded, events.ErrHistoryRegressed):
			o.Logger.Warn("the worker joins anew", "worker", string(o.ID), "err", err)
		default:
			return err
		}
		if !pause(ctx, leaseRetry) {
			return nil
		}
	}
}

// incarnate is one life of the worker, under one lease and with one keeper.
func incarnate(ctx context.Context, log *jetlog.Log, folder *jetlog.Folder, p worker.Parts, o *worker.Options) error {
	k := keeper.New(&keeper.Options{Folder: folder.ID(), Lock: folder.File(), Logger: o.Logger})
	holder := jetlog.Holder{Folder: folder.ID(), Incarnation: o.Incarnation}
	lease, err := log.Acquire(ctx, "worker."+string(o.ID), holder, &jetlog.LeaseOptions{Renewed: k.Renewed})
	if err != nil {
		return err
	}
	p.Lease, p.Spawner = lease, k
	outliving := context.WithoutCancel(ctx) // what is being stopped is still ours
	renewing, stopRenewing := context.WithCancel(outliving)
	defer stopRenewing()
	keeping, stopKeeping := context.WithCancel(outliving)
	defer stopKeeping()
	until := ctx
	if o.Leave != nil {
		until = outliving // it ends by itself
	}
	working, stopWorking := context.WithCancel(until)
	defer stopWorking()
	kept, over := make(chan error, 1), make(chan error, 1)
	go func() {
		err := k.Run(keeping)
		stopWorking()
		kept <- err
	}()
	go func() {
		err := lease.Run(renewing)
		stopWorking()
		over <- err
	}()
	err = worker.Run(working, p, o)
	stopKeeping()
	err = errors.CombineErrors(<-kept, err)
	stopRenewing()
	if lost := <-over; lost != nil {
		return errors.CombineErrors(lost, err)
	}
	return errors.CombineErrors(err, release(ctx, lease))
}
