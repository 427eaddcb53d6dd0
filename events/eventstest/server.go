package eventstest

import (
	"net"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/errors"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
)

// Server is a JetStream server inside the test's process. Connections to it are
// pipes, so it works in a bubble; it can be stopped and started again on the
// same store.
type Server struct {
	t testing.TB
	c nodeConfig

	mu    sync.Mutex // guards what follows
	ns    *server.Server
	conns []*nats.Conn
}

// ServerOptions of [NewServer].
type ServerOptions struct {
	// Dir is the store. Default a new folder of the test, in memory where there is
	// room.
	Dir string
	// Listen makes the server listen on a free port of 127.0.0.1 as well; not in
	// a bubble. Default false.
	Listen bool
	// Sync writes to disk before each acknowledgement. Default false: the
	// machine is not going to lose power during the test.
	Sync bool
	// MaxPayload of a message, in bytes. Default NATS's own, 1 MiB.
	MaxPayload int32
	// MaxStore is how much the server stores, in bytes. Default 1 TiB.
	MaxStore int64
}

// NewServer starts a server for the test, and stops it after the test.
func NewServer(t testing.TB, o *ServerOptions) *Server {
	t.Helper()
	s := &Server{t: t, c: o.config(t)}
	s.forgetTimers()
	t.Cleanup(s.end)
	s.Start()
	return s
}

func (o *ServerOptions) config(t testing.TB) nodeConfig {
	if o == nil {
		o = &ServerOptions{}
	}
	c := nodeConfig{Name: "nats-0", Dir: o.Dir, Listen: o.Listen, Sync: o.Sync, MaxPayload: o.MaxPayload, MaxStore: o.MaxStore}
	if c.Dir == "" {
		c.Dir = newStore(t)
	}
	return c
}

// Start starts the server, on the store that it had before.
func (s *Server) Start() {
	s.t.Helper()
	if err := s.start(); err != nil {
		s.t.Fatalf("start a server on %s: %v", s.c.Dir, err)
	}
}

func (s *Server) start() (err error) {
	ns, err := startServer(&s.c)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ns = ns
	if s.c.Listen {
		s.c.Port, err = portOf(ns.ClientURL())
	}
	return err
}

// Stop stops the server in good order and waits until it is gone. Connections
// stay, and are made again after [Server.Start].
func (s *Server) Stop() {
	ns := s.NATS()
	ns.Shutdown()
	ns.WaitForShutdown()
}

// NATS returns the server that runs, or ran last.
func (s *Server) NATS() *server.Server {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ns
}

// Dir returns the store.
func (s *Server) Dir() string { return s.c.Dir }

// URL returns the address of a server that listens.
func (s *Server) URL() string { return s.NATS().ClientURL() }

// InProcessConn returns a pipe to the server, for [nats.InProcessServer].
func (s *Server) InProcessConn() (net.Conn, error) {
	ns := s.NATS()
	if !ns.Running() {
		return nil, errors.New("the server is stopped")
	}
	return ns.InProcessConn()
}

// Outage returns a new switch between clients and the server.
func (s *Server) Outage() *Outage {
	return NewOutage(func(string, string) (net.Conn, error) { return s.InProcessConn() })
}

// Connect returns a connection that lasts until the test ends and is made again
// whenever it breaks. Options may route it through an [Outage] or a socket.
func (s *Server) Connect(name string, opts ...nats.Option) *nats.Conn {
	s.t.Helper()
	nc, err := nats.Connect("", connectOptions(name, append([]nats.Option{nats.InProcessServer(s)}, opts...))...)
	if err != nil {
		s.t.Fatalf("connect %s: %v", name, err)
	}
	s.mu.Lock()
	s.conns = append(s.conns, nc)
	s.mu.Unlock()
	return nc
}

// reconnectWait is short, because outages of tests are.
const reconnectWait = 200 * time.Millisecond

func connectOptions(name string, opts []nats.Option) []nats.Option {
	return append([]nats.Option{
		nats.Name(name),
		nats.MaxReconnects(-1),
		nats.ReconnectWait(reconnectWait),
		nats.ReconnectJitter(0, 0),
		nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}), // the default writes to stderr
	}, opts...)
}

// end closes connections before it stops the server, so that none is left that
// tries to connect again.
func (s *Server) end() {
	s.mu.Lock()
	conns := s.conns
	s.mu.Unlock()
	for _, nc := range conns {
		nc.Close()
	}
	if ns := s.NATS(); ns != nil {
		ns.Shutdown()
		ns.WaitForShutdown()
	}
	s.forgetTimers()
}
