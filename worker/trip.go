package worker

import (
	"bytes"
	"context"
	"io"
	"mime"
	"net"
	"net/http"
	"net/http/httptrace"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/errors"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

const (
	dialLimit      = 10 * time.Second
	handshakeLimit = 10 * time.Second
	idleLimit      = 90 * time.Second
	// deleteLimit bounds the end of a session: a courtesy to the server.
	deleteLimit = 2 * time.Second
	// maxErrorBody is how much of an error's body is looked at.
	maxErrorBody = 64 << 10
	// maxRedirects on one host.
	maxRedirects = 5
)

// errBodyTooLarge is the error of a body, or of one event of a stream, above
// the limit for a frame.
var errBodyTooLarge = errors.Mark(errors.New("an answer exceeds the limit for a frame"), errFrameTooLarge)

// signOfLife is what the trip notices beside answers.
type signOfLife int

const (
	// streamOpened says that the server's own stream is open, or open again.
	streamOpened signOfLife = iota + 1
	// dialFailed says that no connection to the server could be made.
	dialFailed
	// heardFrom says that something came from the server itself, not from a
	// gateway that does not reach it.
	heardFrom
)

// dialFunc connects to a host.
type dialFunc = func(ctx context.Context, network, address string) (net.Conn, error)

// trip is the round trip of every request of one connection, the last one
// included: headers, limits, and a record of what came back.
//
// No limit is set on the time to an answer's header: a call may be silent until
// it is done, and has its own deadline.
type trip struct {
	base    *http.Transport
	headers map[string]string
	sign    func(signOfLife, error)
	// answered says that the server was reached once.
	answered atomic.Bool
	stop     chan struct{}
}

func newTrip(dial dialFunc, headers map[string]string, sign func(signOfLife, error)) *trip {
	return &trip{
		base: &http.Transport{
			DialContext:         dial,
			TLSHandshakeTimeout: handshakeLimit,
			IdleConnTimeout:     idleLimit,
			ForceAttemptHTTP2:   true,
		},
		headers: headers, sign: sign, stop: make(chan struct{}),
	}
}

// sameHost lets a server redirect to itself. Anyone else would be given the
// headers too.
func sameHost(r *http.Request, via []*http.Request) error {
	if len(via) > maxRedirects || r.URL.Host != via[0].URL.Host || r.URL.Scheme != via[0].URL.Scheme {
		return http.ErrUseLastResponse
	}
	return nil
}

// close ends whatever is under way.
func (t *trip) close() {
	close(t.stop)
	t.base.CloseIdleConnections()
}

// RoundTrip implements [http.RoundTripper].
func (t *trip) RoundTrip(r *http.Request) (*http.Response, error) {
	rec := receiptOf(r)
	ctx, cancel := t.bound(r)
	traced := httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn: func(httptrace.GotConnInfo) { rec.written.Store(true) },
	})
	r = r.Clone(traced)
	for name, value := range t.headers {
		r.Header.Set(name, value)
	}
	traceHeader(ctx, r.Header)
	resp, err := t.base.RoundTrip(r)
	if err != nil {
		if ctx.Err() == nil && t.answered.Load() && undialled(err) {
			t.sign(dialFailed, err)
		}
		cancel()
		return nil, err
	}
	t.answered.Store(true)
	rec.note(resp)
	b := &body{ReadCloser: resp.Body, cancel: cancel, limit: maxFrame, left: maxFrame, stream: isStream(resp)}
	resp.Body = b
	if resp.StatusCode < http.StatusInternalServerError {
		b.heard = func() { t.sign(heardFrom, nil) }
		b.heard()
	}
	switch {
	case r.Method == http.MethodGet:
		return t.listening(resp), nil
	case resp.StatusCode >= http.StatusBadRequest && keepError(rec, resp):
		t.sign(heardFrom, nil)
	}
	return resp, nil
}

// undialled says whether there was no connection at all.
func undialled(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}

// bound ends a request with the trip, and the end of a session soon.
func (t *trip) bound(r *http.Request) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(r.Context())
	if r.Method == http.MethodDelete {
		cancel()
		ctx, cancel = context.WithTimeout(r.Context(), deleteLimit)
	}
	go func() {
		select {
		case <-t.stop:
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, cancel
}

// listening looks at the answer to a GET, with which the MCP library asks for
// the server's own stream, again and again. A server that has none may say so in
// many ways; the library takes one of them for an answer.
func (t *trip) listening(resp *http.Response) *http.Response {
	switch {
	case resp.StatusCode == http.StatusOK && isStream(resp):
		t.sign(streamOpened, nil)
		return resp
	case resp.StatusCode >= http.StatusInternalServerError && resp.StatusCode != http.StatusNotImplemented,
		resp.StatusCode == http.StatusTooManyRequests, resp.StatusCode == http.StatusNotFound:
		return resp // it may come back; not found is the library's to judge
	default:
		_ = resp.Body.Close()
		return &http.Response{
			StatusCode: http.StatusMethodNotAllowed, Status: "405 Method Not Allowed",
			Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
			Header: http.Header{}, Body: http.NoBody, Request: resp.Request,
		}
	}
}

func isStream(resp *http.Response) bool {
	media, _, err := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	return err == nil && media == "text/event-stream"
}

// keepError records the JSON-RPC error in an HTTP error's body, which the MCP
// library drops, and leaves the body to be read again. It returns whether there
// is one.
func keepError(rec *receipt, resp *http.Response) bool {
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxErrorBody))
	_ = resp.Body.Close()
	resp.Body = io.NopCloser(bytes.NewReader(data))
	var f frame
	if err == nil && json.Unmarshal(data, &f, jsontext.AllowDuplicateNames(true)) == nil && f.Error != nil {
		rec.fail(f.failure())
		return true
	}
	return false
}

// body bounds an answer: a document as a whole, a stream event by event.
type body struct {
	io.ReadCloser
	cancel context.CancelFunc
	stream bool
	limit  int
	left   int
	// blank says that the last line feed had nothing before it so far.
	blank bool
	// heard, if set, is called when something was read.
	heard func()
}

func (b *body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if n > 0 && b.heard != nil {
		b.heard()
	}
	for _, c := range p[:n] {
		if b.stream {
			switch c {
			case '\n':
				if b.blank {
					b.left = b.limit
				}
				b.blank = true
			case '\r':
			default:
				b.blank = false
			}
		}
		if b.left--; b.left < 0 {
			return 0, errBodyTooLarge
		}
	}
	return n, err
}

func (b *body) Close() error {
	b.cancel()
	return b.ReadCloser.Close()
}
