package gateway

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/guard"
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
	Tools() ([]session.Tool, events.Seq)
	Resources() []session.Resource
	Templates() []session.Template
	Prompts() []session.Prompt
	Status() session.Status
	Pending() []events.ServerID
	WaitReady(ctx context.Context, servers ...events.ServerID) error
	Changes() <-chan struct{}
	Call(ctx context.Context, name string, arguments []byte, o *session.CallOptions) (*session.Result, error)
	Read(ctx context.Context, server events.ServerID, uri string, o *session.CallOptions) (jsontext.Value, error)
	Prompt(ctx context.Context, name string, arguments []byte, o *session.CallOptions) (jsontext.Value, error)
	Complete(ctx context.Context, server events.ServerID, params []byte) (jsontext.Value, error)
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

	// Guard decides whose requests are served, in place of Tokens, Open, Hosts and
	// Origins: those of principals with the scope [guard.Call] and, all but calls
	// of tools, with [guard.Read]. Default one that those four make.
	Guard *guard.Guard
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
	// MaxSessions is how many sessions there may be: one more ends one that is idle.
	// Default [DefaultMaxSessions].
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
	guard    *guard.Guard
	sessions *sessions
	// about is what the gateway says it is.
	about jsontext.Value
	// life ends with the gateway.
	life context.Context //nolint:containedctx // requests without a session end with it
	end  context.CancelCauseFunc

	// offered is the offer that was made last.
	offered atomic.Pointer[offer]
	// number counts the lists of each kind that differ for clients.
	number [kinds]atomic.Uint64
	// stray is how many requests without a session are in flight that do not listen;
	// listening has a place for each that does, and bodies one for each byte of what
	// was sent.
	stray     atomic.Int64
	listening *guard.Shares
	bodies    *guard.Shares

	mu        sync.Mutex // guards what follows, and is taken before a client's
	clients   map[*client]struct{}
	listeners map[*listener]struct{}
	// moved is closed at the session's next signal.
	moved chan struct{}
	// awaited says since when servers have been waited for that are still missing.
	awaited map[events.ServerID]time.Time
	closed  bool
}

// New returns a gateway to a session, whose signals of changes it takes: nobody
// else may. [Gateway.Run] belongs to it.
func New(s Session, o *Options) *Gateway {
	g := &Gateway{
		session: s, options: o.withDefaults(), moved: make(chan struct{}),
		clients: make(map[*client]struct{}), listeners: make(map[*listener]struct{}),
		awaited: make(map[events.ServerID]time.Time),
	}
	g.life, g.end = context.WithCancelCause(context.Background())
	g.about = mustMarshal(implementation{"toolfleet", g.options.Version})
	g.guard = newGuard(&g.options)
	g.listening = guard.NewShares(maxListening, maxListeningEach)
	g.bodies = newBodies(g.options.MaxMessage)
	g.sessions = newSessions(g.options.MaxSessions, g.options.Idle)
	return g
}

// Run tells clients of changes until ctx ends. Then it ends what is left: calls
// are cancelled, streams and sessions end, and requests are refused. It returns
// nil.
func (g *Gateway) Run(ctx context.Context) error {
	before := g.look()
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
		now := g.look()
		for _, k := range now.changed(&before) {
			g.announce(k)
		}
		before = now
	}
}

// announce tells every client that its list is old.
func (g *Gateway) announce(k kind) {
	g.number[k].Add(1)
	g.mu.Lock()
	defer g.mu.Unlock()
	for c := range g.clients {
		c.announce(k)
	}
	for l := range g.listeners {
		if l.wants(k) {
			l.notify(k.changed(l.params))
		}
	}
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
	g.end(errEnded)
	for c := range left {
		c.close()
	}
	g.sessions.clear()
}
