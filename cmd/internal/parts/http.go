package parts

import (
	"cmp"
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/cockroachdb/errors"
	"github.com/spf13/pflag"

	"github.com/toolfleet/toolfleet/cmd/internal/attach"
	"github.com/toolfleet/toolfleet/cmd/internal/exit"
	"github.com/toolfleet/toolfleet/cmd/internal/supervise"
	"github.com/toolfleet/toolfleet/cmd/internal/tokens"
	"github.com/toolfleet/toolfleet/guard"
)

const (
	// DefaultHTTP is where HTTP is served unless something else is said.
	DefaultHTTP = "127.0.0.1:8377"
	// NoHTTP is said instead of an address where there is to be none.
	NoHTTP = "off"
)

// HTTPOptions say how a process serves HTTP.
type HTTPOptions struct {
	// Addr is host:port, or "off".
	Addr string
	// Hosts and Origins are those of [guard.Options].
	Hosts, Origins []string
	// CertFile and KeyFile have the certificate of TLS and its key. Default no TLS.
	CertFile, KeyFile string
	// AllowDeclare lets who may change also declare servers.
	AllowDeclare bool
}

// Register adds the flags to a command's; that for declaring, too, if that is
// served.
func (o *HTTPOptions) Register(flags *pflag.FlagSet, declares bool) {
	flags.StringVar(&o.Addr, "http", cmp.Or(os.Getenv("TOOLFLEET_HTTP"), DefaultHTTP),
		"`host:port` for HTTP, or off; port 0 is a free one (environment: TOOLFLEET_HTTP)")
	flags.StringSliceVar(&o.Hosts, "http-host", nil, "`name` that HTTP requests may be addressed to, besides this host's loopback ones")
	flags.StringSliceVar(&o.Origins, "http-origin", nil, "`origin` of pages that may send HTTP requests, such as https://tools.example.org")
	flags.StringVar(&o.CertFile, "http-cert", "", "`file` with the certificate of TLS, in PEM")
	flags.StringVar(&o.KeyFile, "http-key", "", "`file` with its key")
	if declares {
		flags.BoolVar(&o.AllowDeclare, "http-allow-declare", false,
			"let tokens that may change also declare servers over HTTP, and so have workers run commands")
	}
}

// HTTP is an address on which a process serves HTTP.
type HTTP struct {
	// URL is how this host reaches it, and TokenFile holds who may.
	URL       string
	TokenFile string

	o        *HTTPOptions
	guard    *guard.Guard
	listener net.Listener
	// handler is what is served now.
	handler atomic.Pointer[http.Handler]
}

// ListenHTTP takes the address, so that one that is taken is told of at once, and
// makes the tokens. It returns nil if there is to be no HTTP.
func ListenHTTP(ctx context.Context, o *HTTPOptions, h *Host) (*HTTP, error) {
	if o.Addr == NoHTTP {
		return nil, nil //nolint:nilnil // nothing was asked for
	}
	host, _, err := net.SplitHostPort(o.Addr)
	if err != nil {
		return nil, exit.Usagef("--http %q: use host:port, such as %s, or %s", o.Addr, DefaultHTTP, NoHTTP)
	}
	if err := o.checkTLS(); err != nil {
		return nil, err
	}
	file, err := tokens.Open(filepath.Join(h.Data, tokens.Name), h.Logger)
	if err != nil {
		return nil, err
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", o.Addr)
	if err != nil {
		return nil, taken(o.Addr, err)
	}
	ip := net.ParseIP(host)
	everywhere := host == "" || ip != nil && ip.IsUnspecified()
	hosts := o.Hosts
	if !everywhere {
		hosts = append(hosts, host) // where it was told to listen
	}
	url := o.url(host, everywhere, listener)
	if !guard.IsLoopback(host) && o.CertFile == "" {
		h.Logger.Warn("HTTP without TLS where others reach it: tokens can be read on the way; give --http-cert and --http-key, or listen on 127.0.0.1",
			"url", url)
	}
	return &HTTP{
		URL: url, TokenFile: file.Path(), o: o, listener: listener,
		guard: guard.New(&guard.Options{Holder: file.Holder, Hosts: hosts, Origins: o.Origins}),
	}, nil
}

func (o *HTTPOptions) checkTLS() error {
	if (o.CertFile == "") != (o.KeyFile == "") {
		return exit.Usagef("--http-cert and --http-key belong together")
	}
	if o.CertFile == "" {
		return nil
	}
	_, err := tls.LoadX509KeyPair(o.CertFile, o.KeyFile)
	return errors.Wrap(err, "--http-cert")
}

// url is how this host reaches a listener.
func (o *HTTPOptions) url(host string, everywhere bool, l net.Listener) string {
	scheme := "http://"
	if o.CertFile != "" {
		scheme = "https://"
	}
	if everywhere {
		host = "127.0.0.1"
	}
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		return scheme + l.Addr().String() // unreachable unless TCP has other addresses
	}
	return scheme + net.JoinHostPort(host, port)
}

// taken says who has an address, as far as that is known, and what to do.
func taken(addr string, err error) error {
	if !errors.Is(err, syscall.EADDRINUSE) {
		return errors.Wrapf(err, "serve HTTP on %s", addr)
	}
	err = errors.Newf("serve HTTP on %s: another program listens there", addr)
	if fleet, r, ok := attach.WhoServes(addr); ok {
		err = errors.Newf("serve HTTP on %s: fleet %s listens there, as process %d", addr, fleet, r.PID)
	}
	return errors.WithHintf(err, "give another address, or none: --http 127.0.0.1:0, --http %s", NoHTTP)
}

// Close gives the address back, if nothing is served on it.
func (s *HTTP) Close() {
	if s != nil {
		_ = s.listener.Close() // it may be closed already
	}
}

const (
	// Limits on clients; those on messages and streams are the handlers'.
	headersWithin  = 5 * time.Second
	idleWithin     = time.Minute
	maxHeaderBytes = 16 << 10
	// goWithin is how long requests may take to end when the process does.
	goWithin = time.Second
)

// serve serves until the context ends. Fill makes the handler and keeps what it
// stands on until its context ends.
func (s *HTTP) serve(fill func(ctx context.Context) error) supervise.Part {
	return supervise.Part{Name: "HTTP server", StopWithin: goWithin + time.Second, Run: func(ctx context.Context) error {
		ctx, stop := context.WithCancel(ctx)
		defer stop()
		server := &http.Server{
			Handler: s, ReadHeaderTimeout: headersWithin, IdleTimeout: idleWithin, MaxHeaderBytes: maxHeaderBytes,
			BaseContext: func(net.Listener) context.Context { return ctx }, // which ends streams
		}
		served := make(chan error, 1)
		go func() {
			defer stop()
			if s.o.CertFile != "" {
				served <- server.ServeTLS(s.listener, s.o.CertFile, s.o.KeyFile)
				return
			}
			served <- server.Serve(s.listener)
		}()
		err := fill(ctx)
		stop()
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), goWithin)
		defer cancel()
		if server.Shutdown(end) != nil {
			_ = server.Close() // whoever still waits for an answer gets none
		}
		if e := <-served; !errors.Is(e, http.ErrServerClosed) {
			err = errors.CombineErrors(err, e)
		}
		return err
	}}
}

func (s *HTTP) set(h http.Handler) { s.handler.Store(&h) }

// bodyWithin is how long the body of a request may take that nobody reads: one that
// is refused is answered when its body has come.
const bodyWithin = 10 * time.Second

// ServeHTTP serves a request as far as the process is.
func (s *HTTP) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.ContentLength != 0 { // without a body the limit would be one for the answer
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(bodyWithin)) // where the connection has one
	}
	(*s.handler.Load()).ServeHTTP(w, r)
}
