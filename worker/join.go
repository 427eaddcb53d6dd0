package worker

import (
	"context"
	"log/slog"
	"maps"
	"runtime"

	"github.com/cockroachdb/errors"
	"github.com/mark3labs/mcp-go/mcp"

	"github.com/toolfleet/toolfleet/events"
)

// ErrSuperseded marks the error of a worker whose chain says that another
// incarnation of it has joined, or that it is lost.
var ErrSuperseded = errors.New("another incarnation is the worker now")

// register is the worker's own chain.
type register struct {
	journal     Journal
	log         *slog.Logger
	chain       events.Chain
	incarnation events.Incarnation
	tip         events.Tip
	// joined is the incarnation that is there, "" if none is.
	joined events.Incarnation
	// last is the event at the tip.
	last events.EventID
}

// read folds what the chain has after the tip.
func (r *register) read(ctx context.Context) error {
	return readChain(ctx, r.journal, r.log, r.chain, func() events.Tip { return r.tip }, r.take)
}

func (r *register) take(rec *events.Record) {
	r.tip, r.last = rec.Tip(), rec.ID
	switch b := rec.Body.(type) {
	case events.Joined:
		r.joined = b.Incarnation
	case events.Left:
		if b.Incarnation == r.joined {
			r.joined = ""
		}
	case events.Lost:
		r.joined = ""
	default:
	}
}

// append writes to the chain for as long as it may.
func (r *register) append(ctx context.Context, b events.Body, may func() bool) error {
	e := events.Event{Chain: r.chain, Body: b, ID: newEventID()}
	for {
		if !may() {
			return ErrSuperseded
		}
		rec, err := r.journal.Append(ctx, e, r.tip)
		switch {
		case err == nil:
			r.take(&rec)
			return nil
		case ctx.Err() != nil:
			return err
		case errors.Is(err, events.ErrConflict):
			if err := r.read(ctx); err != nil {
				return err
			}
			e.ID = newEventID()
		case errors.Is(err, events.ErrUncertain), errors.Is(err, events.ErrHistoryFull):
			if err := pause(ctx, retryPause); err != nil {
				return err
			}
		default:
			return err
		}
	}
}

// join says that the incarnation is there. It is refused when the incarnation
// has joined before, or another one joins meanwhile.
func (r *register) join(ctx context.Context, o *Options) error {
	if err := r.read(ctx); err != nil {
		return err
	}
	before := r.joined
	versions := map[string]string{"go": runtime.Version(), "mcp": mcp.LATEST_PROTOCOL_VERSION}
	maps.Copy(versions, o.Versions)
	return r.append(ctx, events.Joined{
		Host: o.Host, Incarnation: r.incarnation, Labels: o.Labels,
		Versions: versions, Capacity: o.Capacity, Recipients: o.Recipients,
	}, func() bool {
		return r.joined != r.incarnation && (r.joined == before || r.joined == "")
	})
}

// drain says that the incarnation is about to go, so that what it runs can be
// taken over, and returns the event that says so.
func (r *register) drain(ctx context.Context) (events.EventID, error) {
	err := r.append(ctx, events.Draining{Incarnation: r.incarnation}, func() bool {
		return r.joined == r.incarnation
	})
	return r.last, err
}

// leave says that the incarnation has stopped everything and goes.
func (r *register) leave(ctx context.Context, reason string) error {
	return r.append(ctx, events.Left{Incarnation: r.incarnation, Reason: reason}, func() bool {
		return r.joined == r.incarnation
	})
}
