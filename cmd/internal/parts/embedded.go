package parts

import (
	"context"
	"crypto/rand"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/cockroachdb/errors"
	"golang.org/x/sys/unix"

	"github.com/toolfleet/toolfleet/cmd/internal/supervise"
	"github.com/toolfleet/toolfleet/events/jetlog"
)

// EmbeddedOptions of [Embedded].
type EmbeddedOptions struct {
	// Listen is host:port. Default: a port that only this host reaches, the one of
	// the last start if it is free, so that clients find it again.
	Listen string
	// Durability of what is acknowledged.
	Durability jetlog.Durability
}

// Server is an embedded NATS server and how its clients reach it.
type Server struct {
	*jetlog.Embedded
	// Addresses are its URLs without the token, the one for this host first.
	Addresses []string
	// URL is the first of them with the token.
	URL string
	// TokenFile holds the token.
	TokenFile string
}

// Embedded starts a NATS server with its store in the host's folder. Its clients
// must present a token, so that other users of the host cannot run programs as
// this one.
func Embedded(ctx context.Context, h *Host, o *EmbeddedOptions) (*Server, error) {
	if err := os.MkdirAll(h.Data, 0o700); err != nil {
		return nil, errors.Wrap(err, "create the data folder")
	}
	file := filepath.Join(h.Data, "nats-token")
	token, err := loadToken(file)
	if err != nil {
		return nil, err
	}
	e, err := startEmbedded(ctx, h, o, token)
	if err != nil {
		return nil, err
	}
	name, _ := os.Hostname() // without one, only this host is told how to reach it
	s := &Server{Embedded: e, Addresses: addresses(o.Listen, e.URL(), name), TokenFile: file}
	s.URL = strings.Replace(s.Addresses[0], "://", "://"+token+"@", 1)
	return s, nil
}

// startEmbedded starts the server where it is to listen.
func startEmbedded(ctx context.Context, h *Host, o *EmbeddedOptions, token string) (*jetlog.Embedded, error) {
	start := func(addr string) (*jetlog.Embedded, error) {
		return jetlog.StartEmbedded(ctx, &jetlog.EmbeddedOptions{
			Dir: storeOf(h.Data), Addr: addr, Token: token, Durability: o.Durability, Logger: h.Logger,
		})
	}
	if o.Listen != "" {
		return start(o.Listen)
	}
	file := filepath.Join(h.Data, "nats-address")
	if last, err := os.ReadFile(file); err == nil {
		if e, err := start(strings.TrimSpace(string(last))); !errors.Is(err, unix.EADDRINUSE) {
			return e, err
		}
	}
	e, err := start("")
	if err != nil {
		return nil, err
	}
	address := strings.TrimPrefix(e.URL(), "nats://")
	if err := os.WriteFile(file, []byte(address+"\n"), 0o600); err != nil {
		h.Logger.Warn("the next start will listen elsewhere", "err", err)
	}
	return e, nil
}

// storeOf returns the folder of an embedded server's store.
func storeOf(data string) string { return filepath.Join(data, "nats") }

// HasStore says whether a host's folder has the store of an earlier start.
func HasStore(data string) bool {
	_, err := os.Stat(storeOf(data))
	return err == nil
}

// addresses returns the URLs of a server that was to listen there and listens at
// url: by the name that was asked for, and one that listens everywhere by
// loopback and the host's name.
func addresses(listen, url, hostname string) []string {
	host, _, err := net.SplitHostPort(listen)
	_, port, err2 := net.SplitHostPort(strings.TrimPrefix(url, "nats://"))
	if err != nil || err2 != nil {
		return []string{url}
	}
	at := func(host string) string { return "nats://" + net.JoinHostPort(host, port) }
	if ip := net.ParseIP(host); host != "" && !ip.IsUnspecified() {
		return []string{at(host)}
	}
	if hostname == "" {
		return []string{at("127.0.0.1")}
	}
	return []string{at("127.0.0.1"), at(hostname)}
}

// loadToken returns the token in a file, made at first use.
func loadToken(path string) (string, error) {
	data, err := os.ReadFile(path)
	if err == nil && len(data) > 0 {
		return strings.TrimSpace(string(data)), nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", errors.Wrap(err, "read the token of embedded NATS")
	}
	token := rand.Text()
	return token, errors.Wrap(os.WriteFile(path, []byte(token+"\n"), 0o600), "write the token of embedded NATS")
}

// Running keeps an embedded server until the context ends.
func Running(e *Server) supervise.Part {
	const limit = 2 * time.Second
	return supervise.Part{Name: "NATS server", StopWithin: limit + time.Second, Run: func(ctx context.Context) error {
		<-ctx.Done()
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit)
		defer cancel()
		return e.Shutdown(ctx)
	}}
}

// Connected keeps a log's connection until the context ends.
func Connected(log *jetlog.Log) supervise.Part {
	return supervise.Part{Name: "connection to NATS", Run: func(ctx context.Context) error {
		<-ctx.Done()
		log.Conn().Close()
		return nil
	}}
}
