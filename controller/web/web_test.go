package web_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/errors"

	"github.com/toolfleet/toolfleet/controller/web"
	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/projections/shape"
)

func TestLists(t *testing.T) {
	bubble(t, nil, func(t *testing.T, r *rig) {
		r.control()
		tip := r.join()
		r.await(tip.Seq)
		a := r.get("/v1/servers")
		servers := decode[[]shape.Server](r, a)
		if len(servers) != 1 || servers[0].ID != "s" || !strings.Contains(a.body, `"failure":null`) {
			t.Errorf("servers: %s", a.body)
		}
		if far := a.header.Get("Toolfleet-Seq"); far != tipText(tip) {
			t.Errorf("as of %s, want %s", far, tipText(tip))
		}
		one := r.get("/v1/servers/s")
		if got := decode[shape.Server](r, one); got.ID != "s" || "["+one.body+"]" != a.body {
			t.Errorf("one server: %s", one.body)
		}
		workers := decode[[]shape.Worker](r, r.get("/v1/workers"))
		if len(workers) != 1 || workers[0].ID != "w" || workers[0].Instances == nil {
			t.Errorf("workers: %+v", workers)
		}
		tools := r.get("/v1/tools")
		if got := decode[[]shape.Tool](r, tools); len(got) != 2 || !strings.Contains(tools.body, `"inputSchema":{"type":"object","n":1.0}`) {
			t.Errorf("tools: %s", tools.body)
		}
		some := decode[[]shape.Tool](r, r.get("/v1/tools?server=s"))
		if len(some) != 1 || some[0].Name != "s__one" {
			t.Errorf("tools of s: %+v", some)
		}
		if head := r.ask(http.MethodHead, "/v1/servers", ""); head.status != http.StatusOK || head.body != "" {
			t.Errorf("HEAD: %+v", head)
		}
	})
}

// A list of nothing is an empty one.
func TestEmptyLists(t *testing.T) {
	bubble(t, nil, func(t *testing.T, r *rig) {
		seq := decode[struct {
			Seq events.Seq `json:"seq"`
		}](r, r.ask(http.MethodDelete, "/v1/servers/s", "")).Seq
		r.await(seq)
		for _, path := range []string{"/v1/servers", "/v1/workers", "/v1/events?kind=parked"} {
			if a := r.get(path); a.body != "[]" {
				t.Errorf("%s: %s", path, a.body)
			}
		}
	})
}

func TestNotFound(t *testing.T) {
	bubble(t, nil, func(t *testing.T, r *rig) {
		for _, path := range []string{
			"/", "/v1", "/v1/", "/v1/server", "/v1/servers/", "/v1/servers/s/", "/v1/servers/s/x", "/v1/servers/:stop",
			"/v1/servers/s:fly", "/v1/servers/s:move", "//v1/servers", "/v1/../v1/servers", "/v1/events/", "/mcp", "/metrics", "/v1/servers/s:stop:stop",
		} {
			r.expect(r.get(path), http.StatusNotFound, web.CodeNotFound)
		}
		r.expect(r.get("/v1/servers/nobody"), http.StatusNotFound, web.CodeNotFound, "nobody", "GET /v1/servers")
		r.expect(r.get("/v1/tools?server=s&server=nobody"), http.StatusNotFound, web.CodeNotFound, "nobody")
		r.expect(r.get("/v1/events?id=nobody"), http.StatusNotFound, web.CodeNotFound, "nobody")
		r.expect(r.ask(http.MethodPost, "/v1/servers/nobody:stop", ""), http.StatusNotFound, "unknown_server", "GET /v1/servers")
		r.expect(r.ask(http.MethodDelete, "/v1/servers/nobody", ""), http.StatusNotFound, "unknown_server")
	})
}

func TestMethods(t *testing.T) {
	bubble(t, nil, func(t *testing.T, r *rig) {
		for path, want := range map[string]string{
			"/v1/servers": "GET, HEAD", "/v1/servers/s": "DELETE, GET, HEAD, PUT", "/v1/servers/s:stop": "POST",
			"/healthz": "GET, HEAD", "/v1/events": "GET, HEAD",
		} {
			for _, method := range []string{http.MethodPatch, http.MethodOptions, http.MethodTrace} {
				a := r.ask(method, path, "")
				r.expect(a, http.StatusMethodNotAllowed, web.CodeMethod, method)
				if got := a.header.Get("Allow"); got != want {
					t.Errorf("%s: Allow %s, want %s", path, got, want)
				}
			}
		}
		r.expect(r.get("/v1/servers/s:stop"), http.StatusMethodNotAllowed, web.CodeMethod)
	})
}

// A misspelt filter would show everything.
func TestUnknownParameters(t *testing.T) {
	bubble(t, nil, func(t *testing.T, r *rig) {
		r.expect(r.get("/v1/events?servers=s"), http.StatusBadRequest, web.CodeParameter, "servers", "since")
		r.expect(r.get("/v1/servers?state=ready"), http.StatusBadRequest, web.CodeParameter, "state")
		r.expect(r.ask(http.MethodPost, "/v1/servers/s:stop?why=x", ""), http.StatusBadRequest, web.CodeParameter, "reason")
	})
}

// Reading and changing are different scopes, and none is had without a token.
func TestTokens(t *testing.T) {
	bubble(t, nil, func(t *testing.T, r *rig) {
		for _, tt := range []struct {
			method, path, token string
			status              int
			code                web.Code
		}{
			{http.MethodGet, "/v1/servers", "", http.StatusUnauthorized, "no_token"},
			{http.MethodGet, "/v1/servers", "wrong", http.StatusUnauthorized, "invalid_token"},
			{http.MethodGet, "/v1/servers", reader, http.StatusOK, ""},
			{http.MethodGet, "/v1/servers/s", changer, http.StatusForbidden, "missing_scope"},
			{http.MethodGet, "/v1/events", changer, http.StatusForbidden, "missing_scope"},
			{http.MethodGet, "/v1/events", reader, http.StatusOK, ""},
			{http.MethodPost, "/v1/servers/s:stop", "", http.StatusUnauthorized, "no_token"},
			{http.MethodPost, "/v1/servers/s:stop", reader, http.StatusForbidden, "missing_scope"},
			{http.MethodPost, "/v1/servers/s:stop", changer, http.StatusAccepted, ""},
			{http.MethodDelete, "/v1/servers/s", reader, http.StatusForbidden, "missing_scope"},
			{http.MethodPut, "/v1/servers/s", reader, http.StatusForbidden, "missing_scope"},
			{http.MethodGet, "/healthz", "", http.StatusOK, ""},
			{http.MethodGet, "/readyz", "", http.StatusOK, ""},
			{http.MethodGet, "/openapi.json", "", http.StatusOK, ""},
		} {
			authorization := "Bearer " + tt.token
			if tt.token == "" {
				authorization = ""
			}
			a := r.ask(tt.method, tt.path, "", "Authorization", authorization)
			if a.status != tt.status || a.problem.Code != tt.code {
				t.Errorf("%s %s with %q: %d %s", tt.method, tt.path, tt.token, a.status, a.body)
			}
			if refused := a.status == http.StatusUnauthorized || a.status == http.StatusForbidden; (a.header.Get("WWW-Authenticate") != "") != refused {
				t.Errorf("%s %s with %q: WWW-Authenticate %q", tt.method, tt.path, tt.token, a.header.Get("WWW-Authenticate"))
			}
			if refused := a.problem.Code != ""; refused && !strings.Contains(a.problem.Hint, "toolfleet token") {
				t.Errorf("%s %s: no way out: %s", tt.method, tt.path, a.body)
			}
		}
		if a := r.ask(http.MethodGet, "/v1/servers?access_token="+all, "", "Authorization", ""); a.status != http.StatusUnauthorized {
			t.Errorf("a token in the URL: %d", a.status)
		}
	})
}

// Pages in browsers get nothing, under whatever name, and what they show is told
// to keep still.
func TestPages(t *testing.T) {
	bubble(t, nil, func(t *testing.T, r *rig) {
		for _, path := range []string{"/v1/servers", "/v1/events", "/openapi.json"} {
			r.expect(r.get(path, "Host", "evil.example.org"), http.StatusForbidden, "unknown_host")
			r.expect(r.get(path, "Origin", "https://evil.example.org"), http.StatusForbidden, "unknown_origin")
			r.expect(r.get(path, "Sec-Fetch-Site", "cross-site"), http.StatusForbidden, "unknown_origin")
		}
		r.expect(r.ask(http.MethodPost, "/v1/servers/s:stop", "", "Origin", "https://evil.example.org"), http.StatusForbidden, "unknown_origin")
		if a := r.get("/healthz", "Host", "10.0.0.7:8377"); a.status != http.StatusOK {
			t.Errorf("a probe: %d", a.status) // which knows an address, and no name
		}
		for _, a := range []answer{r.get("/v1/servers"), r.get("/nothing"), r.get("/v1/servers", "Host", "evil"), r.get("/v1/servers", "Authorization", "")} {
			for name, want := range map[string]string{
				"X-Content-Type-Options": "nosniff", "Cache-Control": "no-store", "Referrer-Policy": "no-referrer",
				"Content-Security-Policy":      "default-src 'none'; frame-ancestors 'none'",
				"Cross-Origin-Resource-Policy": "same-origin",
			} {
				if got := a.header.Get(name); got != want {
					t.Errorf("%d: %s is %q", a.status, name, got)
				}
			}
			for name := range a.header {
				if strings.HasPrefix(name, "Access-Control-") {
					t.Errorf("%d: there is a header %s", a.status, name)
				}
			}
		}
	})
}

// A fleet whose servers fail is as ready as any; one whose views are not kept
// current is not.
func TestReady(t *testing.T) {
	var broken error
	prepare := func(r *rig) {
		r.parts.Checks = append(r.parts.Checks, web.Check{Name: "history", Ask: func(ctx context.Context) error { return broken }})
	}
	bubble(t, prepare, func(t *testing.T, r *rig) {
		r.control()
		tip := r.park()
		r.await(tip.Seq)
		if a := r.get("/v1/servers/s"); !strings.Contains(a.body, `"state":"parked"`) {
			t.Fatalf("it is %s", a.body)
		}
		if a := r.get("/readyz"); a.status != http.StatusOK || a.body != `{"status":"ready"}` {
			t.Errorf("with a server that failed: %d %s", a.status, a.body)
		}
		broken = errors.New("it does not answer")
		a := r.get("/readyz")
		r.expect(a, http.StatusServiceUnavailable, web.CodeNotReady)
		if len(a.problem.Checks) != 1 || a.problem.Checks["history"] != "it does not answer" {
			t.Errorf("checks %v", a.problem.Checks)
		}
		if a := r.get("/healthz"); a.status != http.StatusOK || a.body != `{"status":"ok"}` {
			t.Errorf("health: %d %s", a.status, a.body)
		}
		broken = nil
		r.broker.Stop()
		time.Sleep(time.Minute)
		r.expect(r.get("/readyz"), http.StatusServiceUnavailable, web.CodeNotReady, "views")
		r.broker.Start()
		time.Sleep(time.Minute)
		if a := r.get("/readyz"); a.status != http.StatusOK {
			t.Errorf("after an outage: %d %s", a.status, a.body)
		}
	})
}

// A check that hangs fails.
func TestAHangingCheck(t *testing.T) {
	prepare := func(r *rig) {
		r.parts.Checks = []web.Check{{Name: "slow", Ask: func(ctx context.Context) error {
			<-ctx.Done()
			return errors.New("too slow")
		}}}
	}
	bubble(t, prepare, func(t *testing.T, r *rig) {
		begun := time.Now()
		r.expect(r.get("/readyz"), http.StatusServiceUnavailable, web.CodeNotReady, "too slow")
		if d := time.Since(begun); d != 2*time.Second {
			t.Errorf("it took %v", d)
		}
	})
}

// What is missing at the start is there soon; what was never meant to be there is
// not found.
func TestParts(t *testing.T) {
	for starting, want := range map[bool]web.Code{true: web.CodeNotReady, false: web.CodeNotFound} {
		prepare := func(r *rig) {
			r.o.Starting = starting
			r.parts = web.Parts{}
		}
		bubble(t, prepare, func(t *testing.T, r *rig) {
			for _, path := range []string{"/v1/servers", "/v1/events", "/v1/servers/s:stop", "/mcp", "/metrics"} {
				if a := r.get(path); a.problem.Code != want || (a.header.Get("Retry-After") != "") != starting {
					t.Errorf("starting %v: %s: %d %s", starting, path, a.status, a.body)
				}
			}
			if a := r.get("/healthz"); a.status != http.StatusOK {
				t.Errorf("health: %d", a.status)
			}
		})
	}
}

// Handlers of others are asked as they are; metrics only for who may read.
func TestHandlersOfOthers(t *testing.T) {
	say := func(text string) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = w.Write([]byte(text + " " + r.Method)) })
	}
	prepare := func(r *rig) { r.parts.MCP, r.parts.Metrics = say("mcp"), say("metrics") }
	bubble(t, prepare, func(t *testing.T, r *rig) {
		for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodDelete, http.MethodPut} {
			if a := r.ask(method, "/mcp?x=1", "", "Authorization", "", "Host", "anywhere"); a.body != "mcp "+method {
				t.Errorf("%s: %d %s", method, a.status, a.body)
			}
		}
		if a := r.get("/metrics"); a.body != "metrics GET" {
			t.Errorf("metrics: %d %s", a.status, a.body)
		}
		r.expect(r.get("/metrics", "Authorization", ""), http.StatusUnauthorized, "no_token")
		r.expect(r.get("/metrics", "Authorization", "Bearer "+changer), http.StatusForbidden, "missing_scope")
	})
}
