package gateway

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/errors"
)

// pipeListener is a listener inside a bubble.
type pipeListener struct {
	conns  chan net.Conn
	closed chan struct{}
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Close() error {
	close(l.closed)
	return nil
}

func (l *pipeListener) Addr() net.Addr { return &net.IPAddr{} }

// web is a gateway over HTTP.
type web struct {
	t      *testing.T
	client *http.Client
	// header is sent with every request.
	header http.Header
}

const token = "a-token"

// overHTTP runs a test with a gateway over HTTP that has one token of "me", unless
// the options have others.
func overHTTP(t *testing.T, f *fleet, o *Options, test func(t *testing.T, g *Gateway, w *web)) {
	t.Helper()
	if o == nil {
		o = &Options{}
	}
	if o.Tokens == nil {
		o.Tokens = map[string]string{"me": token}
	}
	bubble(t, f, o, func(t *testing.T, g *Gateway) {
		l := &pipeListener{conns: make(chan net.Conn), closed: make(chan struct{})}
		server := &http.Server{Handler: g}
		served := make(chan error, 1)
		go func() { served <- server.Serve(l) }()
		transport := &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
			near, far := net.Pipe()
			l.conns <- far
			return near, nil
		}}
		test(t, g, &web{t: t, client: &http.Client{Transport: transport}, header: http.Header{
			"Authorization": {"Bearer " + token}, "Content-Type": {"application/json"},
			"Accept": {"application/json, text/event-stream"},
		}})
		transport.CloseIdleConnections()
		_ = server.Close() // of pipes
		<-served
		time.Sleep(time.Second) // the server lingers on connections that it closes
	})
}

// with returns a web that sends another header as well; "" leaves it out.
func (w *web) with(name, value string) *web {
	n := &web{t: w.t, client: w.client, header: w.header.Clone()}
	n.header.Set(name, value)
	if value == "" {
		n.header.Del(name)
	}
	return n
}

func (w *web) do(ctx context.Context, method, body string) *http.Response {
	w.t.Helper()
	r, err := http.NewRequestWithContext(ctx, method, "http://localhost:8080/mcp", strings.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	r.Header = w.header.Clone()
	if host := r.Header.Get("Host"); host != "" {
		r.Host = host
	}
	resp, err := w.client.Do(r)
	if err != nil {
		w.t.Fatal(err)
	}
	return resp
}

// gone sends a message, and goes away with the context.
func (w *web) gone(ctx context.Context, body string) {
	w.t.Helper()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://localhost/mcp", strings.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	r.Header = w.header.Clone()
	if _, err := w.client.Do(r); !errors.Is(err, context.Canceled) {
		w.t.Errorf("the request ended with %v", err)
	}
}

// post sends a message and returns the status and the body.
func (w *web) post(message string) (int, string) {
	w.t.Helper()
	return w.read(w.do(w.t.Context(), http.MethodPost, message))
}

func (w *web) read(r *http.Response) (int, string) {
	w.t.Helper()
	defer r.Body.Close()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	return r.StatusCode, string(body)
}

func (w *web) status(method, body string) int {
	w.t.Helper()
	status, _ := w.read(w.do(w.t.Context(), method, body))
	return status
}

// greet begins a session, and returns a web that is in it.
func (w *web) greet() *web {
	w.t.Helper()
	r := w.do(w.t.Context(), http.MethodPost, request(0, "initialize", hello))
	w.read(r)
	id := r.Header.Get(sessionHeader)
	if r.StatusCode != http.StatusOK || id == "" {
		w.t.Fatalf("initialize: %s, session %q", r.Status, id)
	}
	n := w.with(sessionHeader, id).with(revisionHeader, "2025-06-18")
	if status, body := n.post(initialized); status != http.StatusAccepted {
		w.t.Fatalf("initialized: %d %s", status, body)
	}
	return n
}

// asks are the headers of a request in the revision without sessions, and its
// parameters.
func (w *web) asks(method, name, params string) (*web, string) {
	n := w.with(revisionHeader, modern).with(methodHeader, method).with(nameHeader, name)
	return n, request(1, method, stray(params))
}

// ask sends a request in the revision without sessions.
func (w *web) ask(method, name, params string) (int, string) {
	w.t.Helper()
	n, body := w.asks(method, name, params)
	return n.post(body)
}

// flow is a stream of events.
type flow struct {
	t     *testing.T
	lines *bufio.Scanner
	stop  context.CancelFunc
	resp  *http.Response
}

func (w *web) stream(method, body string) *flow {
	w.t.Helper()
	ctx, stop := context.WithCancel(w.t.Context())
	r := w.do(ctx, method, body)
	if kind := r.Header.Get("Content-Type"); r.StatusCode != http.StatusOK || kind != "text/event-stream" {
		w.t.Fatalf("%s %s", r.Status, kind)
	}
	return &flow{t: w.t, lines: bufio.NewScanner(r.Body), stop: stop, resp: r}
}

// next returns the next line that is not empty; "" at the end.
func (f *flow) next() string {
	for f.lines.Scan() {
		if line := f.lines.Text(); line != "" {
			return line
		}
	}
	return ""
}

func (f *flow) close() {
	f.stop()
	f.resp.Body.Close()
}

// within fails a test in which something took another time than it should.
func within(t *testing.T, begun time.Time, want time.Duration) {
	t.Helper()
	if d := time.Since(begun); d != want {
		t.Errorf("it took %v, want %v", d, want)
	}
}
