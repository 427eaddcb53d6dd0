package gateway

import (
	"bytes"
	"context"
	"io"
	"mime"
	"net/http"
	"strings"
	"time"

	"github.com/cockroachdb/errors"
)

const (
	// bodyLimit is how long a client has for the body of a request.
	bodyLimit = 30 * time.Second
	// maxStray bounds the requests without a session that are in flight, of all
	// clients together.
	maxStray = 4096
	// largeBody is up to where a body has its memory before it has come.
	largeBody = 64 << 10
)

// ServeHTTP serves one request of the streamable HTTP transport, whatever its
// path.
func (g *Gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	who, ok := g.admit(w, r)
	if !ok {
		return
	}
	allowed := "POST, GET, DELETE"
	if r.Header.Get(revisionHeader) == modern {
		allowed = http.MethodPost
	}
	switch {
	case !strings.Contains(allowed, r.Method):
		w.Header().Set("Allow", allowed)
		http.Error(w, "use "+allowed, http.StatusMethodNotAllowed)
	case r.Method == http.MethodPost:
		g.post(w, r, who)
	case r.Method == http.MethodGet:
		g.withSession(w, r, who, g.listen)
	default:
		g.withSession(w, r, who, g.leaveSession)
	}
}

// post takes one message.
func (g *Gateway) post(w http.ResponseWriter, r *http.Request, who visitor) {
	body, ok := g.body(w, r)
	if !ok {
		return
	}
	m, bad := decode(body)
	switch {
	case bad != nil:
		refuse(w, http.StatusBadRequest, failure(m.ID, bad))
	case m.Method == "tools/call" && who.refused != nil:
		who.refused.Header(w.Header())
		refuse(w, who.refused.Status, failure(m.ID, &rpcError{Code: codeForbidden, Message: who.refused.Reason}))
	case m.isModern(r.Header.Get(revisionHeader)):
		g.serveStray(w, r, m)
	case m.Method == "initialize" && m.isRequest():
		g.beginSession(w, who, m)
	case m.Method == "notifications/cancelled" && r.Header.Get(sessionHeader) == "":
		w.WriteHeader(http.StatusAccepted) // whose it is cannot be told: it reaches nothing
	default:
		g.withSession(w, r, who, func(w http.ResponseWriter, r *http.Request, n *seat) {
			if m.isRequest() {
				n.client.serveHTTP(w, r, m)
				return
			}
			n.client.notified(m) // an answer is to nothing that was asked
			w.WriteHeader(http.StatusAccepted)
		})
	}
}

// body reads the body of a POST, or has answered it.
func (g *Gateway) body(w http.ResponseWriter, r *http.Request) ([]byte, bool) {
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		http.Error(w, "the content type is not application/json", http.StatusUnsupportedMediaType)
		return nil, false
	}
	// Where the connection can; the server takes it off at the end of the body.
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(bodyLimit))
	body, err := readAll(http.MaxBytesReader(w, r.Body, int64(g.options.MaxMessage)), r.ContentLength)
	var long *http.MaxBytesError
	switch {
	case errors.As(err, &long):
		http.Error(w, "the message is too long", http.StatusRequestEntityTooLarge)
		return nil, false
	case err != nil:
		http.Error(w, "the message did not arrive", http.StatusBadRequest)
		return nil, false
	}
	return body, true
}

// readAll reads to the end of what is about so long, or of unknown length.
func readAll(r io.Reader, length int64) ([]byte, error) {
	var b bytes.Buffer
	if length > 0 && length <= largeBody {
		b.Grow(int(length) + bytes.MinRead)
	}
	_, err := b.ReadFrom(r)
	return b.Bytes(), err
}

// serveStray serves a message that is in no session. A notification means nothing
// here: the end of its POST cancels a request.
func (g *Gateway) serveStray(w http.ResponseWriter, r *http.Request, m *message) {
	if !m.isRequest() {
		w.WriteHeader(http.StatusAccepted)
		return
	}
	if err := m.checkHeaders(r.Header); err != nil {
		refuse(w, max(err.status, http.StatusBadRequest), failure(m.ID, err))
		return
	}
	defer g.stray.Add(-1)
	if g.stray.Add(1) > maxStray {
		busy(w, "too many requests are in flight: wait for some to end")
		return
	}
	ctx, cancel := context.WithCancelCause(r.Context())
	defer cancel(nil)
	stop := context.AfterFunc(g.life, func() { cancel(errEnded) }) //nolint:contextcheck // it ends with the gateway, too
	defer stop()
	x := newExchange(w, r, cancel)
	a := &asker{gateway: g, message: m, header: r.Header, notify: x.notify}
	if m.Method == "subscriptions/listen" && !x.streams {
		http.Error(w, "the answer is text/event-stream, which the request does not accept", http.StatusNotAcceptable)
		return
	}
	x.end(a.answer(ctx))
}

// beginSession answers initialize and begins a session with it.
func (g *Gateway) beginSession(w http.ResponseWriter, who visitor, m *message) {
	c := newClient(g, nil)
	result, err := c.initialize(m.Params)
	if err != nil {
		refuse(w, http.StatusOK, failure(m.ID, err))
		return
	}
	n, ok := g.sessions.add(who.principal, c, func() { g.leave(c) })
	if !ok {
		busy(w, "too many sessions: end one, or wait")
		return
	}
	defer g.sessions.release(n)
	if !g.enter(c) {
		g.sessions.remove(n)
		http.Error(w, errEnded.Error(), http.StatusServiceUnavailable)
		return
	}
	w.Header().Set(sessionHeader, n.id)
	refuse(w, http.StatusOK, answer(m.ID, result, nil))
}

func busy(w http.ResponseWriter, words string) {
	w.Header().Set("Retry-After", "60")
	http.Error(w, words, http.StatusServiceUnavailable)
}

// withSession serves a request of an existing session, or answers that there is
// none.
func (g *Gateway) withSession(w http.ResponseWriter, r *http.Request, who visitor, serve func(http.ResponseWriter, *http.Request, *seat)) {
	if v := r.Header.Get(revisionHeader); isLater(v) {
		refuse(w, http.StatusBadRequest, failure(nil, unserved(v)))
		return
	}
	id := r.Header.Get(sessionHeader)
	if id == "" {
		http.Error(w, "the header "+sessionHeader+" is missing: begin with initialize", http.StatusBadRequest)
		return
	}
	n, ok := g.sessions.use(id, who.principal)
	if !ok {
		http.Error(w, "there is no such session: begin with initialize", http.StatusNotFound)
		return
	}
	defer g.sessions.release(n)
	serve(w, r, n)
}

// refuse answers with one message.
func refuse(w http.ResponseWriter, status int, frame []byte) {
	s := newStream(w)
	defer s.end()
	_ = s.json(status, frame) // a client that is gone gets none
}

// serveHTTP serves a request of a session until it is answered.
func (c *client) serveHTTP(w http.ResponseWriter, r *http.Request, m *message) {
	ctx, cancel := context.WithCancelCause(r.Context())
	defer cancel(nil)
	ctx, end, err := c.begin(ctx, m.ID)
	if err != nil {
		refuse(w, http.StatusOK, failure(m.ID, err))
		return
	}
	defer end()
	x := newExchange(w, r, cancel)
	x.end(c.request(ctx, &asker{gateway: c.gateway, client: c, message: m, header: r.Header, notify: x.notify}))
}

// listen serves the stream of notifications that belong to no request.
func (g *Gateway) listen(w http.ResponseWriter, r *http.Request, n *seat) {
	if !strings.Contains(r.Header.Get("Accept"), "text/event-stream") {
		http.Error(w, "the stream is text/event-stream, which the request does not accept", http.StatusNotAcceptable)
		return
	}
	s, q := newStream(w), newQueue()
	defer s.end()
	if !n.client.listen(q) {
		http.Error(w, errEnded.Error(), http.StatusNotFound)
		return
	}
	defer n.client.forget(q)
	if s.begin() == nil {
		_ = s.follow(q, r.Context().Done()) // the client is gone, or will open another
	}
}

// leaveSession ends a session.
func (g *Gateway) leaveSession(w http.ResponseWriter, _ *http.Request, n *seat) {
	g.sessions.remove(n)
	g.leave(n.client)
	w.WriteHeader(http.StatusNoContent)
}
