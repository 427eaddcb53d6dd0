package mcptest

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/mark3labs/mcp-go/server"
)

// HTTP is a streamable HTTP server that follows a script.
type HTTP struct {
	// URL of the endpoint.
	URL string

	server *httptest.Server
	mu     sync.Mutex // guards all that follows
	seen   []Seen
	inner  http.Handler
	script Script
	answer func(http.ResponseWriter, *http.Request) bool
}

// Seen is a request that the server got.
type Seen struct {
	Method string // of HTTP
	RPC    string // method of JSON-RPC, or ""
	Header http.Header
}

// NewHTTP starts a server that the test stops at its end.
func NewHTTP(t testing.TB, s Script) *HTTP {
	t.Helper()
	h := &HTTP{script: s}
	h.Forget()
	h.server = httptest.NewServer(h)
	h.URL = h.server.URL + "/mcp"
	t.Cleanup(h.Stop)
	return h
}

// Stop ends the server and its connections. Its address then refuses.
func (h *HTTP) Stop() {
	h.server.CloseClientConnections()
	h.server.Close()
}

// Forget makes the server forget its sessions, as a restart would.
func (h *HTTP) Forget() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.inner = server.NewStreamableHTTPServer(h.script.build(nil).server, server.WithStateful(true))
}

// Answer has f answer requests first; it returns false for those it leaves to
// the server.
func (h *HTTP) Answer(f func(http.ResponseWriter, *http.Request) bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.answer = f
}

// Seen returns the requests so far.
func (h *HTTP) Seen() []Seen {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]Seen(nil), h.seen...)
}

// ServeHTTP implements [http.Handler].
func (h *HTTP) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the client went away
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	rpc := ""
	if _, rest, ok := strings.Cut(string(body), `"method":"`); ok {
		rpc, _, _ = strings.Cut(rest, `"`)
	}
	h.mu.Lock()
	h.seen = append(h.seen, Seen{Method: r.Method, RPC: rpc, Header: r.Header.Clone()})
	inner, answer := h.inner, h.answer
	h.mu.Unlock()
	if answer != nil && answer(w, r) {
		return
	}
	if r.Method == http.MethodPost {
		b := behaviour{script: &h.script}
		if answer, taken := b.intercept(body); taken && answer != nil {
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write(answer)
			return
		} else if taken {
			<-r.Context().Done()
			return
		}
	}
	inner.ServeHTTP(w, r)
}
