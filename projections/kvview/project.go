package kvview

import (
	"context"
	"log/slog"
	"time"

	"github.com/cockroachdb/errors"

	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/events/jetlog"
	"github.com/toolfleet/toolfleet/projections"
)

// Options of [Project], [Rebuild] and [Verify].
type Options struct {
	// Leads says whether this projector writes at once. One that does not writes
	// as soon as the stored position lags behind its own by [Patience], so that
	// views go on when the leader is gone. It must not block. Default: it leads.
	Leads func() bool
	// Logger for what is reported and not returned. Default none.
	Logger *slog.Logger
	// Seen is called by [Verify] with every event that it folds, in order, so that
	// one reading of a long history serves other checks as well. Default nothing.
	Seen func(*events.Record)

	// hook is called at the named points of the work; tests use it to end the
	// work there.
	hook func(point string)
}

const (
	// Patience is how far the stored position may lag behind a projector that
	// does not lead.
	Patience = time.Second
	// batchTime is how long events are folded, at most, before what they changed
	// is written.
	batchTime = time.Second
	// recordsAhead is how many events wait for the fold.
	recordsAhead = 512
)

func (o *Options) withDefaults() Options {
	var d Options
	if o != nil {
		d = *o
	}
	if d.Leads == nil {
		d.Leads = func() bool { return true }
	}
	if d.Logger == nil {
		d.Logger = slog.New(slog.DiscardHandler)
	}
	if d.Seen == nil {
		d.Seen = func(*events.Record) {}
	}
	if d.hook == nil {
		d.hook = func(string) {}
	}
	return d
}

// errStartOver says that what is stored and the fold do not belong together any
// more, and that the next run will see why.
var errStartOver = errors.New("the views have to be folded anew")

// Project writes the fleet's views until the context ends, and then returns
// nil. An outage of the bus is waited out.
//
// Views of a newer version of the folds are left alone: then it waits.
//
// Its errors are those of the log ([events.ErrHistoryIncomplete], a stream that
// was deleted) and of a bucket that is not there ([ErrNoViews]) or does not take
// what has to be written.
func Project(ctx context.Context, log *jetlog.Log, o *Options) error {
	b, err := openBucket(ctx, log.Conn(), log.Fleet())
	if err != nil {
		return err
	}
	p := &projector{log: log, bucket: b, o: o.withDefaults(), blobs: newBlobCache(log)}
	if p.line, err = openLine(log.Conn()); err != nil {
		return errors.Wrapf(err, "project the views of fleet %s", log.Fleet())
	}
	defer p.line.close()
	p.told = newTold()
	unobserved, err := p.told.observe(ctx, log)
	if err != nil {
		return err
	}
	defer unobserved()
	for {
		err := p.run(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.IsAny(err, errStartOver, events.ErrHistoryRegressed) && p.following:
			p.o.Logger.Warn("views are folded anew", "err", err)
		default:
			return errors.Wrapf(err, "project the views of fleet %s", log.Fleet())
		}
	}
}

// projector is the state of one Project. One goroutine uses it, but for follow.
type projector struct {
	log    *jetlog.Log
	bucket *bucket
	line   *line // for store
	blobs  *blobCache
	o      Options

	// history is folded under that id; source is the broker's for it.
	history    *projections.History
	id, source events.LogID
	// target is how far the history went when the run began.
	target events.Seq
	// resumed says that the run began with stored states, which have all events
	// up to folded.
	resumed bool
	folded  events.Seq
	// following says that the run got as far as following the history.
	following bool
	told      *told

	// dirty are the chains whose entries have to be written. behindSince is when
	// the stored position fell behind, as far as is known, or zero; behindSeq is
	// what it lacked then.
	dirty       map[events.Chain]struct{}
	behindSince time.Time
	behindSeq   events.Seq
	// swept says that the entries of former histories are dealt with.
	swept bool
	// pass is the rebuild that this run knows of.
	pass int
	// beatRevision is that of the position at the last heartbeat.
	beatRevision uint64

	// complained says that an outage was reported.
	complained bool
	// scratch says that the next run must not begin with stored states;
	// distrusted that they are of a history that lost its end.
	scratch, distrusted bool
}

// run projects from what is stored, until the context ends or something does
// not fit.
func (p *projector) run(ctx context.Context) error {
	p.following = false
	after, err := p.begin(ctx)
	if err != nil {
		return err
	}
	p.following = true
	p.told.replayed.Add(ctx, int64(p.target-min(p.target, after)), "")
	ctx, cancel := context.WithCancel(ctx)
	records, ended := make(chan events.Record, recordsAhead), make(chan error, 1)
	go func() { ended <- p.follow(ctx, after, records) }()
	err = p.loop(ctx, records)
	cancel()
	return errors.CombineErrors(<-ended, err)
}

// follow sends the history's events until the context ends or the history
// fails; then it closes the channel.
func (p *projector) follow(ctx context.Context, after events.Seq, records chan<- events.Record) error {
	defer close(records)
	for r, err := range p.log.Follow(ctx, after, &jetlog.FollowOptions{Log: p.source}) {
		if err != nil {
			return err
		}
		select {
		case records <- r:
		case <-ctx.Done():
			return nil
		}
	}
	return nil
}

// loop folds and writes.
func (p *projector) loop(ctx context.Context, records <-chan events.Record) error {
	beat := time.NewTicker(Heartbeat)
	defer beat.Stop()
	patience := time.NewTimer(Patience)
	defer patience.Stop()
	for {
		var err error
		select {
		case r, more := <-records:
			if !more {
				return nil // follow has the reason
			}
			if err = p.take(&r); err == nil {
				err = p.drain(ctx, records)
			}
		case <-patience.C:
		case <-beat.C:
			err = p.heartbeat(ctx)
		case <-ctx.Done():
			return nil
		}
		if err == nil {
			began := time.Now()
			err = p.write(ctx)
			p.told.wrote(ctx, p, began, err)
		}
		if err != nil {
			return err
		}
		if p.behind() {
			// What comes meanwhile does not put it off.
			wait := time.Until(p.behindSince.Add(Patience))
			if wait <= 0 {
				wait = Patience
			}
			patience.Reset(wait)
		}
	}
}

// take folds one event.
func (p *projector) take(r *events.Record) error {
	if err := p.check(r); err != nil {
		return err
	}
	if !p.behind() {
		p.behindSince, p.behindSeq = time.Now(), r.Seq
	}
	if c := p.history.Apply(*r); c != (events.Chain{}) {
		p.dirty[c] = struct{}{}
	}
	return nil
}

// behind says whether the stored position may be.
func (p *projector) behind() bool { return !p.behindSince.IsZero() }

// check proves that the event goes on where the chain's state ends. Follow has
// proven that events link to each other; the states came from elsewhere.
func (p *projector) check(r *events.Record) error {
	if !p.resumed || r.Chain == (events.Chain{}) {
		return nil
	}
	tip := p.history.Tip(r.Chain)
	var err error
	switch {
	case r.Seq == tip.Seq && r.Link != tip.Link, r.Seq > tip.Seq && r.Seq <= p.folded:
		err = errors.Newf("event %d of %s is not the one that was folded", r.Seq, r.Chain)
	case r.Seq > tip.Seq:
		err = events.CheckLink(r, tip)
	}
	if err == nil {
		return nil
	}
	// Without a state, its entry is gone; with one, or at the place of another
	// event, the history was another.
	p.scratch, p.distrusted = true, tip.Seq > 0 || r.Seq <= p.folded
	return errors.Mark(err, errStartOver)
}

// drain folds what comes next, as long as it comes at once or the history is
// known to go on, but not too long.
func (p *projector) drain(ctx context.Context, records <-chan events.Record) error {
	enough := time.NewTimer(batchTime)
	defer enough.Stop()
	for {
		select {
		case <-enough.C:
			return nil
		default:
		}
		if p.history.Seq() >= p.target && len(records) == 0 {
			return nil
		}
		select {
		case r, more := <-records:
			if !more {
				return nil
			}
			if err := p.take(&r); err != nil {
				return err
			}
		case <-enough.C:
			return nil
		case <-ctx.Done():
			return nil
		}
	}
}
