package gateway

import (
	"net/http"
	"strings"
	"testing"
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
