package parts

import (
	"context"
	"crypto/rand"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/cockroachdb/errors"

	"github.com/toolfleet/toolfleet/cmd/internal/supervise"
	"github.com/toolfleet/toolfleet/events/jetlog"
)

// EmbeddedOptions of [Embedded].
type EmbeddedOptions struct {
	// Listen is host:port. Default: a free port that only this host reaches.
	Listen string
	// Durability of what is acknowledged.
	Durability jetlog.Durability
}

// Embedded starts a NATS server with its store in the host's folder. Its clients
// must present a token, so that other users of the host cannot run programs as
// this one; url contains it.
func Embedded(ctx context.Context, h *Host, o *EmbeddedOptions) (e *jetlog.Embedded, url string, err error) {
	if err := os.MkdirAll(h.Data, 0o700); err != nil {
		return nil, "", errors.Wrap(err, "create the data folder")
	}
	token, err := loadToken(filepath.Join(h.Data, "nats-token"))
	if err != nil {
		return nil, "", err
	}
	e, err = jetlog.StartEmbedded(ctx, &jetlog.EmbeddedOptions{
		Dir: filepath.Join(h.Data, "nats"), Addr: o.Listen, Token: token, Durability: o.Durability, Logger: h.Logger,
	})
	if err != nil {
		return nil, "", err
	}
	return e, strings.Replace(e.URL(), "://", "://"+token+"@", 1), nil
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
func Running(e *jetlog.Embedded) supervise.Part {
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
