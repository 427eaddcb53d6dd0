package parts

import (
	"context"
	"time"

	"github.com/cockroachdb/errors"

	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/events/jetlog"
	"github.com/toolfleet/toolfleet/projections"
	"github.com/toolfleet/toolfleet/worker"
)

// lookUpWithin bounds the question where another worker of the same id runs.
const lookUpWithin = 2 * time.Second

// inUse makes the error of a worker's id that another one holds say where that
// one runs.
func inUse(ctx context.Context, log *jetlog.Log, o *worker.Options, err error) error {
	var held *jetlog.HeldError
	if !errors.As(err, &held) {
		return err
	}
	where := "somewhere"
	if w := lookUp(ctx, log, o.ID); w.Incarnation == held.Holder.Incarnation && w.Host != "" {
		where = "on host " + w.Host + " since " + w.Since.Format(time.RFC3339)
	}
	return errors.Wrapf(err, "the id %s is in use: a worker of that id runs %s", o.ID, where)
}

// lookUp returns what the history knows of a worker, as far as it can be read.
func lookUp(ctx context.Context, log *jetlog.Log, id events.WorkerID) projections.Worker {
	ctx, cancel := context.WithTimeout(ctx, lookUpWithin)
	defer cancel()
	var w projections.Worker
	for r, err := range log.ReadChain(ctx, events.WorkerChain(id), events.Tip{}) {
		if err != nil {
			break
		}
		w = projections.EvolveWorker(w, r)
	}
	return w
}
