package session

import (
	"context"
	"sync"
	"time"

	"github.com/cockroachdb/errors"
	"github.com/google/uuid"
	"github.com/nats-io/nats.go"

	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/projections"
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
	// Scheme of the tools' names. Default [projections.Qualified].
	Scheme projections.Scheme
	// Wait is how long Open waits for servers that are starting, all together.
	// Default [DefaultWait]; negative is not at all.
	Wait time.Duration
	// StartupWait is how long Open waits beyond that for servers that are
	// starting and whose tools nobody knows. Default not at all.
	StartupWait time.Duration
	// Need are names of tools: Open waits no longer once all of them are offered.
	// Default none: it waits for all servers.
	Need []string
	// Off makes a session without tools, that neither reads nor calls anything.
	Off bool
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
	return d
}

// Session is an agent's view of a fleet. [Session.Close] ends it.
type Session struct {
	options Options
	bus     bus
	fleet   fleet
	feed    *feed // nil where there is none to leave
	asOf    func() events.Seq
	changes chan struct{}
	done    chan struct{}   // closed when nothing of the session runs
	life    context.Context //nolint:containedctx // calls end with the session
	stop    context.CancelFunc
	once    sync.Once

	mu sync.Mutex // guards now and moved
	// now is the newest moment; moved is closed when there is a newer one.
	now   *moment
	moved chan struct{}
}

// moment is what a session knows at one time.
type moment struct {
	fleet     fleet
	catalogue *catalogue
	seq       events.Seq
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
	if err != nil {
		return nil, errors.Wrapf(err, "open a session of fleet %s", s.options.Fleet)
	}
	s.feed, s.bus, s.fleet = f, f.log, view{f}
	s.asOf = func() events.Seq { return f.AsOf().Seq }
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
		options: o, fleet: none{}, now: &moment{fleet: none{}, catalogue: &catalogue{}},
		moved: make(chan struct{}), changes: make(chan struct{}, 1),
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

// refresh makes the session's next moment. Only one goroutine calls it at a
// time.
func (s *Session) refresh() {
	v := viewpoint{
		chooser: chooser{session: s.options.ID, host: s.options.Host},
		project: s.options.Project, scheme: s.options.Scheme,
	}
	before, _ := s.load()
	seq := s.asOf() // before what it is the position of
	next, changed := before.catalogue.next(s.fleet, &v)
	s.mu.Lock()
	s.now = &moment{fleet: s.fleet, catalogue: next, seq: seq}
	close(s.moved)
	s.moved = make(chan struct{})
	s.mu.Unlock()
	if !changed {
		return
	}
	select {
	case s.changes <- struct{}{}:
	default: // a signal is waiting already
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
// change the list.
func (s *Session) Tools() ([]Tool, events.Seq) {
	now, _ := s.load()
	return now.catalogue.tools, now.seq
}

// Changes returns the session's channel of signals: one slot, filled whenever
// the list of tools has changed since it was last emptied.
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
