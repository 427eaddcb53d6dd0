package gateway

import (
	"context"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/guard"
	"github.com/toolfleet/toolfleet/session"
)

// Pages that a browser shows cannot send requests, whatever their name
// resolves to.
func TestHostsAndOrigins(t *testing.T) {
	o := &Options{Hosts: []string{"tools.example.org", "other.example.org:8443"}, Origins: []string{"https://app.example.org"}}
	overHTTP(t, newFleet(), o, func(t *testing.T, _ *Gateway, w *web) {
		for _, tt := range []struct {
			header, value string
			want          int
		}{
			{"Host", "localhost", http.StatusOK},
			{"Host", "LOCALHOST:80", http.StatusOK},
			{"Host", "127.0.0.1:8080", http.StatusOK},
			{"Host", "[::1]:8080", http.StatusOK},
			{"Host", "[::1]", http.StatusOK},
			{"Host", "tools.example.org", http.StatusOK},
			{"Host", "tools.example.org:1234", http.StatusOK},
			{"Host", "other.example.org:8443", http.StatusOK},
			{"Host", "other.example.org", http.StatusForbidden},
			{"Host", "evil.example.org:8080", http.StatusForbidden},
			{"Host", "localhost.evil.example.org", http.StatusForbidden},
			{"Host", "10.0.0.1", http.StatusForbidden},
			{"Origin", "http://localhost:3000", http.StatusOK},
			{"Origin", "https://127.0.0.1", http.StatusOK},
			{"Origin", "https://app.example.org", http.StatusOK},
			{"Origin", "http://app.example.org", http.StatusForbidden},
			{"Origin", "https://app.example.org.evil.example.org", http.StatusForbidden},
			{"Origin", "https://evil.example.org", http.StatusForbidden},
			{"Origin", "null", http.StatusForbidden},
			{"Origin", "file://localhost", http.StatusForbidden},
			{"Sec-Fetch-Site", "cross-site", http.StatusForbidden},
			{"Sec-Fetch-Site", "same-origin", http.StatusOK},
		} {
			r := w.with(tt.header, tt.value).do(t.Context(), http.MethodPost, request(0, "initialize", hello))
			w.read(r)
			if r.StatusCode != tt.want {
				t.Errorf("%s %s: status %d, want %d", tt.header, tt.value, r.StatusCode, tt.want)
			}
			for name := range r.Header {
				if strings.HasPrefix(name, "Access-Control-") {
					t.Errorf("%s %s: there is a header %s", tt.header, tt.value, name)
				}
			}
		}
	})
}

func TestTokens(t *testing.T) {
	overHTTP(t, newFleet(), &Options{Tokens: map[string]string{"me": token, "unset": ""}}, func(t *testing.T, _ *Gateway, w *web) {
		for value, want := range map[string]int{
			"Bearer " + token: http.StatusOK, "bearer " + token: http.StatusOK,
			"": http.StatusUnauthorized, "Bearer ": http.StatusUnauthorized, "Bearer": http.StatusUnauthorized,
			"Bearer a-toke": http.StatusUnauthorized, "Bearer a-token2": http.StatusUnauthorized,
			"Basic " + token: http.StatusUnauthorized, token: http.StatusUnauthorized,
		} {
			for _, method := range []string{http.MethodPost, http.MethodGet, http.MethodDelete, http.MethodOptions} {
				r := w.with("Authorization", value).do(t.Context(), method, request(0, "initialize", hello))
				w.read(r)
				if refused := r.StatusCode == http.StatusUnauthorized; refused != (want == http.StatusUnauthorized) || method == http.MethodPost && r.StatusCode != want {
					t.Errorf("%s with %q: status %d, want %d", method, value, r.StatusCode, want)
				}
				if hint := r.Header.Get("WWW-Authenticate"); (hint != "") != (want == http.StatusUnauthorized) {
					t.Errorf("%s with %q: WWW-Authenticate %q", method, value, hint)
				}
			}
		}
	})
}

func TestWithoutTokens(t *testing.T) {
	for open, want := range map[bool]int{false: http.StatusUnauthorized, true: http.StatusOK} {
		overHTTP(t, newFleet(), &Options{Tokens: map[string]string{}, Open: open}, func(t *testing.T, _ *Gateway, w *web) {
			for _, value := range []string{"", "Bearer x"} {
				if got := w.with("Authorization", value).status(http.MethodPost, request(0, "initialize", hello)); got != want {
					t.Errorf("open %v: status %d, want %d", open, got, want)
				}
			}
		})
	}
}

// A session is its principal's; to others it is as unknown as any.
func TestSessionsArePrincipals(t *testing.T) {
	overHTTP(t, newFleet(), &Options{Tokens: map[string]string{"me": token, "you": "other"}}, func(t *testing.T, _ *Gateway, w *web) {
		s := w.greet()
		thief := s.with("Authorization", "Bearer other")
		for _, method := range []string{http.MethodPost, http.MethodGet, http.MethodDelete} {
			stolen, words := thief.read(thief.do(t.Context(), method, request(1, "ping", `{}`)))
			guess := thief.with(sessionHeader, "guessed")
			guessed, same := guess.read(guess.do(t.Context(), method, request(1, "ping", `{}`)))
			if stolen != http.StatusNotFound || guessed != stolen || words != same {
				t.Errorf("%s: %d %q, and a guess %d %q", method, stolen, words, guessed, same)
			}
		}
		if _, body := s.post(request(1, "ping", `{}`)); body != result(1, `{}`) {
			t.Errorf("its own: %s", body)
		}
		if got := w.status(http.MethodPost, request(1, "ping", `{}`)); got != http.StatusBadRequest {
			t.Errorf("without a session: status %d", got)
		}
	})
}

func TestRevisionsAreChecked(t *testing.T) {
	overHTTP(t, newFleet(), nil, func(t *testing.T, _ *Gateway, w *web) {
		s := w.greet()
		for value, want := range map[string]int{"": http.StatusOK, "2025-03-26": http.StatusOK, "1999-01-01": http.StatusBadRequest} {
			if got := s.with(revisionHeader, value).status(http.MethodPost, request(1, "ping", `{}`)); got != want {
				t.Errorf("%q: status %d, want %d", value, got, want)
			}
		}
	})
}

func TestBodies(t *testing.T) {
	overHTTP(t, newFleet(), nil, func(t *testing.T, _ *Gateway, w *web) {
		s := w.greet()
		frame := len(request(1, "ping", `{"x":""}`))
		for n, want := range map[int]int{DefaultMaxMessage: http.StatusOK, DefaultMaxMessage + 1: http.StatusRequestEntityTooLarge} {
			body := request(1, "ping", `{"x":"`+strings.Repeat("x", n-frame)+`"}`)
			if got := s.status(http.MethodPost, body); got != want {
				t.Errorf("%d bytes: status %d, want %d", n, got, want)
			}
		}
		for kind, want := range map[string]int{
			"application/json; charset=utf-8": http.StatusOK, "text/plain": http.StatusUnsupportedMediaType, "": http.StatusUnsupportedMediaType,
		} {
			if got := s.with("Content-Type", kind).status(http.MethodPost, request(1, "ping", `{}`)); got != want {
				t.Errorf("%q: status %d, want %d", kind, got, want)
			}
		}
	})
}

// A body that is far too long is not read.
func TestAHugeBody(t *testing.T) {
	overHTTP(t, newFleet(), nil, func(t *testing.T, _ *Gateway, w *web) {
		s := w.greet()
		for _, n := range []*web{s, w.with(revisionHeader, modern)} {
			body := new(counted)
			body.left.Store(64 << 20)
			r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://localhost/mcp", body)
			if err != nil {
				t.Fatal(err)
			}
			r.Header = n.header.Clone()
			resp, err := n.client.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			if status, _ := n.read(resp); status != http.StatusRequestEntityTooLarge {
				t.Errorf("status %d", status)
			}
			if sent := 64<<20 - body.left.Load(); sent > 2*DefaultMaxMessage {
				t.Errorf("%d bytes of it were read", sent)
			}
		}
	})
}

// counted is a body whose bytes are counted as they leave.
type counted struct{ left atomic.Int64 }

func (c *counted) Read(p []byte) (int, error) {
	n := min(len(p), int(c.left.Load()))
	for i := range p[:n] {
		p[i] = ' '
	}
	c.left.Add(-int64(n))
	if n == 0 {
		return 0, io.EOF
	}
	return n, nil
}

// Whoever may read but not call lists and reads, whatever the revision; whoever may
// do neither is refused.
func TestScopes(t *testing.T) {
	f := newFleet(`{"name":"a"}`)
	f.resources = []session.Resource{aResource("a", "x:1")}
	f.ask = func(string, events.ServerID, string, string) (string, error) { return `{}`, nil }
	var called int
	f.answer = func(context.Context, string, []byte, *session.CallOptions) (*session.Result, error) {
		called++
		return &session.Result{JSON: jsontext.Value(`{}`)}, nil
	}
	o := &Options{Guard: guard.New(&guard.Options{Holder: func(token string) (guard.Principal, bool) {
		return guard.Principal{Name: token, Scopes: []guard.Scope{guard.Scope(token)}}, true
	}})}
	overHTTP(t, f, o, func(t *testing.T, _ *Gateway, w *web) {
		for scope, want := range map[guard.Scope][2]int{guard.Read: {200, 403}, guard.Call: {200, 200}, guard.Change: {403, 403}} {
			n := w.with("Authorization", "Bearer "+string(scope))
			called = 0
			list, _ := n.ask("tools/list", "", `{}`)
			read, _ := n.ask("resources/read", "x:1", `{"uri":"x:1"}`)
			call, body := n.ask("tools/call", "s__a", `{"name":"s__a"}`)
			if list != want[0] || read != want[0] || call != want[1] || (called == 1) != (want[1] == http.StatusOK) {
				t.Errorf("%s: listed %d, read %d, called %d (%d times): %s", scope, list, read, call, called, body)
			}
			if want[0] != http.StatusOK {
				continue
			}
			r := n.greet().do(t.Context(), http.MethodPost, request(1, "tools/call", `{"name":"s__a"}`))
			if _, body = n.read(r); r.StatusCode != want[1] {
				t.Errorf("%s: called %d in a session", scope, r.StatusCode)
			}
			if want[1] == http.StatusForbidden {
				expectPart(t, body, `"id":1`, `"code":-31403`)
				expectPart(t, r.Header.Get("WWW-Authenticate"), `error="insufficient_scope"`, `scope="call"`)
			}
		}
	})
}
