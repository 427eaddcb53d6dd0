package worker

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/errors"

	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/worker/mcptest"
)

func httpDefinition(url string) events.Definition {
	return events.Definition{URL: url, Headers: map[string]string{"Authorization": "Bearer t0ken", "X-Api-Key": "k"}}
}

func TestHTTPConnectsListsAndCalls(t *testing.T) {
	s := mcptest.NewHTTP(t, mcptest.Script{Tools: mcptest.Special})
	d := mustDial(t, httpDefinition(s.URL))
	if d.hello.revision != "2025-11-25" || !d.hello.offers[Tools] {
		t.Errorf("hello %+v", d.hello)
	}
	raw, err := d.pages(t.Context(), &sections[Tools][0], &exchange{})
	if err != nil || len(raw) != len(mcptest.Special) || !strings.Contains(string(raw[0]), `"$schema"`) {
		t.Fatalf("tools %s, %v", raw, err)
	}
	x, err := d.tool(t.Context(), "odd", "{}")
	if err != nil || string(x.result) != mcptest.OddResult {
		t.Errorf("odd: %s, %v", x.result, err)
	}
	x, err = d.tool(t.Context(), "rpc-error", "{}")
	if err == nil || x.failure == nil || x.failure.Code != -32050 || x.failure.Message != "the server is full" {
		t.Errorf("rpc-error: %+v, %v", x.failure, err)
	}
	x, err = d.tool(t.Context(), "echo", `{"n":9007199254740993}`)
	if err != nil || text(t, x) != `{"n":9007199254740993}` {
		t.Errorf("echo: %s, %v", x.result, err)
	}
	d.conn.Shut(time.Second)
	wait(t, d.conn.gone, "the end of the connection")
	for _, seen := range s.Seen() { // the last request, DELETE, included
		if seen.Header.Get("Authorization") != "Bearer t0ken" || seen.Header.Get("X-Api-Key") != "k" {
			t.Errorf("%s %s without the definition's headers", seen.Method, seen.RPC)
		}
	}
	if last := s.Seen()[len(s.Seen())-1]; last.Method != http.MethodDelete || last.Header.Get("Mcp-Session-Id") == "" {
		t.Errorf("the last request was %s", last.Method)
	}
}

// R30: the server's own stream is listened to, and whatever was announced before
// it opened is looked for.
func TestHTTPListens(t *testing.T) {
	s := mcptest.NewHTTP(t, mcptest.Script{Tools: mcptest.Special})
	d := mustDial(t, httpDefinition(s.URL))
	wait(t, d.conn.notices.changed[Tools], "the stream to open")
	if _, err := d.tool(t.Context(), "grow", `{"times":1}`); err != nil {
		t.Fatal(err)
	}
	wait(t, d.conn.notices.changed[Tools], "the announcement")
	raw, err := d.pages(t.Context(), &sections[Tools][0], &exchange{})
	if err != nil || len(raw) != len(mcptest.Special)+1 {
		t.Errorf("%d tools, %v", len(raw), err)
	}
}

// A server that knows no revision with a handshake is spoken to without one, and
// its changes are subscribed to.
func TestHTTPStateless(t *testing.T) {
	s := mcptest.NewHTTP(t, mcptest.Script{
		Tools:  mcptest.Special,
		Refuse: []byte(`{"code":-32022,"message":"unsupported","data":{"supported":["2026-07-28"]}}`),
	})
	d := mustDial(t, httpDefinition(s.URL))
	if d.hello.revision != "2026-07-28" || !d.hello.stateless || !d.hello.offers[Tools] || d.hello.instructions != "be kind" {
		t.Errorf("hello %+v", d.hello)
	}
	if !strings.Contains(string(d.hello.serverInfo), "mcptest") {
		t.Errorf("server info %s", d.hello.serverInfo)
	}
	x, err := d.tool(t.Context(), "echo", `{"n":9007199254740993}`)
	if err != nil || text(t, x) != `{"n":9007199254740993}` {
		t.Errorf("echo: %s, %v", x.result, err)
	}
	raw, err := d.pages(t.Context(), &sections[Tools][0], &exchange{})
	if err != nil || len(raw) != len(mcptest.Special) {
		t.Errorf("%d tools, %v", len(raw), err)
	}
	wait(t, d.conn.notices.changed[Tools], "the subscription")
	if _, err := d.tool(t.Context(), "grow", `{"times":1}`); err != nil {
		t.Fatal(err)
	}
	wait(t, d.conn.notices.changed[Tools], "the announcement")
}

// R35: the stateless revision's subscription is one to all lists that there are.
func TestHTTPStatelessLists(t *testing.T) {
	script := offering()
	script.Refuse = []byte(`{"code":-32022,"message":"unsupported","data":{"supported":["2026-07-28"]}}`)
	d := mustDial(t, httpDefinition(mcptest.NewHTTP(t, script).URL))
	for k := range d.conn.notices.changed {
		wait(t, d.conn.notices.changed[k], "the subscription")
	}
	for _, k := range others {
		if _, err := d.tool(t.Context(), "grow", `{"times":1,"what":"`+k.String()+`"}`); err != nil {
			t.Fatal(err)
		}
		wait(t, d.conn.notices.changed[k], "the announcement of "+k.String())
	}
}

func TestHTTPFailures(t *testing.T) {
	t.Parallel()
	status := func(code int, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("WWW-Authenticate", `Bearer realm="x"`)
			w.WriteHeader(code)
			_, _ = io.WriteString(w, body)
		}
	}
	secure := httptest.NewTLSServer(status(200, ""))
	defer secure.Close()
	refusing, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	refused := "http://" + refusing.Addr().String() + "/?token=t0ken"
	_ = refusing.Close()
	for name, tc := range map[string]struct {
		handler http.HandlerFunc
		url     string
		code    events.Code
		message string
		retry   bool
	}{
		"refused":      {nil, refused, events.ConnectionRefused, "refused", true},
		"no such host": {nil, "http://no-such-host.invalid/mcp", events.DNS, "no-such-host.invalid", true},
		"unknown CA":   {nil, secure.URL, events.TLS, "certificate", false},
		"401":          {status(401, "no"), "", events.AuthenticationNeeded, `HTTP 401, WWW-Authenticate: Bearer realm="x"`, false},
		"403":          {status(403, "no"), "", events.AuthenticationNeeded, "HTTP 403", false},
		"404":          {status(404, "no"), "", "http_404", "", false},
		"405":          {status(405, "no"), "", "http_405", "", false},
		"500":          {status(500, "<html>boom</html>"), "", "http_500", "boom", true},
		"503":          {status(503, ""), "", "http_503", "", true},
		"redirected": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://127.0.0.2:1/", http.StatusTemporaryRedirect)
		}, "", "http_307", "", false},
		"html": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html")
			_, _ = io.WriteString(w, "<html>")
		}, "", events.HandshakeFailed, "text/html", true},
		"refuses": {func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(400)
			_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":1,"error":{"code":-32600,"message":"go away"}}`)
		}, "", events.HandshakeFailed, "go away", true},
		"a foreign answer": {func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":4711,"result":{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"x","version":"1"}}}`)
		}, "", events.HandshakeFailed, "4711", true},
		"no URL": {nil, "http://[::1", events.InvalidDefinition, "no URL", false},
		"too much": {func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":1,"result":"`)
			for range maxFrame / 1024 {
				if _, err := io.WriteString(w, strings.Repeat("x", 1024)); err != nil {
					return
				}
			}
		}, "", events.FrameTooLarge, "limit", true},
	} {
		t.Run(name, func(t *testing.T) {
			url := tc.url
			if tc.handler != nil {
				s := httptest.NewServer(tc.handler)
				defer s.Close()
				url = s.URL + "/?token=t0ken"
			}
			d := dialTo(t, httpDefinition(url), hangLimit)
			end := d.ending(d.err, 0)
			if end.code != tc.code || !strings.Contains(end.message, tc.message) || end.retry != tc.retry {
				t.Errorf("%+v, want %s with %q, retry %v", end, tc.code, tc.message, tc.retry)
			}
			if strings.Contains(end.message, "t0ken") {
				t.Errorf("the message holds the URL: %s", end.message)
			}
		})
	}
}

func TestHTTPConnectTimeout(t *testing.T) {
	s := mcptest.NewHTTP(t, mcptest.Script{Mute: true})
	d := dialTo(t, httpDefinition(s.URL), 300*time.Millisecond)
	if end := d.ending(d.err, time.Second); end.code != events.ConnectTimeout {
		t.Errorf("ended with %+v", end)
	}
}

// A redirect to another host is not followed: it would be given the headers.
func TestHTTPRedirects(t *testing.T) {
	var leaked atomic.Int32
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { leaked.Add(1) }))
	defer other.Close()
	s := mcptest.NewHTTP(t, mcptest.Script{Tools: mcptest.Special})
	away := false
	s.Answer(func(w http.ResponseWriter, r *http.Request) bool {
		switch {
		case away:
			http.Redirect(w, r, other.URL, http.StatusTemporaryRedirect)
			return true
		case r.URL.Path != "/moved":
			http.Redirect(w, r, "/moved", http.StatusTemporaryRedirect)
			return true
		}
		return false
	})
	d := mustDial(t, httpDefinition(s.URL)) // on the same host it is
	if x, err := d.tool(t.Context(), "echo", "{}"); err != nil {
		t.Fatalf("%s, %v", x.result, err)
	}
	away = true
	if x, err := d.tool(t.Context(), "echo", "{}"); err == nil || x.status != http.StatusTemporaryRedirect || leaked.Load() != 0 {
		t.Errorf("status %d, %v; %d requests to the other host", x.status, err, leaked.Load())
	}
}

// case K3: a server without a stream of its own works without, and is not
// asked for it again and again.
func TestHTTPWithoutStream(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]func(http.ResponseWriter){
		"405": func(w http.ResponseWriter) { w.WriteHeader(http.StatusMethodNotAllowed) },
		"400": func(w http.ResponseWriter) { w.WriteHeader(http.StatusBadRequest) },
		"501": func(w http.ResponseWriter) { w.WriteHeader(http.StatusNotImplemented) },
		"200": func(w http.ResponseWriter) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, "{}")
		},
		"404": func(w http.ResponseWriter) { w.WriteHeader(http.StatusNotFound) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := mcptest.NewHTTP(t, mcptest.Script{Tools: mcptest.Special})
			asked := make(chan struct{}, 100)
			s.Answer(func(w http.ResponseWriter, r *http.Request) bool {
				if r.Method != http.MethodGet {
					return false
				}
				answer(w)
				asked <- struct{}{}
				return true
			})
			d := mustDial(t, httpDefinition(s.URL))
			wait(t, asked, "the request for the stream")
			if x, err := d.tool(t.Context(), "echo", "{}"); err != nil {
				t.Fatalf("%s, %v", x.result, err)
			}
			select {
			case <-asked: // the library would ask again after a second
				t.Error("asked for the stream again")
			case <-d.conn.over:
				t.Errorf("over: %v", d.conn.End())
			case <-time.After(1500 * time.Millisecond):
			}
		})
	}
}

// A server that is gone is noticed by the stream that cannot be opened again.
func TestHTTPServerGone(t *testing.T) {
	t.Parallel()
	s := mcptest.NewHTTP(t, mcptest.Script{Tools: mcptest.Special})
	d := mustDial(t, httpDefinition(s.URL))
	wait(t, d.conn.notices.changed[Tools], "the stream to open")
	s.Stop()
	wait(t, d.conn.over, "the connection to be over")
	if end := d.conn.End(); end.code != events.ConnectionRefused {
		t.Errorf("ended with %+v", end)
	}
	x, err := d.tool(t.Context(), "echo", "{}")
	if !errors.Is(err, errNotWritten) || x.written.Load() {
		t.Errorf("a call: %v", err)
	}
}

// R33, case J8: the end of a session is a courtesy of two seconds.
func TestHTTPCloseIsBounded(t *testing.T) {
	t.Parallel()
	for name, now := range map[string]bool{"in peace": false, "by force": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := mcptest.NewHTTP(t, mcptest.Script{})
			deleted := make(chan struct{}, 1)
			s.Answer(func(_ http.ResponseWriter, r *http.Request) bool {
				if r.Method == http.MethodDelete {
					deleted <- struct{}{}
					<-r.Context().Done()
					return true
				}
				return false
			})
			d := mustDial(t, httpDefinition(s.URL))
			began := time.Now()
			d.conn.Shut(time.Hour)
			wait(t, deleted, "the DELETE")
			limit := deleteLimit + 2*time.Second
			if now {
				d.conn.Kill()
			}
			wait(t, d.conn.gone, "the end of the connection")
			if took := time.Since(began); took > limit {
				t.Errorf("it took %s", took)
			}
		})
	}
}

func TestBodyIsBounded(t *testing.T) {
	const limit = 64 << 10
	event := "data: " + strings.Repeat("x", limit/2) + "\n"
	for name, tc := range map[string]struct {
		text   string
		stream bool
		ok     bool
	}{
		"a document":       {strings.Repeat("x", limit), false, true},
		"too large":        {strings.Repeat("x", limit+1), false, false},
		"a long stream":    {strings.Repeat(event+"\n", 5), true, true},
		"CRLF":             {strings.Repeat("data: x\r\n\r\n"+event+"\r\n", 5), true, true},
		"a long event":     {strings.Repeat(event, 3), true, false},
		"lines of nothing": {strings.Repeat("\n", 3*limit/2), true, true},
	} {
		t.Run(name, func(t *testing.T) {
			b := &body{ReadCloser: io.NopCloser(strings.NewReader(tc.text)), cancel: func() {}, limit: limit, left: limit, stream: tc.stream}
			n, err := io.Copy(io.Discard, b)
			if (err == nil) != tc.ok || tc.ok && n != int64(len(tc.text)) {
				t.Errorf("%d of %d bytes, %v", n, len(tc.text), err)
			}
			if !tc.ok && !errors.Is(err, errFrameTooLarge) {
				t.Errorf("error %v", err)
			}
		})
	}
}

func TestNetworkCodes(t *testing.T) {
	for want, err := range map[events.Code]error{
		events.TLS:            errors.Wrap(tls.AlertError(40), "x"),
		events.ConnectTimeout: context.DeadlineExceeded,
		events.ConnectionLost: io.ErrUnexpectedEOF,
		events.OtherFailure:   errors.New("x"),
	} {
		if got := networkCode(err, events.OtherFailure); got != want {
			t.Errorf("%v is %s, want %s", err, got, want)
		}
	}
}

func unauthorized(w http.ResponseWriter, _ *http.Request) bool {
	w.WriteHeader(http.StatusUnauthorized)
	return true
}
