package jetlog

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"io/fs"
	"log/slog"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/cockroachdb/errors"
	"github.com/nats-io/nats.go"
	"github.com/synadia-io/orbit.go/natscontext"
)

const (
	// reconnectWait, and as much again at random, lies between two attempts to
	// reach a server, so that a fleet does not come back all at once.
	reconnectWait = 250 * time.Millisecond
	// pingInterval and pingsOut find a dead connection within 6 s, well within a
	// lease.
	pingInterval = 2 * time.Second
	pingsOut     = 2
	// connectTimeout bounds the attempt to reach one server.
	connectTimeout = 5 * time.Second
)

// EnvURL is the environment variable that names the server, as for the tools of
// NATS.
const EnvURL = "NATS_URL"

// ConnectOptions of [Connect].
type ConnectOptions struct {
	// URL of the server, or several with commas between them. Default: the
	// variable NATS_URL, else the NATS context, else nats://127.0.0.1:4222.
	URL string
	// Context is the name of a NATS context, as made by `nats context add`, or the
	// absolute path of its file. It is not looked at where URL or the variable
	// names a server. Default: the selected one, if there is one.
	Context string
	// Creds is the path of a file with a user's JWT and key. Default: what URL or
	// context say.
	Creds string
	// CA, Cert and Key are paths of PEM files: the authorities that are trusted,
	// and our own certificate with its key, which go together. Default: the
	// system's authorities, and no certificate of our own.
	CA, Cert, Key string
	// TLSFirst does the TLS handshake before the server says anything. Default
	// false.
	TLSFirst bool
	// Name of the connection, as the server shows it. Default "toolfleet".
	Name string
	// Env looks up an environment variable. Default [os.LookupEnv].
	Env func(string) (string, bool)
	// Logger of lost and restored connections. Default none.
	Logger *slog.Logger
}

// Connect connects to NATS; nil options are the default. The connection is made
// again for ever when it breaks, after 250 to 500 ms each; what is published
// meanwhile fails at once and is never sent later. A dead connection is noticed
// within 6 s. The caller closes it.
//
// Connect does not try again: an attempt lasts at most 5 s a server, and not
// beyond the context's deadline. Errors name the address, without credentials,
// and what can be done.
func Connect(ctx context.Context, o *ConnectOptions) (*nats.Conn, error) {
	if o == nil {
		o = &ConnectOptions{}
	}
	if err := ctx.Err(); err != nil {
		return nil, errors.Wrap(err, "connect to NATS")
	}
	t := target{urls: o.url(), context: o.Context}
	if err := checkURLs(t.urls); err != nil {
		return nil, err
	}
	opts, err := o.options(ctx)
	if err != nil {
		return nil, err
	}
	// Last, so that it sees what the context says.
	opts = append(opts, func(n *nats.Options) error {
		t.resolved = n.Servers
		return nil
	})
	var nc *nats.Conn
	if len(t.urls) > 0 {
		nc, err = nats.Connect(strings.Join(t.urls, ","), opts...)
	} else {
		nc, _, err = natscontext.Connect(o.Context, opts...)
	}
	if err != nil {
		return nil, t.explain(err)
	}
	return nc, nil
}

// url returns the addresses that are given, or none.
func (o *ConnectOptions) url() []string {
	given := o.URL
	if given == "" {
		env := o.Env
		if env == nil {
			env = os.LookupEnv
		}
		given, _ = env(EnvURL)
	}
	var urls []string
	for u := range strings.SplitSeq(given, ",") {
		if u = strings.TrimSpace(u); u != "" {
			urls = append(urls, u)
		}
	}
	return urls
}

func (o *ConnectOptions) options(ctx context.Context) ([]nats.Option, error) {
	log := o.Logger
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	opts := clientOptions(o.Name, log)
	if deadline, ok := ctx.Deadline(); ok {
		opts = append(opts, nats.Timeout(min(connectTimeout, time.Until(deadline))))
	}
	if o.Creds != "" {
		if err := checkCreds(o.Creds); err != nil {
			return nil, err
		}
		opts = append(opts, nats.UserCredentials(o.Creds))
	}
	for _, name := range []string{o.CA, o.Cert, o.Key} {
		if name == "" {
			continue
		}
		if _, err := os.Stat(name); err != nil {
			return nil, errors.Wrap(err, "TLS for NATS")
		}
	}
	if o.CA != "" {
		opts = append(opts, nats.RootCAs(o.CA))
	}
	switch {
	case o.Cert != "" && o.Key != "":
		opts = append(opts, nats.ClientCert(o.Cert, o.Key))
	case o.Cert != "" || o.Key != "":
		return nil, errors.New("TLS for NATS: a certificate and its key are needed together")
	}
	if o.TLSFirst {
		opts = append(opts, nats.TLSHandshakeFirst())
	}
	return opts, nil
}

// checkCreds finds a credentials file that cannot be one. The client would only
// tell when it has connected.
func checkCreds(name string) error {
	data, err := os.ReadFile(name)
	if err != nil {
		return errors.Wrap(err, "credentials for NATS")
	}
	if !bytes.Contains(data, []byte("BEGIN NATS USER JWT")) || !bytes.Contains(data, []byte("BEGIN USER NKEY SEED")) {
		return errors.Newf("credentials for NATS, %s: the file does not hold a user's JWT and seed, as `nsc generate creds` writes them", name)
	}
	return nil
}

// clientOptions are the settings of every connection.
func clientOptions(name string, log *slog.Logger) []nats.Option {
	if name == "" {
		name = "toolfleet"
	}
	return []nats.Option{
		nats.Name(name),
		nats.Timeout(connectTimeout),
		nats.MaxReconnects(-1),
		nats.ReconnectWait(reconnectWait),
		nats.ReconnectJitter(reconnectWait, reconnectWait),
		// Otherwise what timed out during an outage would still be sent after it.
		nats.ReconnectBufSize(-1),
		nats.PingInterval(pingInterval),
		nats.MaxPingsOutstanding(pingsOut),
		nats.DisconnectErrHandler(func(nc *nats.Conn, err error) {
			if !nc.IsClosed() {
				log.Warn("disconnected from NATS", "err", err)
			}
		}),
		nats.ReconnectHandler(func(*nats.Conn) { log.Info("connected to NATS again") }),
		nats.ErrorHandler(func(_ *nats.Conn, s *nats.Subscription, err error) {
			if s != nil {
				err = errors.Wrapf(err, "subscription to %s", s.Subject)
			}
			log.Warn("error reported by NATS", "err", err)
		}),
	}
}

// target is what was meant to be connected to.
type target struct {
	urls     []string // as given, or none
	context  string
	resolved []string // as the client had them
}

func (t *target) String() string {
	urls := t.urls
	if len(urls) == 0 {
		urls = t.resolved
	}
	words := make([]string, 0, len(urls)+1)
	for _, u := range urls {
		words = append(words, redact(u))
	}
	switch {
	case len(t.urls) == 0 && t.context != "":
		words = append(words, "NATS context "+t.context)
	case len(words) == 0:
		words = append(words, "the selected NATS context")
	}
	return strings.Join(words, ", ")
}

// explain says what was attempted and what may help.
func (t *target) explain(err error) error {
	var (
		unknown x509.UnknownAuthorityError
		host    x509.HostnameError
		invalid x509.CertificateInvalidError
		verify  *tls.CertificateVerificationError
		record  tls.RecordHeaderError
	)
	if bad := (*url.Error)(nil); errors.As(err, &bad) {
		// Its text repeats the URL, credentials included.
		return errors.Newf("connect to NATS: %s has an invalid URL", t)
	}
	wayOut := "see whether a NATS server listens there, or name another one with its URL, " + EnvURL + " or a NATS context"
	switch {
	case errors.Is(err, nats.ErrAuthorization), errors.Is(err, nats.ErrAuthExpired), errors.Is(err, nats.ErrAuthRevoked),
		errors.Is(err, nats.ErrAccountAuthExpired):
		wayOut = "check the credentials: the user in the URL, the credentials file or the NATS context"
	case errors.As(err, &unknown), errors.As(err, &host), errors.As(err, &invalid), errors.As(err, &verify), errors.As(err, &record),
		errors.Is(err, nats.ErrSecureConnRequired), errors.Is(err, nats.ErrSecureConnWanted):
		wayOut = "check the TLS settings: the certificate authority, our certificate and key, and whether the server wants TLS first"
	case len(t.urls) == 0 && (len(t.resolved) == 0 || errors.Is(err, fs.ErrNotExist)):
		wayOut = "check the NATS context (`nats context ls`) and the files it names"
	}
	return errors.Wrapf(err, "connect to NATS at %s: %s", t, wayOut)
}

// checkURLs finds addresses that cannot be parsed. The parser's own error would
// repeat them, with their credentials.
func checkURLs(urls []string) error {
	for i, u := range urls {
		if !strings.Contains(u, "://") {
			u = "nats://" + u
		}
		p, err := url.Parse(u)
		if err != nil || p.Host == "" {
			return errors.Newf("NATS URL %s is not valid: use nats://host:port; special characters of a user or password must be percent-encoded",
				redact(urls[i]))
		}
	}
	return nil
}

// redact takes user and password out of an address that need not be valid.
func redact(u string) string {
	scheme, rest, ok := strings.Cut(u, "://")
	if !ok {
		scheme, rest = "nats", u
	}
	if i := strings.LastIndexByte(rest, '@'); i >= 0 {
		rest = rest[i+1:]
	}
	return scheme + "://" + rest
}
