package gateway

import (
	"context"
	"net/http"
	"slices"
	"strings"
)

const (
	// maxStray bounds the requests without a session that are in flight, of all
	// clients together, but for those that listen.
	maxStray = 4096
	// maxListening bounds those, and maxListeningEach those of one principal. They
	// last, so one principal could keep the others out.
	maxListening     = 4096
	maxListeningEach = 1024
)

// Methods of HTTP that are served, and those of the revision without sessions.
var (
	methods       = []string{http.MethodPost, http.MethodGet, http.MethodDelete}
	modernMethods = methods[:1]
)

// ServeHTTP serves one request of the streamable HTTP transport, whatever its
// path.
func (g *Gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	who, ok := g.admit(w, r)
	if !ok {
		return
	}
	allowed := methods
	if r.Header.Get(revisionHeader) == modern {
		allowed = modernMethods
	}
	switch {
	case !slices.Contains(allowed, r.Method):
		list := strings.Join(allowed, ", ")
		w.Header().Set("Allow", list)
		http.Error(w, "use "+list, http.StatusMethodNotAllowed)
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
	body, over, ok := g.body(w, r, who)
	defer over()
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
		g.serveStray(w, r, who, m)
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

// serveStray serves a message that is in no session. A notification means nothing
// here: the end of its POST cancels a request.
func (g *Gateway) serveStray(w http.ResponseWriter, r *http.Request, who visitor, m *message) {
	if !m.isRequest() {
		w.WriteHeader(http.StatusAccepted)
		return
	}
	if err := m.checkHeaders(r.Header); err != nil {
		refuse(w, max(err.status, http.StatusBadRequest), failure(m.ID, err))
		return
	}
	listens := m.Method == "subscriptions/listen"
	free, ok := g.room(who, listens)
	if !ok {
		busy(w, "too many requests are in flight: wait for some to end")
		return
	}
	defer free()
	ctx, cancel := context.WithCancelCause(r.Context())
	defer cancel(nil)
	stop := context.AfterFunc(g.life, func() { cancel(errEnded) }) //nolint:contextcheck // it ends with the gateway, too
	defer stop()
	s := newStream(w)
	if listens {
		s.admits = g.admits(r, who)
	}
	x := newExchange(s, r, cancel)
	a := &asker{gateway: g, message: m, header: r.Header, notify: x.notify}
	if listens && !x.streams {
		http.Error(w, "the answer is text/event-stream, which the request does not accept", http.StatusNotAcceptable)
		return
	}
	x.end(a.answer(ctx))
}

// room takes the place of a request without a session, which the caller frees;
// false if there is none.
func (g *Gateway) room(who visitor, listens bool) (free func(), ok bool) {
	if listens {
		return func() { g.listening.Give(who.principal, 1) }, g.listening.Take(who.principal, 1)
	}
	free = func() { g.stray.Add(-1) }
	if g.stray.Add(1) > maxStray {
		free()
		return nil, false
	}
	return free, true
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
		busy(w, "too many sessions, none of them idle: end one, or wait")
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
	x := newExchange(newStream(w), r, cancel)
	x.end(c.request(ctx, &asker{gateway: c.gateway, client: c, message: m, header: r.Header, notify: x.notify}))
}

// listen serves the stream of notifications that belong to no request.
func (g *Gateway) listen(w http.ResponseWriter, r *http.Request, n *seat) {
	if !strings.Contains(r.Header.Get("Accept"), "text/event-stream") {
		http.Error(w, "the stream is text/event-stream, which the request does not accept", http.StatusNotAcceptable)
		return
	}
	s, q := newStream(w), newQueue()
	s.admits = g.admits(r, visitor{principal: n.principal})
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
