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
	leader, own := log.NewSeat("leader", nil), log.NewSeat("controller."+h.ID, &jetlog.SeatOptions{Own: true})
	projector := func(ctx context.Context) error {
		return kvview.Project(ctx, log, &kvview.Options{Leads: leader.Held, Logger: h.Logger})
	}
	p := controller.Parts{
		Journal: log, Source: source{log}, Orders: log, Presence: log,
		APIs: []controller.API{controller.NATS(log.Conn(), log.Fleet())},
	}
	return []supervise.Part{
		{Name: "projector", Run: projector},
		{Name: "controller", Run: func(ctx context.Context) error {
			folder, err := jetlog.LockFolder(filepath.Join(h.Data, "controller"))
			if err != nil {
				return err
			}
			defer func() { _ = folder.Close() }() // the process keeps nothing else of it
			id := jetlog.Holder{Folder: folder.ID(), Incarnation: newIncarnation()}
			return seated(ctx, id, []*jetlog.Seat{own, leader}, func(ctx context.Context) error {
				return controller.Run(ctx, p, &controller.Options{
					Self:  events.LedBy{Controller: h.ID, Incarnation: id.Incarnation},
					Leads: leader.Held, Steady: own.Steady, TTL: jetlog.LeaseTTL, Logger: h.Logger,
				})
			})
		}},
	}
}

// source is the history as a controller reads it.
type source struct{ *jetlog.Log }

func (s source) Follow(ctx context.Context, after events.Seq) iter.Seq2[events.Record, error] {
	return s.Log.Follow(ctx, after, nil)
}

// seated runs f with seats. They are given back after it has returned, and the
// first fault of one ends it.
func seated(ctx context.Context, id jetlog.Holder, seats []*jetlog.Seat, f func(context.Context) error) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	sitting, leave := context.WithCancel(context.WithoutCancel(ctx))
	defer leave()
	faults := make([]error, len(seats))
	var all sync.WaitGroup
	for i, s := range seats {
		all.Go(func() {
			defer stop()
			faults[i] = s.Run(sitting, id)
		})
	}
	err := f(ctx)
	leave()
	all.Wait()
	return errors.Join(append(faults, err)...)
}
