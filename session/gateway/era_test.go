package gateway

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/toolfleet/toolfleet/projections"
	"github.com/toolfleet/toolfleet/session"
)

const (
	acknowledged = `{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":1},"notifications":{"toolsListChanged":true}}}`
	heard        = `{"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":1}}}`
	over         = `{"jsonrpc":"2.0","id":1,"result":{"resultType":"complete","_meta":{"io.modelcontextprotocol/subscriptionId":1}}}`
	wantsTools   = `{"notifications":{"toolsListChanged":true,"resourceSubscriptions":["x:y"]}}`
)

// Without a session every request stands for itself, and every result says what it
// is.
func TestWithoutASession(t *testing.T) {
	f := newFleet(`{"name":"a","description":"d"}`)
	f.answer = answers(`{"content":[]}`)
	overHTTP(t, f, nil, func(t *testing.T, _ *Gateway, w *web) {
		n, body := w.asks("server/discover", "", `{}`)
		r := n.with(sessionHeader, "whatever").do(t.Context(), http.MethodPost, body)
		_, body = w.read(r)
		expect(t, body, result(1, `{"resultType":"complete","supportedVersions":["2026-07-28","2025-11-25","2025-06-18","2025-03-26","2024-11-05"],`+
			`"capabilities":{"completions":{},"logging":{},"prompts":{"listChanged":true},"resources":{"listChanged":true},"tools":{"listChanged":true}},`+
			`"ttlMs":0,"cacheScope":"private",`+about+`}}`))
		if id := r.Header.Get(sessionHeader); id != "" {
			t.Errorf("a session %s began", id)
		}
		_, body = w.ask("tools/list", "", `{}`)
		expect(t, body, result(1, `{"resultType":"complete","ttlMs":250,"cacheScope":"private","tools":[{"name":"s__a","description":"d"}],`+about+`}}`))
		_, body = w.ask("tools/call", "s__a", `{"name":"s__a"}`)
		expect(t, body, result(1, `{"resultType":"complete","content":[]}`))
		f.answer = answers(`{ "content":[] , "resultType":"input_required"}`)
		_, body = w.ask("tools/call", "s__a", `{"name":"s__a"}`)
		expect(t, body, result(1, `{ "content":[] , "resultType":"input_required"}`))
		for _, method := range []string{"ping", "initialize", "logging/setLevel", "resources/subscribe", "tools/none"} {
			status, body := w.ask(method, "", `{}`)
			expectPart(t, body, `"code":-32601`)
			if status != http.StatusNotFound {
				t.Errorf("%s: status %d", method, status)
			}
		}
		for _, method := range []string{http.MethodGet, http.MethodDelete} {
			if got := w.with(revisionHeader, modern).status(method, ""); got != http.StatusMethodNotAllowed {
				t.Errorf("%s: status %d", method, got)
			}
		}
	})
}

// A header that does not say what the body says is refused, and so is a revision
// that is not served.
func TestWhatRequestsSayOfThemselves(t *testing.T) {
	f := newFleet()
	f.answer = answers(`{}`)
	call := request(1, "tools/call", stray(`{"name":"é"}`))
	overHTTP(t, f, nil, func(t *testing.T, _ *Gateway, w *web) {
		good := w.with(revisionHeader, modern).with(methodHeader, "tools/call").with(nameHeader, "=?base64?w6k=?=")
		for _, tt := range []struct {
			name   string
			w      *web
			body   string
			status int
			part   string
		}{
			{"all is well", good, call, 200, `"result":{"resultType":"complete"}`},
			{"no revision in the header", good.with(revisionHeader, ""), call, 400, `"code":-32020`},
			{"an earlier one in the header", good.with(revisionHeader, "2025-11-25"), call, 400, `"code":-32020`},
			{"another method", good.with(methodHeader, "tools/list"), call, 400, `"code":-32020`},
			{"no method", good.with(methodHeader, ""), call, 400, `"code":-32020`},
			{"another name", good.with(nameHeader, "x"), call, 400, `"code":-32020`},
			{"no name", good.with(nameHeader, ""), call, 400, `"code":-32020`},
			{"a name that is no base64", good.with(nameHeader, "=?base64?é?="), call, 400, `"code":-32020`},
			{"nothing in the body", good, request(1, "tools/call", `{"name":"é"}`), 400, `"code":-32602`},
			{"no capabilities", good, strings.Replace(call, `{}}`, `7}`, 1), 400, `"code":-32602`},
			{"no text for a revision", good, strings.Replace(call, `"2026-07-28"`, `7`, 1), 400, `"code":-32602`},
			{"a later revision", good.with(revisionHeader, "2099-01-01"), strings.Replace(call, modern, "2099-01-01", 1), 400, `"code":-32022`},
			{"a revision that never was", good.with(revisionHeader, "1900-01-01"), strings.Replace(call, modern, "1900-01-01", 1), 400, `"data":{"supported":["2026-07-28","2025-11-25","2025-06-18","2025-03-26","2024-11-05"],"requested":"1900-01-01"}`},
			{"one in the header alone", good.with(revisionHeader, "1900-01-01"), request(1, "ping", `{}`), 400, `"requested":"1900-01-01"`},
			{"initialize, whatever the header", w.with(revisionHeader, modern), request(0, "initialize", hello), 200, `"protocolVersion":"2025-06-18"`},
			{"a notification", good, notice("notifications/cancelled", `{"requestId":1}`), 202, ``},
		} {
			status, body := tt.w.post(tt.body)
			if status != tt.status || !strings.Contains(body, tt.part) {
				t.Errorf("%s: %d %s", tt.name, status, body)
			}
		}
	})
}

// Arguments that a tool's schema wants in headers are there, and are the same.
func TestArgumentsInHeaders(t *testing.T) {
	f := newFleet(`{"name":"a","inputSchema":{"properties":{"n":{"type":"integer","x-mcp-header":"N"},"in":{"properties":{"s":{"type":"string","x-mcp-header":"Text"}}},"b":{"type":"boolean","x-mcp-header":"B"}}}}`)
	f.answer = answers(`{}`)
	overHTTP(t, f, nil, func(t *testing.T, _ *Gateway, w *web) {
		for _, tt := range []struct {
			arguments string
			headers   [3]string // N, Text, B
			ok        bool
		}{
			{`{}`, [3]string{}, true},
			{`{"n":null}`, [3]string{}, true},
			{`{"n":42,"in":{"s":"é"},"b":true}`, [3]string{"42.0", "=?base64?w6k=?=", "true"}, true},
			{`{"n":42}`, [3]string{"", "", ""}, false},
			{`{"n":42}`, [3]string{"43", "", ""}, false},
			{`{"n":42}`, [3]string{"x", "", ""}, false},
			{`{}`, [3]string{"42", "", ""}, false},
			{`{"in":{"s":"a"}}`, [3]string{"", "b", ""}, false},
			{`{"in":{"s":"a"}}`, [3]string{"", "=?base64?%?=", ""}, false},
			{`{"b":true}`, [3]string{"", "", "TRUE"}, false},
		} {
			n, body := w.asks("tools/call", "s__a", `{"name":"s__a","arguments":`+tt.arguments+`}`)
			n = n.with("Mcp-Param-N", tt.headers[0]).with("Mcp-Param-Text", tt.headers[1]).with("Mcp-Param-B", tt.headers[2])
			_, body = n.post(body)
			if ok := strings.Contains(body, `"result"`); ok != tt.ok || !ok && !strings.Contains(body, `"code":-32020`) {
				t.Errorf("%s with %v: %s", tt.arguments, tt.headers, body)
			}
		}
	})
}

// R22: who listens hears of what it asked for alone, each time with its id.
func TestListening(t *testing.T) {
	f := newFleet()
	overHTTP(t, f, nil, func(t *testing.T, g *Gateway, w *web) {
		n, body := w.asks("subscriptions/listen", "", wantsTools)
		if got := n.with("Accept", "application/json").status(http.MethodPost, body); got != http.StatusNotAcceptable {
			t.Errorf("status %d", got)
		}
		p := n.stream(http.MethodPost, body)
		expect(t, p.next(), "data: "+acknowledged)
		begun := time.Now()
		f.list(`{"name":"a"}`)
		expect(t, p.next(), "data: "+heard)
		within(t, begun, settle)
		f.fail() // nothing that a client sees
		expect(t, p.next(), ":")
		within(t, begun, settle+heartbeat)
		p.close()
		synctest.Wait()
		g.mu.Lock()
		if n := len(g.listeners); n > 0 {
			t.Errorf("%d listeners are left", n)
		}
		g.mu.Unlock()
		none, body := w.asks("subscriptions/listen", "", `{"notifications":{}}`)
		p = none.stream(http.MethodPost, body)
		expectPart(t, p.next(), "acknowledged", `"notifications":{}`)
		expect(t, p.next(), "data: "+over)
		p.close()
		// The gateway's end is told.
		p = n.stream(http.MethodPost, request(1, "subscriptions/listen", stray(wantsTools)))
		p.next()
		g.close()
		expect(t, p.next(), "data: "+over)
		expect(t, p.next(), "")
		p.close()
	})
}

// A listener that does not read loses its stream, and costs the others nothing.
func TestASlowListener(t *testing.T) {
	f := newFleet()
	overHTTP(t, f, nil, func(t *testing.T, g *Gateway, w *web) {
		n, body := w.asks("subscriptions/listen", "", wantsTools)
		slow, other := n.stream(http.MethodPost, body), n.stream(http.MethodPost, body)
		other.next()
		for range 3 * maxWaiting { // connections buffer some
			g.announce(tools)
			synctest.Wait()
			expect(t, other.next(), "data: "+heard)
		}
		time.Sleep(2 * writeLimit)
		g.mu.Lock()
		if n := len(g.listeners); n != 1 {
			t.Errorf("%d listeners are left", n)
		}
		g.mu.Unlock()
		slow.close()
		other.close()
	})
}

// On standard streams both kinds of revision are spoken in turn, as each request
// says.
func TestRevisionsAlternateOnStdio(t *testing.T) {
	f := newFleet()
	bubble(t, f, nil, func(t *testing.T, g *Gateway) {
		cancelled := make(chan string, 1)
		f.answer = hangs(cancelled)
		p := dial(t, g)
		defer p.close()
		expectPart(t, p.ask(0, "server/discover", stray(`{}`)), `"supportedVersions":["2026-07-28"`)
		expectPart(t, p.ask(0, "server/discover", strings.Replace(stray(`{}`), modern, "2099-01-01", 1)), `"code":-32022`)
		expectPart(t, p.ask(0, "server/discover", strings.Replace(stray(`{}`), "clientCapabilities", "x", 1)), `"code":-32602`)
		expectPart(t, p.ask(0, "ping", stray(`{}`)), `"code":-32601`)
		expect(t, p.ask(1, "subscriptions/listen", stray(wantsTools)), acknowledged)
		expectPart(t, p.ask(2, "initialize", hello), `"protocolVersion":"2025-06-18"`)
		p.send(initialized)
		f.list(`{"name":"a"}`)
		both := p.next() + p.next()
		expectPart(t, both, changed, heard)
		p.send(notice("notifications/cancelled", `{"requestId":1}`)) // has no answer
		p.send(request(3, "tools/call", stray(`{"name":"a","arguments":{"n":3}}`)))
		synctest.Wait()
		f.list(`{"name":"b"}`)
		expect(t, p.next(), changed)
		p.send(notice("notifications/cancelled", `{"requestId":3}`))
		expect(t, <-cancelled, `{"n":3}`)
		expect(t, p.ask(4, "ping", `{}`), result(4, `{}`))
	})
}

// Closing the answer is what cancels a request without a session, and nothing else
// does.
func TestClosingCancels(t *testing.T) {
	f := newFleet()
	overHTTP(t, f, nil, func(t *testing.T, g *Gateway, w *web) {
		cancelled := make(chan string, 1)
		f.answer = hangs(cancelled)
		n, body := w.asks("tools/call", "x", `{"name":"x","arguments":{"n":1}}`)
		p := n.stream(http.MethodPost, body) // of a call that takes long
		for _, foreign := range []*web{w, w.with(revisionHeader, modern), w.with(revisionHeader, "2025-11-25"), n.with(revisionHeader, "")} {
			if got := foreign.status(http.MethodPost, notice("notifications/cancelled", `{"requestId":1}`)); got != http.StatusAccepted {
				t.Errorf("status %d", got)
			}
		}
		synctest.Wait()
		if len(cancelled) > 0 {
			t.Fatal("a foreign cancellation reached a call")
		}
		p.close()
		expect(t, <-cancelled, `{"n":1}`)
		ended := make(chan string, 1)
		go func() {
			_, body := n.post(body)
			ended <- body
		}()
		synctest.Wait()
		g.close()
		expect(t, <-cancelled, `{"n":1}`)
		expectPart(t, <-ended, `"code":-32800`)
	})
}

// Without a session whoever wants log messages says so each time.
func TestLogsWithoutASession(t *testing.T) {
	f := newFleet()
	f.answer = func(_ context.Context, _ string, _ []byte, o *session.CallOptions) (*session.Result, error) {
		o.Log(jsontext.Value(`{"level":"info","data":1}`))
		o.Log(jsontext.Value(`{"level":"error","data":2}`))
		o.Progress(jsontext.Value(`{"progress":1}`))
		return &session.Result{JSON: jsontext.Value(`{}`)}, nil
	}
	progress := "data: " + notice("notifications/progress", `{"progressToken":7,"progress":1}`)
	overHTTP(t, f, nil, func(t *testing.T, _ *Gateway, w *web) {
		for says, want := range map[string][]string{
			``: {progress},
			`,"io.modelcontextprotocol/logLevel":"error"`: {"data: " + notice("notifications/message", `{"level":"error","data":2}`), progress},
			`,"io.modelcontextprotocol/logLevel":"loud"`:  {progress},
		} {
			n, body := w.asks("tools/call", "x", `{"name":"x"}`)
			p := n.stream(http.MethodPost, strings.Replace(body, `{}}`, `{},"progressToken":7`+says+`}`, 1))
			for _, line := range want {
				expect(t, p.next(), line)
			}
			expect(t, p.next(), "data: "+result(1, `{"resultType":"complete"}`))
			p.close()
		}
	})
}

// R14: where clients are not known, a server is waited for from the first that
// lists on, and by none for longer; what is missing is never fresh.
func TestListsWithoutASessionWaitOnce(t *testing.T) {
	f := newFleet()
	overHTTP(t, f, nil, func(t *testing.T, _ *Gateway, w *web) {
		w = w.with("Accept", "application/json")
		f.await("slow")
		begun := time.Now()
		missing := result(1, `{"resultType":"complete","ttlMs":0,"cacheScope":"private","tools":[],`+about+`,"toolfleet/missing":["slow"]}}`)
		for range 3 {
			_, body := w.ask("tools/list", "", `{}`)
			expect(t, body, missing)
			within(t, begun, DefaultStartupWait)
		}
		f.await("slow", "x")
		f.signal()
		_, body := w.ask("tools/list", "", `{}`)
		expectPart(t, body, `["slow","x"]`)
		within(t, begun, 2*DefaultStartupWait)
		// One that was there in between is waited for again.
		f.await()
		w.ask("tools/list", "", `{}`)
		f.await("slow")
		begun = time.Now()
		time.AfterFunc(time.Second, func() {
			f.await()
			f.list(`{"name":"a"}`)
		})
		_, body = w.ask("tools/list", "", `{}`)
		expectPart(t, body, `"s__a"`)
		within(t, begun, time.Second)
		f.mu.Lock()
		f.servers = []projections.Status{{ID: "bad", State: projections.AuthRequired, Status: projections.IsDisconnected, Want: "running"}}
		f.mu.Unlock()
		_, body = w.ask("server/discover", "", `{}`)
		expectPart(t, body, `"instructions":"Not working when you connected, so without tools: bad (auth-required)."`)
	})
}

// Some clients take no tool without a description: it gets one, and that alone.
func TestDescriptions(t *testing.T) {
	for d, want := range map[string]string{
		`{"name":"a"}`:                         `{"description":"The tool a of server s.","name":"s__a"}`,
		`{"name":"a","description":""}`:        `{"name":"s__a","description":"The tool a of server s."}`,
		`{"name":"a","description":null}`:      `{"name":"s__a","description":"The tool a of server s."}`,
		`{"name":"a","description":"x\u0301"}`: `{"name":"s__a","description":"x\u0301"}`,
	} {
		f := newFleet(d)
		got, err := shownTool(&f.tools[0])
		if err != nil {
			t.Error(err)
		}
		expect(t, string(got), want)
	}
}
