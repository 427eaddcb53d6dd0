package gateway

import (
	"context"
	"io"
	"mime"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/cockroachdb/errors"
)

const (
	// sessionHeader and revisionHeader are the protocol's.
	sessionHeader  = "Mcp-Session-Id"
	revisionHeader = "Mcp-Protocol-Version"

	// bodyLimit is how long a client has for the body of a request.
	bodyLimit = 30 * time.Second
)

// ServeHTTP serves one request of the streamable HTTP transport, whatever its
// path.
func (g *Gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	principal, ok := g.guard.check(w, r)
	if !ok {
		return
	}
	switch r.Method {
	case http.MethodPost:
		g.post(w, r, principal)
	case http.MethodGet:
		g.withSession(w, r, principal, g.listen)
	case http.MethodDelete:
		g.withSession(w, r, principal, g.end)
	default:
		w.Header().Set("Allow", "POST, GET, DELETE")
		http.Error(w, "use POST, GET or DELETE", http.StatusMethodNotAllowed)
	}
}

// post takes one message.
func (g *Gateway) post(w http.ResponseWriter, r *http.Request, principal string) {
	body, ok := g.body(w, r)
	if !ok {
		return
	}
	m, bad := decode(body)
	switch {
	case bad != nil:
		refuse(w, http.StatusBadRequest, failure(m.ID, bad))
	case m.Method == "initialize" && m.isRequest():
		g.greet(w, r, principal, m)
	default:
		g.withSession(w, r, principal, func(w http.ResponseWriter, r *http.Request, n *seat) {
			if m.isRequest() {
				exchange(w, r, n.client, m)
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
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, int64(g.options.MaxMessage)))
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

// greet answers initialize and begins a session with it.
func (g *Gateway) greet(w http.ResponseWriter, r *http.Request, principal string, m *message) {
	c := newClient(g, nil)
	result, err := c.serve(r.Context(), m, nil)
	if err != nil {
		refuse(w, http.StatusOK, failure(m.ID, err))
		return
	}
	n, ok := g.sessions.add(principal, c, func() { g.leave(c) })
	if !ok {
		w.Header().Set("Retry-After", "60")
		http.Error(w, "too many sessions: end one, or wait", http.StatusServiceUnavailable)
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

// withSession serves a request of an existing session, or answers that there is
// none.
func (g *Gateway) withSession(w http.ResponseWriter, r *http.Request, principal string, serve func(http.ResponseWriter, *http.Request, *seat)) {
	if v := r.Header.Get(revisionHeader); v != "" && !slices.Contains(Revisions, v) {
		http.Error(w, "this revision of the protocol is not served: use one of "+strings.Join(Revisions, ", "), http.StatusBadRequest)
		return
	}
	id := r.Header.Get(sessionHeader)
	if id == "" {
		http.Error(w, "the header "+sessionHeader+" is missing: begin with initialize", http.StatusBadRequest)
		return
	}
	n, ok := g.sessions.use(id, principal)
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

// exchange serves a request of a session until it is answered.
func exchange(w http.ResponseWriter, r *http.Request, c *client, m *message) {
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	ctx, end, err := c.begin(ctx, m.ID)
	if err != nil {
		refuse(w, http.StatusOK, failure(m.ID, err))
		return
	}
	defer end()
	s, q := newStream(w), newQueue()
	defer s.end()
	streams := strings.Contains(r.Header.Get("Accept"), "text/event-stream")
	notify := q.push
	if !streams {
		notify = func([]byte) {}
	}
	answered := make(chan []byte, 1)
	go func() { answered <- c.request(ctx, m, notify) }()
	last, err := s.until(answered, q, streams)
	if err != nil {
		cancel() // nobody is there to be answered
		<-answered
		return
	}
	switch {
	case last == nil && streams:
		_ = s.begin() // cancelled: a stream that ends
	case last == nil:
		w.WriteHeader(http.StatusAccepted)
	case s.begun:
		_ = s.event(last)
	default:
		_ = s.json(http.StatusOK, last)
	}
}

// until writes the notifications of a request until it is answered. Its error is
// that the client is gone, or does not read.
func (s *stream) until(answered <-chan []byte, q *queue, beats bool) ([]byte, error) {
	beat := time.NewTicker(heartbeat)
	defer beat.Stop()
	if !beats {
		beat.Stop()
	}
	for {
		select {
		case <-q.wake:
			beat.Reset(heartbeat)
			if err := s.events(q.take()); err != nil {
				return nil, err
			}
		case <-beat.C:
			if err := s.comment(); err != nil {
				return nil, err
			}
		case last := <-answered:
			return last, s.events(q.take())
		case <-q.over:
			return nil, errSlow
		}
	}
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
		_ = s.follow(r.Context(), q) // the client is gone, or will open another
	}
}

// follow writes notifications until the queue is over or the client is gone.
func (s *stream) follow(ctx context.Context, q *queue) error {
	beat := time.NewTicker(heartbeat)
	defer beat.Stop()
	for {
		select {
		case <-q.wake:
			if err := s.events(q.take()); err != nil {
				return err
			}
		case <-beat.C:
			if err := s.comment(); err != nil {
				return err
			}
		case <-q.over:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// end ends a session.
func (g *Gateway) end(w http.ResponseWriter, _ *http.Request, n *seat) {
	g.sessions.remove(n)
	g.leave(n.client)
	w.WriteHeader(http.StatusNoContent)
}
