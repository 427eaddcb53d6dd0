// Package controller decides what runs where: it answers requests about a
// fleet's servers and plans, from the history alone, who runs which instance.
//
// # Requests
//
// Any controller answers any request. A request is decided on a fold of the
// history, and the event it causes is appended with the tip of that fold. When
// the chain turns out to have gone on, the controller folds on and decides
// again; it looks for the request's id first, so a request that was granted is
// answered with what it caused, however often and to whomever it is sent.
//
// An answer that changes nothing (an error, or "it is so already") is given only
// from a fold that reached the end of the history after the request came: what
// the caller was told by another controller before is in it.
//
// Requests about one server, one worker or the fleet are decided one after the
// other, those about different ones side by side.
//
// # Plans
//
// [Plan] looks at definitions, workers, instances and last commands and says
// what to do next. Planning goes in rounds: a plan is made from a whole prefix
// of the history, all its decisions are carried out, and the next plan waits
// until they are in the fold. Nothing is remembered between rounds, so it does
// not matter where one was interrupted, or by whom.
//
// Only the controller that leads plans (Options.Leads). Two that do, for a
// while, do no harm: every append and every command states what it was decided
// on, so of two one is refused.
//
// # Faults
//
// [Run] ends with an error only when the history cannot be followed any more.
// What cannot be written for other reasons is logged and planned again; who
// made a request is told.
//
// # Leading
//
// Which controller leads is none of this package's business: Options.Leads says
// so, from a lease. That a controller has begun to lead is written on the
// fleet's chain (led-by) with its first plan.
//
// # Lost workers
//
// A worker renews its key for as long as it lives. One that has joined is lost
// when three things are true: this controller saw the last renewal of its key a
// TTL ago or earlier, by the clock of leases; a read from the stream's leader
// that was begun after that found no key; and this controller's own renewals
// were acknowledged throughout that TTL. Until then it waits. So neither a
// controller that was stopped, nor an outage of the bus, nor a broker whose
// clock was set makes workers lost that are there.
//
// All keys are watched through one consumer, and only the key of a worker that
// has been silent for a TTL is read: periodic reads of all keys would cost as
// much as their renewals, and could not tell whether a renewal and its end lay
// between two of them. The watch tells, because it sees every message or ends;
// when it begins again, so does the TTL.
//
// Every controller watches, and the one that leads writes. A lost worker is
// written on its own chain first; the next plan derives the rest from that.
package controller

import (
	"context"
	"iter"
	"log/slog"
	"sync"
	"time"

	"github.com/cockroachdb/errors"

	"github.com/toolfleet/toolfleet/controller/request"
	"github.com/toolfleet/toolfleet/events"
)

// Journal is where events are appended. *jetlog.Log is one.
type Journal interface {
	Append(ctx context.Context, e events.Event, tip events.Tip) (events.Record, error)
}

// Source is where the history is read from.
type Source interface {
	// Follow returns the events after a position, stored and then live, until the
	// context ends; an error is the last element.
	Follow(ctx context.Context, after events.Seq) iter.Seq2[events.Record, error]
	// Head returns the end of the history.
	Head(ctx context.Context) (events.Head, error)
}

// Orders is where commands are put. *jetlog.Log is one.
type Orders interface {
	PutCommand(ctx context.Context, a events.Address, c *events.Command, seen events.Seq) (events.Seq, error)
	LastCommands(ctx context.Context) ([]events.CommandRecord, error)
	PurgeCommands(ctx context.Context, a events.Address, upTo events.Seq) error
}

// Presence is where workers show that they are there. *jetlog.Log is one.
type Presence interface {
	// WatchWorkers calls seen with the last message of each worker's key, and then
	// with every message as it is stored: its sequence, and whether it is a
	// renewal (there) or the key's end. It blocks until the context ends, and ends
	// with an error when it cannot tell what was stored.
	WatchWorkers(ctx context.Context, seen func(w events.WorkerID, at events.Seq, there bool)) error
	// FindWorker reads the last message of a key from the stream's leader; its
	// sequence is 0 if there is none.
	FindWorker(ctx context.Context, w events.WorkerID) (at events.Seq, there bool, err error)
	// Now returns the time on the clock of leases, which goes on while the host
	// sleeps or the process is stopped.
	Now() time.Duration
}

// Handler decides a request. It answers until its context ends; its errors are
// [*request.Error]s. It may be called by many goroutines.
type Handler func(ctx context.Context, q *request.Request) (request.Answer, error)

// API offers a handler to the world, such as [NATS] does. It blocks until the
// context ends, and then until the requests it took are answered.
type API func(ctx context.Context, h Handler) error

// Parts are what a controller stands on.
type Parts struct {
	Journal Journal
	Source  Source
	Orders  Orders
	// Presence tells of the workers. Without it none is declared lost.
	Presence Presence
	// APIs are run from when the history has been read once.
	APIs []API
}

// Options of [Run].
type Options struct {
	// Self is what is written down when this controller begins to lead. Default:
	// nothing is.
	Self events.LedBy
	// Leads says whether this controller plans at the moment; it is asked before
	// each plan, and at least once a second. Default: it always does.
	Leads func() bool
	// Steady returns since when this controller's own renewals have been
	// acknowledged throughout, on the clock of Parts.Presence; false if they are
	// not at the moment. Default: always, since that clock's zero.
	Steady func() (since time.Duration, ok bool)
	// TTL is how long a key outlives its last renewal. Default 20 s.
	TTL time.Duration
	// Logger for what is not returned. Default none.
	Logger *slog.Logger
}

func (o *Options) withDefaults() Options {
	var d Options
	if o != nil {
		d = *o
	}
	if d.Leads == nil {
		d.Leads = func() bool { return true }
	}
	if d.Steady == nil {
		d.Steady = func() (time.Duration, bool) { return 0, true }
	}
	if d.TTL == 0 {
		d.TTL = 20 * time.Second
	}
	if d.Logger == nil {
		d.Logger = slog.New(slog.DiscardHandler)
	}
	return d
}

// Run is a controller. It returns nil when the context has ended, or the fault
// that keeps it from going on: that the history cannot be followed (marked
// [events.ErrHistoryIncomplete] or [events.ErrHistoryRegressed]), or that an API
// cannot be offered.
func Run(ctx context.Context, p Parts, o *Options) error {
	g := newGroup(ctx)
	c := &controller{
		Parts: p, Options: o.withDefaults(), group: g,
		records: make(chan events.Record, maxRecords),
		results: make(chan result, maxAsks),
		asks:    make(chan *ask),
		chains:  make(map[events.Chain]*chain),
		dirty:   true,
	}
	c.vigil, c.told = newVigil(c.TTL), newTold()
	g.run(c.follow)
	g.run(c.loop)
	g.run(c.observe)
	if c.Presence != nil {
		g.run(c.watch)
	}
	return g.wait()
}

// Bounds of what waits for the loop.
const (
	// maxRecords lets the reader of the history be ahead of the fold.
	maxRecords = 256
	// maxAsks bounds the requests that are being decided, and so the goroutines
	// that append for them.
	maxAsks = 1024
	// maxWrites bounds the decisions of a plan that are carried out at a time:
	// enough to fill the log's batches, too few to keep others waiting.
	maxWrites = 16
)

// follow reads the history for the loop.
func (c *controller) follow(ctx context.Context) error {
	for r, err := range c.Source.Follow(ctx, 0) {
		if err != nil {
			return errors.Wrap(err, "follow the history")
		}
		select {
		case c.records <- r:
		case <-ctx.Done():
			return nil
		}
	}
	if ctx.Err() == nil {
		// unreachable unless a source ends by itself.
		return errors.New("the history ended")
	}
	return nil
}

// group runs functions until the context ends or the first of them returns an
// error; what they return after that is of no consequence.
type group struct {
	ctx    context.Context //nolint:containedctx // it is the life of the group's functions
	cancel context.CancelFunc
	wg     sync.WaitGroup
	once   sync.Once
	err    error
}

func newGroup(ctx context.Context) *group {
	ctx, cancel := context.WithCancel(ctx)
	return &group{ctx: ctx, cancel: cancel}
}

func (g *group) run(f func(context.Context) error) {
	g.wg.Go(func() {
		if err := f(g.ctx); err != nil && g.ctx.Err() == nil {
			g.once.Do(func() { g.err = err })
			g.cancel()
		}
	})
}

// wait returns the first error after all functions have returned.
func (g *group) wait() error {
	g.wg.Wait()
	g.cancel()
	return g.err
}
