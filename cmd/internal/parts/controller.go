package parts

import (
	"context"
	"iter"
	"path/filepath"
	"sync"

	"github.com/cockroachdb/errors"

	"github.com/toolfleet/toolfleet/cmd/internal/supervise"
	"github.com/toolfleet/toolfleet/controller"
	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/events/jetlog"
	"github.com/toolfleet/toolfleet/projections/kvview"
)

// ControlPlane returns the parts that decide: the projector, which writes the
// fleet's views, and the controller, which plans while it leads. Their state
// folder is <data>/controller.
func ControlPlane(log *jetlog.Log, h *Host) []supervise.Part {
	leader := &seat{log: log, key: "leader", logger: h.Logger}
	presence := &seat{log: log, key: "controller." + h.ID, logger: h.Logger}
	projector := func(ctx context.Context) error {
		return kvview.Project(ctx, log, &kvview.Options{Leads: leader.held, Logger: h.Logger})
	}
	decide := func(ctx context.Context) error {
		return controller.Run(ctx, controller.Parts{
			Journal: log, Source: source{log}, Orders: log,
			APIs: []controller.API{controller.NATS(log.Conn(), log.Fleet())},
		}, &controller.Options{Leads: leader.held, Logger: h.Logger})
	}
	return []supervise.Part{
		{Name: "projector", Run: projector},
		{Name: "controller", Run: func(ctx context.Context) error {
			folder, err := jetlog.LockFolder(filepath.Join(h.Data, "controller"))
			if err != nil {
				return err
			}
			defer func() { _ = folder.Close() }() // the process keeps nothing else of it
			holder := jetlog.Holder{Folder: folder.ID(), Incarnation: newIncarnation()}
			leader.holder, presence.holder = holder, holder
			return together(ctx, presence.run, leader.run, decide)
		}},
	}
}

// source is the history as a controller reads it.
type source struct{ *jetlog.Log }

func (s source) Follow(ctx context.Context, after events.Seq) iter.Seq2[events.Record, error] {
	return s.Log.Follow(ctx, after, nil)
}

// together runs functions until the context ends or the first of them returns;
// it returns when all have, with the first error.
func together(ctx context.Context, fs ...func(context.Context) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	errs := make([]error, len(fs))
	var all sync.WaitGroup
	for i, f := range fs {
		all.Go(func() {
			defer cancel()
			errs[i] = f(ctx)
		})
	}
	all.Wait()
	return errors.Join(errs...)
}
