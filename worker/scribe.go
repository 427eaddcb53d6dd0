package worker

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/cockroachdb/errors"
	"github.com/google/uuid"

	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/otel"
)

const (
	// maxQueued bounds the events of one chain that wait for the log. An owner
	// that waits for an acknowledgement has few of them; only a lease that comes
	// and goes without the log makes more.
	maxQueued = 64
	// retryPause lies between two attempts to write.
	retryPause = time.Second
)

// errDisowned says that an instance's chain has another owner, or none.
var errDisowned = errors.New("the instance has another owner")

// entry is an event on its way into a chain.
type entry struct {
	ref   Ref
	event events.Event
	blob  []byte
}

// scribe writes a chain, one event after the other, in the order in which they
// were given to it. It knows the chain's fold, and only its own goroutine does.
type scribe struct {
	journal Journal
	blobs   Blobs
	log     *slog.Logger
	chain   events.Chain

	// owner says whether the chain, as it is known now, is still ours to write.
	owner func(*history) bool
	fold  history

	mu    sync.Mutex // guards queue and given
	queue []entry
	kick  chan struct{} // holds one signal that the queue is not empty
}

// give takes an event to write. It does not wait. Of too many, the oldest but
// one is dropped: the first and the last ones tell the most.
func (s *scribe) give(e entry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.queue) >= maxQueued {
		s.log.Warn("event dropped: the log has not taken the ones before it", "kind", string(s.queue[1].event.Kind()))
		s.queue = append(s.queue[:1], s.queue[2:]...)
	}
	s.queue = append(s.queue, e)
	select {
	case s.kick <- struct{}{}:
	default:
	}
}

// head returns the next event to write.
func (s *scribe) head() (entry, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.queue) == 0 {
		return entry{}, false
	}
	return s.queue[0], true
}

func (s *scribe) written() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.queue = s.queue[1:]
}

// run writes until the context ends, or with an error: errDisowned, or a fault
// of the log. Each event that was written is reported, as it was stored.
func (s *scribe) run(ctx context.Context, report func(entry)) error {
	for {
		e, ok := s.head()
		if !ok {
			select {
			case <-s.kick:
				continue
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		if err := s.write(ctx, &e); err != nil {
			return err
		}
		s.written()
		report(e)
	}
}

// write stores the blob, then the event.
func (s *scribe) write(ctx context.Context, e *entry) error {
	e.event.ID = newEventID()
	for {
		err := s.store(ctx, e)
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, events.ErrConflict):
			// Decided again, it is another event.
			if err := s.readOn(ctx); err != nil {
				return err
			}
			e.event.ID = newEventID()
			continue
		case errors.Is(err, events.ErrUncertain), errors.Is(err, events.ErrHistoryFull), errors.Is(err, errBlob):
			told := otel.Extract(ctx, e.event.Trace.Parent, e.event.Trace.State)
			s.log.WarnContext(told, "event not written yet", "kind", string(e.event.Kind()), "err", err)
		default:
			return err
		}
		if err := pause(ctx, retryPause); err != nil {
			return err
		}
	}
}

// errBlob marks errors of the blob store.
var errBlob = errors.New("blob not stored")

func (s *scribe) store(ctx context.Context, e *entry) error {
	if e.blob != nil {
		if _, err := s.blobs.PutBlob(ctx, e.blob); err != nil {
			return errors.Mark(errors.Wrapf(err, "store the blob of %s", e.event.Kind()), errBlob)
		}
	}
	r, err := s.journal.Append(ctx, e.event, s.fold.tip)
	if err == nil {
		s.fold = s.fold.evolve(&r)
		e.event.Trace, e.event.Time = r.Trace, r.Time
	}
	return err
}

// readOn folds what the chain has after the tip, and says whether it is still
// ours.
func (s *scribe) readOn(ctx context.Context) error {
	err := readChain(ctx, s.journal, s.log, s.chain, func() events.Tip { return s.fold.tip }, func(r *events.Record) {
		s.fold = s.fold.evolve(r)
	})
	if err == nil && !s.owner(&s.fold) {
		return errDisowned
	}
	return err
}

// readChain takes what a chain has after the tip, which moves with what was
// taken. It tries until the context ends, or the history is not whole.
func readChain(ctx context.Context, j Journal, log *slog.Logger, c events.Chain, tip func() events.Tip, take func(*events.Record)) error {
	for {
		err := func() error {
			for r, err := range j.ReadChain(ctx, c, tip()) {
				if err != nil {
					return err
				}
				take(&r)
			}
			return nil
		}()
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, events.ErrHistoryRegressed), errors.Is(err, events.ErrHistoryIncomplete):
			return err
		}
		log.Warn("chain not read yet", "err", err)
		if err := pause(ctx, retryPause); err != nil {
			return err
		}
	}
}

func newEventID() events.EventID { return events.EventID(uuid.Must(uuid.NewV7()).String()) }

func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}
