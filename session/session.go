package session

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/cockroachdb/errors"
	"github.com/google/uuid"
	"github.com/nats-io/nats.go"
	"go.opentelemetry.io/otel/trace"

	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/otel"
	"github.com/toolfleet/toolfleet/projections"
	"github.com/toolfleet/toolfleet/projections/kvview"
)

// DefaultWait is how long Open waits for servers that are starting.
const DefaultWait = 250 * time.Millisecond

// Options of [Open].
type Options struct {
	// Fleet. Default [events.DefaultFleet].
	Fleet events.FleetID
	// Project is the label of the project whose servers the session sees besides
	// the fleet's. Default none.
	Project string
	// ID names the session; of several instances of a server, sessions of
	// different ids use different ones. Default random.
	ID string
	// Host is the id of the worker on the session's own host, whose instances it
	// prefers. Default none.
	Host events.WorkerID
	// Actor is who calls, as traces and the server's owner see it. Default
	// "session:" and the ID.
	Actor string
	// Scheme of the names of tools and prompts. Default [projections.Qualified].
	Scheme projections.Scheme
	// Reserved are names that no tool gets, such as those of the host's own: one
	// that would be named so has its qualified name, and says so ([Tool.Reserved]).
	// Default none.
	Reserved []string
	// MaxTools is how many tools are listed at most, the first in the order of
	// their names; [Status] tells what was left out, which can still be called.
	// Default all of them.
	MaxTools int
	// Wait is how long Open waits for servers that are starting, all together.
	// Default [DefaultWait]; negative is not at all.
	Wait time.Duration
	// StartupWait is how long Open waits beyond that for servers that are
	// starting, have not failed so far, and whose tools nobody knows: for callers
	// that list once, or would rather wait than be without. Default not at all.
	StartupWait time.Duration
	// Need are names of tools: Open waits no longer once all of them are offered.
	// Default none: it waits for all servers.
	Need []string
	// Off makes a session without tools, that neither reads nor calls anything:
	// the connection may be nil.
	Off bool
	// Logger of servers that fail after Open: one line each, until the server
	// works again or fails in another way. Default none.
	Logger *slog.Logger
}

func (o *Options) withDefaults() Options {
	var d Options
	if o != nil {
		d = *o
	}
	if d.Fleet == "" {
		d.Fleet = events.DefaultFleet
	}
	if d.ID == "" {
		d.ID = uuid.NewString()
	}
	if d.Actor == "" {
		d.Actor = "session:" + d.ID
	}
	if d.Wait == 0 {
		d.Wait = DefaultWait
	}
	if d.Logger == nil {
		d.Logger = slog.New(slog.DiscardHandler)
	}
	return d
}

// Session is an agent's view of a fleet. [Session.Close] ends it.
type Session struct {
	options Options
	tracer  trace.Tracer

	// What a session that is off has none of.
	bus   bus
	fleet fleet
	feed  *feed
	asOf  func() kvview.AsOf

	changes chan struct{}
	done    chan struct{}   // closed when nothing of the session runs
	life    context.Context //nolint:containedctx // calls end with the session
	stop    context.CancelFunc
	once    sync.Once

	// syncing has one slot, for whoever calls a registry; mirrors are theirs.
	syncing chan struct{}
	mirrors map[Registry]*mirror

	mu sync.Mutex // guards what follows
	// now is the newest moment; moved is closed when there is a newer one.
	now   *moment
	moved chan struct{}
	// opened says that Open has returned, so that failures are news.
	opened bool
}

// moment is what a session knows at one time.
type moment struct {
	// number counts the moments of the session.
	number    uint64
	catalogue *catalogue
	asOf      kvview.AsOf
}

// Open opens a session on a connection, which must stay open as long as it. It
// does not fail because of any server.
func Open(ctx context.Context, nc *nats.Conn, o *Options) (*Session, error) {
	s := newSession(ctx, o.withDefaults())
	if s.options.Off {
		close(s.done)
		return s, nil
	}
	f, err := share(ctx, nc, s.options.Fleet)
	if errors.Is(err, kvview.ErrNoViews) {
		err = errors.Wrap(err, "start a controller for it, or name another fleet")
	}
	if err != nil {
		return nil, errors.Wrapf(err, "open a session of fleet %s", s.options.Fleet)
	}
	s.feed, s.bus, s.fleet, s.asOf = f, f.guest, view{f}, f.AsOf
	s.refresh()
	changed, arrived := f.Changes(), f.arrived.Changes()
	go func() {
		defer close(s.done)
		defer f.Forget(changed)
		defer f.arrived.Forget(arrived)
		s.follow(changed, arrived)
	}()
	if err := s.gate(ctx); err != nil {
		s.Close()
		return nil, errors.Wrapf(err, "open a session of fleet %s", s.options.Fleet)
	}
	s.mu.Lock()
	s.opened = true
	s.mu.Unlock()
	select {
	case <-s.changes: // the caller has seen no list yet
	default:
	}
	return s, nil
}

// newSession returns a session that sees nothing and runs nothing.
func newSession(ctx context.Context, o Options) *Session {
	life, stop := context.WithCancel(context.WithoutCancel(ctx))
	return &Session{
		options: o, tracer: otel.Tracer("session"), now: &moment{catalogue: &catalogue{}},
		moved: make(chan struct{}), changes: make(chan struct{}, 1),
		mirrors: make(map[Registry]*mirror), syncing: make(chan struct{}, 1),
		life: life, stop: stop, done: make(chan struct{}),
	}
}

// follow refreshes the session until it is closed.
func (s *Session) follow(changed, arrived <-chan struct{}) {
	for {
		select {
		case <-changed:
		case <-arrived:
		case <-s.life.Done():
			return
		}
		s.refresh()
	}
}

func (s *Session) viewpoint() *viewpoint { return newViewpoint(&s.options) }

// refresh makes the session's next moment. Only one goroutine calls it at a
// time.
func (s *Session) refresh() {
	before, _ := s.load()
	asOf := s.asOf() // before what it is the position of
	next, changed := before.catalogue.next(s.fleet, s.viewpoint())
	s.mu.Lock()
	s.now = &moment{number: before.number + 1, catalogue: next, asOf: asOf}
	close(s.moved)
	s.moved = make(chan struct{})
	opened := s.opened
	s.mu.Unlock()
	if opened {
		s.report(before.catalogue, next)
	}
	if !changed {
		return
	}
	select {
	case s.changes <- struct{}{}:
	default: // a signal is waiting already
	}
}

// report logs the servers that work no more, or fail in another way than
// before.
func (s *Session) report(before, now *catalogue) {
	known := before.troubles()
	for id, t := range now.troubles() {
		if known[id] != t {
			s.options.Logger.Warn("a server does not work", "server", string(id), "err", failureOf(now.member(id).instances))
		}
	}
}

// load returns the newest moment, and a channel that is closed when there is a
// newer one.
func (s *Session) load() (*moment, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.now, s.moved
}

// Tools returns the tools that the session offers, sorted by name, and the
// position in the fleet's history that they are at least as new as. Nobody may
// change the list. It is that of [Session.Status].
func (s *Session) Tools() ([]Tool, events.Seq) {
	now, _ := s.load()
	return now.catalogue.tools, now.asOf.Seq
}

// Changes returns the session's channel of signals: one slot, filled whenever
// what is listed has changed since it was last emptied, or a server failed or
// works again.
func (s *Session) Changes() <-chan struct{} { return s.changes }

// Close ends the session and waits for what it runs. Calls in flight are
// cancelled.
func (s *Session) Close() {
	s.once.Do(func() {
		s.stop()
		<-s.done
		if s.feed != nil {
			s.feed.leave()
		}
	})
}
