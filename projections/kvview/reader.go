package kvview

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/cockroachdb/errors"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/projections"
)

// Entries as a Reader returns them.
type (
	// ServerEntry is a definition.
	ServerEntry = projections.Entry[projections.Server]
	// InstanceEntry is the status of an instance.
	InstanceEntry = projections.Entry[projections.Instance]
	// ListEntry has the tools of an instance, or its resources or prompts.
	ListEntry = projections.Entry[List]
	// WorkerEntry is a worker.
	WorkerEntry = projections.Entry[projections.Worker]
	// FleetEntry is the fleet itself.
	FleetEntry = projections.Entry[projections.Fleet]
)

// Reader is a copy of a fleet's views that follows the bucket.
//
// [Open] reads the bucket once; [Reader.Run] keeps the copy current until its
// context ends. Without Run the copy stays as it was. One Reader serves a whole
// process: each watches the bucket by itself, and many watches slow its writers.
//
// Concurrency: all methods may be called by any goroutine, Run by one at a time.
// Entries are shared: nobody may change what is reachable from one. What one
// method returns is of one moment; two calls may see two. Entries of different
// keys are of different positions, but none is behind that of [Reader.AsOf]. An
// entry never goes back, except by [Rebuild] or when the bucket was replaced.
//
// Permissions: a Reader publishes to
//
//	$JS.API.STREAM.INFO.KV_tf-<fleet>-views
//	$JS.API.CONSUMER.CREATE.KV_tf-<fleet>-views.>
//	$JS.API.CONSUMER.MSG.NEXT.KV_tf-<fleet>-views.>
//	$JS.API.CONSUMER.DELETE.KV_tf-<fleet>-views.>
//
// and subscribes to its inbox.
type Reader struct {
	js     jetstream.JetStream
	nc     *nats.Conn
	fleet  events.FleetID
	logger *slog.Logger

	mu     sync.RWMutex
	copied contents

	// moments is the position that all entries have reached; every change of an
	// entry sets it again.
	moments projections.View[AsOf]

	// What only Open and Run use.
	created  time.Time // of the bucket
	revision uint64    // the last one that was read
	catching bool      // what is read now was written before
	position *AsOf     // read, but perhaps not yet reached by all entries
	reached  *AsOf     // reached, and to be published
}

// ReaderOptions of [Open].
type ReaderOptions struct {
	// Logger for what is reported and not returned. Default none.
	Logger *slog.Logger
}

// AsOf is how far a Reader's entries are.
type AsOf struct {
	events.Position
	// Time when projectors last said that this is all there is. It is the
	// reader's own, but for what it found when it was opened.
	Time time.Time
}

// Behind says whether the views may lack something: no projector has renewed
// them for a while.
func (a AsOf) Behind(now time.Time) bool { return a.Age(now) > 2*Heartbeat }

// Age returns how old the views are; at most a heartbeat and a little more while
// all is well.
func (a AsOf) Age(now time.Time) time.Duration { return max(0, now.Sub(a.Time)) }

// Text returns the position for people, with the age of views that are behind,
// such as "as of seq 17, 42 s old".
func (a AsOf) Text(now time.Time) string {
	if a.Log == "" {
		return "nothing is known yet"
	}
	if !a.Behind(now) {
		return fmt.Sprintf("as of seq %d", a.Seq)
	}
	return fmt.Sprintf("as of seq %d, %d s old", a.Seq, int(a.Age(now).Seconds()))
}

// Open returns a Reader with a copy of the fleet's views as they are now. It
// leaves nothing running. Its error is marked [ErrNoViews] when the fleet has
// none.
func Open(ctx context.Context, nc *nats.Conn, f events.FleetID, o *ReaderOptions) (*Reader, error) {
	if _, err := events.ParseFleetID(string(f)); err != nil {
		return nil, err
	}
	js, err := jetstream.New(nc)
	if err != nil {
		return nil, errors.Wrap(err, "open views")
	}
	r := &Reader{js: js, nc: nc, fleet: f, logger: slog.New(slog.DiscardHandler)}
	if o != nil && o.Logger != nil {
		r.logger = o.Logger
	}
	w, err := r.watch(ctx)
	for try := 1; err != nil && errors.Is(err, nats.ErrNoResponders) && try < openTries && pause(ctx, retryPause) == nil; try++ {
		w, err = r.watch(ctx)
	}
	if err != nil {
		return nil, err
	}
	w.close()
	return r, nil
}

// openTries is how often Open begins to read. In a cluster, a server may not know
// yet that another one has just made a consumer, and say that nobody answers.
const openTries = 4

// Run keeps the copy current until the context ends, and then returns nil. An
// outage is waited out. Its error is that of a connection that was closed.
func (r *Reader) Run(ctx context.Context) error {
	for {
		err := r.follow(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, nats.ErrConnectionClosed):
			return errors.Wrapf(err, "follow the views of fleet %s", r.fleet)
		}
		r.logger.Debug("views are watched anew", "err", err)
		if pause(ctx, retryPause) != nil {
			return nil
		}
	}
}

// silenceLimit is how long a watch may bring nothing before another one is
// opened: projectors renew the position more often.
const silenceLimit = 3 * Heartbeat

// follow applies what one watch brings, until it fails.
func (r *Reader) follow(ctx context.Context) error {
	w, err := r.watch(ctx)
	if err != nil {
		return err
	}
	defer w.close()
	silence := time.NewTimer(silenceLimit)
	defer silence.Stop()
	for {
		select {
		case u := <-w.updates:
			r.apply(r.burst(u, w))
			silence.Reset(silenceLimit)
		case err := <-w.failed:
			return err
		case <-silence.C:
			return errors.New("nothing came for a while")
		case <-ctx.Done():
			return nil
		}
	}
}

// burst returns an update with those that wait behind it.
func (r *Reader) burst(first update, w *watch) []update {
	us := []update{first}
	for len(us) < readAhead {
		select {
		case u := <-w.updates:
			us = append(us, u)
		default:
			return us
		}
	}
	return us
}

// watch opens a watch and reads what it begins with: everything, or, when the
// bucket is the one that was read before, what was written since.
func (r *Reader) watch(ctx context.Context) (*watch, error) {
	s, err := openStream(ctx, r.js, r.fleet)
	if err != nil {
		return nil, err
	}
	info := s.CachedInfo()
	again := info.Created.Equal(r.created) && info.State.LastSeq >= r.revision
	after := uint64(0)
	if again {
		after = r.revision
	}
	w, err := openWatch(ctx, s, subjectPrefix(r.fleet), after)
	if err != nil {
		return nil, err
	}
	var us []update
	err = w.first(ctx, func(u update) error {
		us = append(us, u)
		return nil
	})
	if err != nil {
		w.close()
		return nil, err
	}
	r.catching = true
	if again {
		r.apply(us)
	} else {
		r.created, r.revision, r.position, r.reached = info.Created, 0, nil, &AsOf{}
		r.replace(us)
	}
	r.catching = false
	return w, nil
}

// Wait returns nil as soon as all entries have reached that position, or the
// context's error.
func (r *Reader) Wait(ctx context.Context, seq events.Seq) error { return r.moments.Wait(ctx, seq) }

// Changes returns a channel of signals, as [projections.View.Changes] does: one
// slot, filled at first. [Reader.Forget] ends it.
func (r *Reader) Changes() <-chan struct{} { return r.moments.Changes() }

// Forget ends the signals on a channel that Changes returned.
func (r *Reader) Forget(c <-chan struct{}) { r.moments.Forget(c) }

// AsOf returns the position that all entries have reached, and when that was
// known.
func (r *Reader) AsOf() AsOf {
	a, _ := r.moments.Load()
	return a
}
