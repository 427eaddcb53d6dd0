package jetlog

import (
	"context"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/cockroachdb/errors"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"golang.org/x/sys/unix"
)

const (
	// DefaultListen is where an embedded server listens by default: on a free
	// port that only this host reaches.
	DefaultListen = "127.0.0.1:0"
	// syncInterval is that of [Interval]; NATS's own is two minutes.
	syncInterval = 200 * time.Millisecond
	// memoryLimit bounds what JetStream keeps in memory: sessions.
	memoryLimit = 256 << 20
	// minStore is the least room a store can be started in.
	minStore = 64 << 20
	// embeddedLock keeps a second server away from a store: two would ruin it.
	embeddedLock = "nats.lock"
)

// EmbeddedOptions of [StartEmbedded].
type EmbeddedOptions struct {
	// Dir is the store. It is created, for its owner only, where it is absent.
	// Required.
	Dir string
	// Addr is where the server listens, as host:port. Default [DefaultListen].
	// Port 0 is a free port, which [Embedded.URL] then names. A host that is not
	// a loopback address or "localhost", the empty one included, needs a Token.
	Addr string
	// Token that clients must present, as in nats://token@host:port: the token
	// itself, not the path of a file. It is kept in memory only; where it is
	// stored is the caller's business. [Embedded.Connect] presents it by itself.
	// Default none.
	Token string
	// InProcess makes the server listen nowhere, whatever Addr is: only
	// [Embedded.Connect] reaches it. Default false.
	InProcess bool
	// Durability of what is acknowledged. Default [Interval].
	Durability Durability
	// MaxStore limits what the store may grow to, in bytes. Default, and at most,
	// what it holds and three quarters of the disk's free space: at a limit
	// JetStream answers cleanly, on a full disk it falls silent.
	MaxStore int64
	// Logger of the server's warnings and errors; its notices are at debug level.
	// Default none.
	Logger *slog.Logger
}

// Embedded is a NATS server with JetStream in this process.
type Embedded struct {
	ns    *server.Server
	log   *slog.Logger
	token string
	store int64
	lock  *os.File

	stop    sync.Once
	stopped chan struct{}
}

// StartEmbedded starts a server and returns when it takes connections. The
// context bounds the start, not the server's life: see [Embedded.Shutdown].
//
// The error for a taken port names it, and that for a store in use, by this
// process or another, is marked [ErrFolderLocked]. Options that cannot be used
// and a disk with less than 64 MiB to use are errors too.
func StartEmbedded(ctx context.Context, o *EmbeddedOptions) (*Embedded, error) {
	if o == nil || o.Dir == "" {
		return nil, errors.New("start embedded NATS: no folder for its store is given")
	}
	config, err := o.config()
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return nil, errors.Wrap(err, "start embedded NATS")
	}
	if err := os.MkdirAll(o.Dir, 0o700); err != nil {
		return nil, errors.Wrapf(err, "create the store of embedded NATS, %s", o.Dir)
	}
	lock, err := lockFile(filepath.Join(o.Dir, embeddedLock))
	if err != nil {
		return nil, errors.Wrapf(err, "store of embedded NATS, %s", o.Dir)
	}
	e := &Embedded{log: o.Logger, token: o.Token, lock: lock, stopped: make(chan struct{})}
	if e.log == nil {
		e.log = slog.New(slog.DiscardHandler)
	}
	if err := e.start(ctx, config, o.MaxStore); err != nil {
		lock.Close()
		return nil, err
	}
	return e, nil
}

// config translates the options.
func (o *EmbeddedOptions) config() (*server.Options, error) {
	c := &server.Options{
		ServerName:             "toolfleet",
		DontListen:             o.InProcess,
		Authorization:          o.Token,
		NoSigs:                 true,
		NoLog:                  true, // it would log by itself; see natsLogger
		JetStream:              true,
		DisableJetStreamBanner: true,
		JetStreamMaxMemory:     memoryLimit,
		StoreDir:               o.Dir,
		SyncInterval:           syncInterval,
		SyncAlways:             o.Durability == Always,
	}
	if o.InProcess {
		return c, nil
	}
	addr := o.Addr
	if addr == "" {
		addr = DefaultListen
	}
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, errors.Newf("--listen %q: use host:port, such as 127.0.0.1:4222", addr)
	}
	c.Host = host
	if c.Port, err = strconv.Atoi(port); err != nil || c.Port < 0 || c.Port > 65535 {
		return nil, errors.Newf("--listen %q: the port is no number from 0 to 65535", addr)
	}
	if c.Port == 0 {
		c.Port = server.RANDOM_PORT
	}
	if o.Token == "" && !isLoopback(host) {
		return nil, errors.Newf("--listen %q: whoever reaches this address could run programs on the fleet's hosts: give a token, or use 127.0.0.1", addr)
	}
	return c, nil
}

func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

func (e *Embedded) start(ctx context.Context, config *server.Options, limit int64) (err error) {
	if e.store, err = storeLimit(config.StoreDir, limit); err != nil {
		return errors.Wrap(err, "start embedded NATS")
	}
	config.JetStreamMaxStore = e.store
	if e.ns, err = server.NewServer(config); err != nil {
		return errors.Wrap(err, "start embedded NATS")
	}
	logger := &natsLogger{log: e.log, fatal: make(chan error, 1)}
	e.ns.SetLoggerV2(logger, false, false, false)

	started := make(chan struct{})
	go func() {
		defer close(started)
		e.ns.Start()
	}()
	select {
	case <-started:
	case <-ctx.Done():
		err = errors.Wrapf(ctx.Err(), "start embedded NATS on %s", config.StoreDir)
	}
	select {
	case fatal := <-logger.fatal:
		err = explainStart(fatal, net.JoinHostPort(config.Host, strconv.Itoa(config.Port)))
	default:
	}
	if err != nil {
		<-started
		e.ns.Shutdown()
		e.ns.WaitForShutdown()
	}
	return err
}

func explainStart(err error, addr string) error {
	if errors.Is(err, unix.EADDRINUSE) {
		return errors.Wrapf(err, "start embedded NATS: something else listens on %s: stop it, or choose another address with --listen", addr)
	}
	return errors.Wrap(err, "start embedded NATS")
}

// URL returns where the server listens, as nats://host:port without the token,
// or "" if it listens nowhere.
func (e *Embedded) URL() string {
	addr := e.ns.Addr()
	if addr == nil {
		return ""
	}
	return "nats://" + addr.String()
}

// StoreLimit returns how many bytes the store may hold. Streams reserve their
// limits from it.
func (e *Embedded) StoreLimit() int64 { return e.store }

// Connect returns a connection within the process, over no socket, with the
// settings of [Connect]; name is what the server shows. The caller closes it.
func (e *Embedded) Connect(name string) (*nats.Conn, error) {
	opts := append(clientOptions(name, e.log), nats.InProcessServer(e.ns))
	if e.token != "" {
		opts = append(opts, nats.Token(e.token))
	}
	nc, err := nats.Connect("", opts...)
	return nc, errors.Wrapf(err, "connect %s to embedded NATS", name)
}

// Shutdown ends the server, and returns when everything is on disk and the store
// is free. If the context ends first, its error is returned and the rest goes on
// behind it. It may be called again.
func (e *Embedded) Shutdown(ctx context.Context) error {
	go e.stop.Do(func() {
		e.ns.Shutdown()
		e.ns.WaitForShutdown()
		e.lock.Close()
		close(e.stopped)
	})
	select {
	case <-e.stopped:
		return nil
	case <-ctx.Done():
		return errors.Wrap(ctx.Err(), "embedded NATS has not ended yet")
	}
}
