package guard_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/toolfleet/toolfleet/guard"
)

// known are the tokens of these tests.
var known = []guard.Known{
	guard.NewKnown(guard.Principal{Name: "reader", Scopes: []guard.Scope{guard.Read}}, "token-of-reader"),
	guard.NewKnown(guard.Principal{Name: "all", Scopes: guard.Scopes()}, "token-of-all"),
	guard.NewKnown(guard.Principal{Name: "unset", Scopes: guard.Scopes()}, ""),
}

func holder(token string) (guard.Principal, bool) { return guard.Holder(known, token) }

// A token counts in its header only, and for its own scopes only.
func TestScopes(t *testing.T) {
	g := guard.New(&guard.Options{Holder: holder})
	for _, tt := range []struct {
		name, authorization, url string
		need                     guard.Scope
		want                     guard.Code
		who                      string
	}{
		{"reads", "Bearer token-of-reader", "/", guard.Read, "", "reader"},
		{"the scheme in small letters", "bearer token-of-reader", "/", guard.Read, "", "reader"},
		{"does not call", "Bearer token-of-reader", "/", guard.Call, guard.MissingScope, ""},
		{"does not change", "Bearer token-of-reader", "/", guard.Change, guard.MissingScope, ""},
		{"changes", "Bearer token-of-all", "/", guard.Change, "", "all"},
		{"calls", "Bearer token-of-all", "/", guard.Call, "", "all"},
		{"nobody", "", "/", guard.Read, guard.NoToken, ""},
		{"an empty token", "Bearer ", "/", guard.Read, guard.NoToken, ""},
		{"the beginning of a token", "Bearer token-of-al", "/", guard.Read, guard.InvalidToken, ""},
		{"more than a token", "Bearer token-of-all2", "/", guard.Read, guard.InvalidToken, ""},
		{"another scheme", "Basic token-of-all", "/", guard.Read, guard.NoToken, ""},
		{"no scheme", "token-of-all", "/", guard.Read, guard.NoToken, ""},
		{"in the URL", "", "/?access_token=token-of-all&token=token-of-all", guard.Read, guard.NoToken, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := httptest.NewRequest(http.MethodGet, "http://localhost"+tt.url, http.NoBody)
			r.Header.Set("Authorization", tt.authorization)
			p, refused := g.Check(r, tt.need)
			var code guard.Code
			if refused != nil {
				code = refused.Code
			}
			if code != tt.want || p.Name != tt.who {
				t.Errorf("%q as %q, want %q as %q", code, p.Name, tt.want, tt.who)
			}
		})
	}
}

// Where a request comes from is looked at before its token is.
func TestPlaces(t *testing.T) {
	g := guard.New(&guard.Options{Holder: holder, Hosts: []string{"tools.example.org", "192.0.2.7"}, Origins: []string{"https://app.example.org"}})
	for _, tt := range []struct {
		host, origin, site string
		want               guard.Code
	}{
		{"localhost:8377", "", "", ""},
		{"[::1]:8377", "http://localhost:3000", "", ""},
		{"tools.example.org", "https://app.example.org", "cross-site", ""},
		{"192.0.2.7:8377", "", "same-origin", ""},
		{"localhost.", "", "", guard.UnknownHost},
		{"evil.example.org", "", "", guard.UnknownHost},
		{"evil.example.org", "https://evil.example.org", "", guard.UnknownHost},
		{"", "", "", guard.UnknownHost},
		{"localhost", "https://evil.example.org", "", guard.UnknownOrigin},
		{"localhost", "null", "", guard.UnknownOrigin},
		{"localhost", "", "cross-site", guard.UnknownOrigin},
	} {
		r := httptest.NewRequest(http.MethodGet, "/", http.NoBody)
		r.Host = tt.host
		r.Header.Set("Authorization", "Bearer token-of-all")
		for name, value := range map[string]string{"Origin": tt.origin, "Sec-Fetch-Site": tt.site} {
			if value != "" {
				r.Header.Set(name, value)
			}
		}
		_, refused := g.Check(r, guard.Read)
		var code guard.Code
		if refused != nil {
			code = refused.Code
		}
		if code != tt.want {
			t.Errorf("%+v: %q", tt, code)
		}
	}
}

// The zero guard serves nobody, and an open one everybody from the right place.
func TestOpenAndShut(t *testing.T) {
	r := httptest.NewRequest(http.MethodGet, "http://localhost/", http.NoBody)
	r.Header.Set("Authorization", "Bearer token-of-all")
	for _, g := range []*guard.Guard{{}, guard.New(nil)} {
		if _, refused := g.Check(r, guard.Read); refused == nil || refused.Code != guard.InvalidToken {
			t.Errorf("shut: %v", refused)
		}
	}
	open := guard.New(&guard.Options{Open: true})
	if p, refused := open.Check(r, guard.Change); refused != nil || p.Name != "" || !p.May(guard.Change) {
		t.Errorf("open: %v, %v", p, refused)
	}
	r.Host = "evil.example.org"
	if _, refused := open.Check(r, guard.Read); refused == nil {
		t.Error("open to a page of another name")
	}
}

// A refusal says what helps, and nothing of the tokens.
func TestRefusal(t *testing.T) {
	g := guard.New(&guard.Options{Holder: holder})
	for authorization, challenge := range map[string]string{
		"":                       `Bearer realm="toolfleet"`,
		"Bearer token-of-nobody": `Bearer realm="toolfleet", error="invalid_token"`,
		"Bearer token-of-reader": `Bearer realm="toolfleet", error="insufficient_scope", scope="change"`,
	} {
		r := httptest.NewRequest(http.MethodGet, "http://localhost/", http.NoBody)
		r.Header.Set("Authorization", authorization)
		_, refused := g.Check(r, guard.Change)
		w := httptest.NewRecorder()
		refused.Write(w)
		if w.Code != refused.Status || w.Header().Get("WWW-Authenticate") != challenge {
			t.Errorf("%d %q", w.Code, w.Header().Get("WWW-Authenticate"))
		}
		if text := w.Body.String(); !strings.Contains(text, "toolfleet token") || strings.Contains(text, "token-of") {
			t.Errorf("it says %q", text)
		}
	}
}
