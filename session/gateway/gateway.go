package gateway

import (
	"bytes"
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/session"
)

const (
	// DefaultStartupWait is how long a client's first list waits for tools that
	// nobody knows yet.
	DefaultStartupWait = 10 * time.Second
	// DefaultPageSize is how many tools a page has: a page of usual definitions is
	// some hundred kilobytes.
	DefaultPageSize = 200
	// DefaultMaxMessage is how long a message of a client may be, in bytes.
	DefaultMaxMessage = 4 << 20
	// DefaultMaxSessions is how many clients HTTP has at once.
	DefaultMaxSessions = 1000
	// DefaultIdle is how long a session over HTTP lives with nothing in flight.
	DefaultIdle = 30 * time.Minute

	// settle is how long changes are collected before clients are told.
	settle = 250 * time.Millisecond
)

// Session is what a gateway needs of a [session.Session].
type Session interface {
	Status() session.Status
	Pending() []events.ServerID
	WaitReady(ctx context.Context, servers ...events.ServerID) error
	Changes() <-chan struct{}
	Call(ctx context.Context, name string, arguments []byte, o *session.CallOptions) (*session.Result, error)
}

// Options of [New].
type Options struct {
	// Version of this program, as clients are told. Default "devel".
	Version string
	// StartupWait is how long a client's first list waits. Default
	// [DefaultStartupWait]; negative is not at all.
	StartupWait time.Duration
	// PageSize is how many tools a page of the list has. Default
	// [DefaultPageSize].
	PageSize int
	// MaxMessage is how long a message of a client may be, in bytes. Default
	// [DefaultMaxMessage].
	MaxMessage int

	// What follows is for HTTP only.

	// Tokens are bearer tokens by the name of the principal that holds them.
	// Default none: nobody may connect.
	Tokens map[string]string
	// Open lets everyone in who can reach the URL; the tokens are not looked at.
	Open bool
	// Hosts are names that requests may be addressed to, besides loopback ones:
	// "tools.example.org" with any port, or "tools.example.org:8443". Default none.
	Hosts []string
	// Origins are those of pages that may send requests, besides loopback ones,
	// such as "https://tools.example.org". Default none.
	Origins []string
	// MaxSessions is how many sessions there may be. Default
	// [DefaultMaxSessions].
	MaxSessions int
	// Idle is how long a session with nothing in flight lives. Default
	// [DefaultIdle].
	Idle time.Duration
}

func (o *Options) withDefaults() Options {
	var d Options
	if o != nil {
		d = *o
	}
	if d.Version == "" {
		d.Version = "devel"
	}
	if d.StartupWait == 0 {
		d.StartupWait = DefaultStartupWait
	}
	if d.PageSize == 0 {
		d.PageSize = DefaultPageSize
	}
	if d.MaxMessage == 0 {
		d.MaxMessage = DefaultMaxMessage
	}
	if d.MaxSessions == 0 {
		d.MaxSessions = DefaultMaxSessions
	}
	if d.Idle == 0 {
		d.Idle = DefaultIdle
	}
	return d
}

// Gateway is an MCP server. It is an [http.Handler], and serves stdio.
type Gateway struct {
	session  Session
	options  Options
	guard    *guard
	sessions *sessions

	// number counts the lists of tools that differ for clients.
	number atomic.Uint64

	mu      sync.Mutex // guards what follows, and is taken before a client's
	clients map[*client]struct{}
	// moved is closed at the session's next signal.
	moved  chan struct{}
	closed bool
}

// New returns a gateway to a session, whose signals of changes it takes: nobody
// else may. [Gateway.Run] belongs to it.
func New(s Session, o *Options) *Gateway {
	g := &Gateway{session: s, options: o.withDefaults(), clients: make(map[*client]struct{}), moved: make(chan struct{})}
	g.guard = newGuard(&g.options)
	g.sessions = newSessions(g.options.MaxSessions, g.options.Idle)
	return g
}

// Run tells clients of changes until ctx ends. Then it ends what is left: calls
// are cancelled, streams and sessions end, and requests are refused. It returns
// nil.
func (g *Gateway) Run(ctx context.Context) error {
	before := g.session.Status().Tools
	for {
		select {
		case <-g.session.Changes():
			g.move()
		case <-ctx.Done():
			g.close()
			return nil
		}
		select {
		case <-time.After(settle):
		case <-ctx.Done():
			continue
		}
		now := g.session.Status().Tools
		if !slices.EqualFunc(before, now, looksTheSame) {
			g.announce()
		}
		before = now
	}
}

// looksTheSame says whether clients see no difference between two tools.
func looksTheSame(a, b session.Tool) bool {
	return a.Name == b.Name && bytes.Equal(a.Definition, b.Definition)
}

// announce tells every client that its list is old.
func (g *Gateway) announce() {
	g.number.Add(1)
	g.mu.Lock()
	defer g.mu.Unlock()
	for c := range g.clients {
		c.announce()
	}
}

// move lets those who wait look again.
func (g *Gateway) move() {
	g.mu.Lock()
	defer g.mu.Unlock()
	close(g.moved)
	g.moved = make(chan struct{})
}

// await waits for servers that are starting and whose tools nobody knows, within
// the limit. One that has failed already may take any time: nobody waits for it.
func (g *Gateway) await(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, max(0, g.options.StartupWait))
	defer cancel()
	for {
		g.mu.Lock()
		moved := g.moved
		g.mu.Unlock()
		hopeful := g.hopeful()
		if len(hopeful) == 0 || ctx.Err() != nil {
			return
		}
		wait, stop := context.WithCancel(ctx)
		ready := make(chan struct{})
		go func() {
			_ = g.session.WaitReady(wait, hopeful...) // the list names what is missing
			close(ready)
		}()
		select {
		case <-moved:
		case <-ready:
			cancel()
		}
		stop()
		<-ready
	}
}

// hopeful returns the servers without known tools that are starting, and have not
// failed so far.
func (g *Gateway) hopeful() []events.ServerID {
	pending := g.session.Pending()
	for _, n := range g.session.Status().Servers {
		if n.Failure != nil {
			pending = slices.DeleteFunc(pending, func(id events.ServerID) bool { return id == n.ID })
		}
	}
	return pending
}

// enter makes a client one that hears of changes; false after the end.
func (g *Gateway) enter(c *client) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return false
	}
	g.clients[c] = struct{}{}
	return true
}

// leave ends a client and what it has in flight.
func (g *Gateway) leave(c *client) {
	g.mu.Lock()
	delete(g.clients, c)
	g.mu.Unlock()
	c.close()
}

func (g *Gateway) close() {
	g.mu.Lock()
	g.closed = true
	left := g.clients
	g.clients = nil
	g.mu.Unlock()
	for c := range left {
		c.close()
	}
	g.sessions.clear()
}
