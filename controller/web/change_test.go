package web_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/errors"

	"github.com/toolfleet/toolfleet/controller/request"
	"github.com/toolfleet/toolfleet/controller/web"
	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/projections/shape"
)

// Each verb causes its event, with the name of the token and the reason.
func TestChanges(t *testing.T) {
	bubble(t, nil, func(t *testing.T, r *rig) {
		for _, tt := range []struct {
			method, path string
			kind         events.Kind
		}{
			{http.MethodPost, "/v1/servers/s:stop", events.KindStopRequested},
			{http.MethodPost, "/v1/servers/s:start", events.KindStartRequested},
			{http.MethodPost, "/v1/servers/s:restart", events.KindRestartRequested},
			{http.MethodPost, "/v1/servers/s:disable", events.KindDisabled},
			{http.MethodPost, "/v1/servers/s:enable", events.KindEnabled},
			{http.MethodDelete, "/v1/servers/s", events.KindWithdrawn},
		} {
			a := r.ask(tt.method, tt.path+"?reason=why+not", `{}`, "Authorization", "Bearer "+changer)
			if a.status != http.StatusAccepted {
				t.Fatalf("%s %s: %d %s", tt.method, tt.path, a.status, a.body)
			}
			e := r.event(decode[request.Answer](r, a).Seq)
			if e.Kind != tt.kind || e.Chain != "server.s" || e.Actor != "token:changer" || e.Reason != "why not" || e.Correlation == "" {
				t.Errorf("%s %s: %+v", tt.method, tt.path, e)
			}
		}
	})
}

// event returns one event, over HTTP.
func (r *rig) event(seq events.Seq) shape.Event {
	r.t.Helper()
	page := decode[[]shape.Event](r, r.get("/v1/events?limit=1&since="+tipText(events.Tip{Seq: seq})))
	if len(page) != 1 || page[0].Seq != seq {
		r.t.Fatalf("event %d: %+v", seq, page)
	}
	return page[0]
}

// A request with the same key is one request, whatever was lost on the way.
func TestRepeatedChanges(t *testing.T) {
	bubble(t, nil, func(t *testing.T, r *rig) {
		restart := func(path, key string) answer { return r.ask(http.MethodPost, path, "", "Idempotency-Key", key) }
		first := decode[request.Answer](r, restart("/v1/servers/s:restart", "once"))
		again := decode[request.Answer](r, restart("/v1/servers/s:restart", "once"))
		if again.Seq != first.Seq || !again.Repeated {
			t.Errorf("first %+v, again %+v", first, again)
		}
		if e := r.event(first.Seq); e.Correlation != "once" {
			t.Errorf("correlation %q", e.Correlation)
		}
		other := decode[request.Answer](r, restart("/v1/servers/s:restart", "twice"))
		if other.Seq <= first.Seq {
			t.Errorf("another one is %+v", other)
		}
		r.expect(restart("/v1/servers/s:stop", "once"), http.StatusConflict, "request_reused", "Idempotency-Key")
		r.expect(restart("/v1/servers/s:stop", strings.Repeat("x", 129)), http.StatusBadRequest, "invalid_request", "128")
	})
}

// What cannot be done now says what has to be done before.
func TestRefusedChanges(t *testing.T) {
	bubble(t, nil, func(t *testing.T, r *rig) {
		r.ask(http.MethodPost, "/v1/servers/s:stop", "")
		r.expect(r.ask(http.MethodPost, "/v1/servers/s:restart", ""), http.StatusConflict, "server_stopped", "POST /v1/servers/s:start")
		r.ask(http.MethodPost, "/v1/servers/s:disable", "")
		r.expect(r.ask(http.MethodPost, "/v1/servers/s:start", ""), http.StatusConflict, "server_disabled", "POST /v1/servers/s:enable")
		unchanged := decode[request.Answer](r, r.ask(http.MethodPost, "/v1/servers/s:disable", ""))
		if !unchanged.Unchanged {
			t.Errorf("the second time: %+v", unchanged)
		}
		long := "/v1/servers/s:enable?reason=" + strings.Repeat("x", 1025)
		r.expect(r.ask(http.MethodPost, long, ""), http.StatusBadRequest, "invalid_request")
	})
}

const definition = `{"command":"another","args":["a"],"source":{"provider":"file","path":"/etc/passwd"}}`

// No request makes a worker run a command, unless the operator said so.
func TestDeclaringIsNotAllowed(t *testing.T) {
	bubble(t, nil, func(t *testing.T, r *rig) {
		for _, id := range []string{"s", "new"} {
			a := r.ask(http.MethodPut, "/v1/servers/"+id, definition, "Content-Type", "application/json")
			r.expect(a, http.StatusForbidden, web.CodeNotAllowed, "--http-allow-declare")
		}
		if all := decode[[]shape.Event](r, r.get("/v1/events?kind=declared&kind=updated")); len(all) != 1 {
			t.Errorf("declared was %+v", all)
		}
	})
}

func TestDeclare(t *testing.T) {
	bubble(t, func(r *rig) { r.o.AllowDeclare = true }, func(t *testing.T, r *rig) {
		put := func(id, body string, headers ...string) answer {
			return r.ask(http.MethodPut, "/v1/servers/"+id+"?reason=new", body, append([]string{"Content-Type", "application/json"}, headers...)...)
		}
		e := r.event(decode[request.Answer](r, put("new", definition)).Seq)
		if e.Kind != events.KindDeclared || e.Chain != "server.new" || e.Actor != "token:all" || e.Reason != "new" {
			t.Errorf("got %+v", e)
		}
		// Where it came from is not the client's to say: a file's own would withdraw it.
		if body := string(e.Body); !strings.Contains(body, `"provider":"http"`) || strings.Contains(body, "passwd") {
			t.Errorf("got %s", body)
		}
		for name, a := range map[string]answer{
			"no definition":      put("x", `{}`),
			"an id that is none": put("a.b", definition),
		} {
			if r.expect(a, http.StatusUnprocessableEntity, "invalid_definition"); len(a.problem.Problems) == 0 || a.problem.Seq == 0 && name == "no definition" {
				t.Errorf("%s: %s", name, a.body)
			}
		}
		for _, body := range []string{``, `{`, `[]`, `"x"`, `{"command":"a","command":"b"}`, `{"args":"SECRET"}`, `{"env":{"A":["SECRET"]}}`} {
			r.expect(put("x", body), http.StatusBadRequest, web.CodeBody)
			if a := put("x", body); strings.Contains(a.body, "SECRET") {
				t.Errorf("%s: %s", body, a.body)
			}
		}
		if a := put("x", `{"env":{"A":["SECRET"]}}`); !strings.Contains(a.problem.Detail, "/env/A") {
			t.Errorf("where is not said: %s", a.body)
		}
		for _, kind := range []string{"", "text/plain", "application/x-www-form-urlencoded"} {
			r.expect(put("x", definition, "Content-Type", kind), http.StatusUnsupportedMediaType, web.CodeContentType)
		}
	})
}

// endless is a body of a certain length.
type endless struct{ left atomic.Int64 }

func (e *endless) Read(p []byte) (int, error) {
	n := min(int64(len(p)), e.left.Load())
	if e.left.Add(-n); n == 0 {
		return 0, io.EOF
	}
	return int(n), nil
}

// A body of 64 MB is refused when a little of it has come.
func TestALongBody(t *testing.T) {
	bubble(t, func(r *rig) { r.o.AllowDeclare = true }, func(t *testing.T, r *rig) {
		for method, path := range map[string]string{http.MethodPut: "/v1/servers/x", http.MethodPost: "/v1/servers/s:stop", http.MethodDelete: "/v1/servers/s"} {
			body := &endless{}
			body.left.Store(64 << 20)
			q, err := http.NewRequestWithContext(t.Context(), method, "http://localhost"+path, body)
			if err != nil {
				t.Fatal(err)
			}
			q.Header.Set("Authorization", "Bearer "+all)
			q.Header.Set("Content-Type", "application/json")
			resp, err := r.client.Do(q)
			if err != nil {
				t.Fatal(err)
			}
			if resp.StatusCode != http.StatusRequestEntityTooLarge || body.left.Load() < 60<<20 {
				t.Errorf("%s: %s, %d bytes were not sent", method, resp.Status, body.left.Load())
			}
			resp.Body.Close()
		}
	})
}

// A body that does not come to its end holds nothing up for ever.
func TestASlowBody(t *testing.T) {
	bubble(t, nil, func(t *testing.T, r *rig) {
		body, end := io.Pipe()
		go func() { _, _ = io.WriteString(end, "{") }()
		q, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://localhost/v1/servers/s:stop", body)
		if err != nil {
			t.Fatal(err)
		}
		q.Header.Set("Authorization", "Bearer "+all)
		begun := time.Now()
		resp, err := r.client.Do(q)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusBadRequest || time.Since(begun) != 30*time.Second {
			t.Errorf("%s after %v", resp.Status, time.Since(begun))
		}
		_ = end.Close() // of a pipe
	})
}

// Without a controller nothing changes, and it says so.
func TestNoController(t *testing.T) {
	bubble(t, nil, func(t *testing.T, r *rig) {
		r.control()
		begun := time.Now()
		a := r.ask(http.MethodPost, "/v1/servers/s:stop", "")
		r.expect(a, http.StatusServiceUnavailable, web.CodeNoController, "nothing was changed")
		if d := time.Since(begun); d != 10*time.Second || a.problem.Request == "" {
			t.Errorf("after %v: %s", d, a.body)
		}
	})
}

// Each outcome of a request has its status.
func TestOutcomes(t *testing.T) {
	var outcome error
	prepare := func(r *rig) {
		r.parts.Requests = requests(func(context.Context, *request.Request) (request.Answer, error) {
			return request.Answer{}, errors.Wrap(outcome, "stop")
		})
	}
	bubble(t, prepare, func(t *testing.T, r *rig) {
		for _, tt := range []struct {
			err    error
			status int
			code   web.Code
		}{
			{request.Errorf(request.Unavailable, "busy"), http.StatusServiceUnavailable, "unavailable"},
			{request.Errorf(request.HistoryFull, "full"), http.StatusInsufficientStorage, "history_full"},
			{request.Errorf(request.TooLarge, "large"), http.StatusRequestEntityTooLarge, "too_large"},
			{request.Errorf("from_the_future", "new"), http.StatusConflict, "from_the_future"},
			{errors.Mark(errors.New("late"), events.ErrUncertain), http.StatusGatewayTimeout, web.CodeUncertain},
		} {
			outcome = tt.err
			r.expect(r.ask(http.MethodPost, "/v1/servers/s:stop", "", "Idempotency-Key", "k"), tt.status, tt.code)
		}
		if a := r.ask(http.MethodPost, "/v1/servers/s:stop", "", "Idempotency-Key", "k"); a.problem.Request != "k" || !strings.Contains(a.problem.Hint, "Idempotency-Key: k") {
			t.Errorf("an unknown outcome: %s", a.body)
		}
	})
}
