package gateway

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/errors"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/session"
)

// refused is a server's own error.
func refused(code int, message, data string) error {
	return &session.CallError{Outcome: session.ErrFailed, Server: "a", RPCCode: code, Failure: events.Failure{Message: message}, RPCData: jsontext.Value(data)}
}

// M14: a resource keeps its server's URI, unless another server has that before
// it; both can be read by URIs that name their servers.
func TestResources(t *testing.T) {
	f := newFleet()
	f.resources = []session.Resource{aResource("a", "m:2"), aResource("a", "x:1"), aResource("b", "x:1"), aResource("b", "z:é/%41 ")}
	var asked []string
	f.ask = func(method string, server events.ServerID, what, _ string) (string, error) {
		asked = append(asked, fmt.Sprintf("%s %s %s", method, server, what))
		return `{"contents":[{"uri":"x:1","n":1.0}]}`, nil
	}
	bubble(t, f, &Options{PageSize: 3}, func(t *testing.T, g *Gateway) {
		p := greet(t, g)
		defer p.close()
		first := p.ask(1, "resources/list", `{}`)
		expectPart(t, first, `"result":{"resources":[{"size":1.0,"uri":"m:2"},{"size":1.0,"uri":"toolfleet://b/x:1"},{"size":1.0,"uri":"x:1"}],"nextCursor":"`)
		_, cursor, _ := strings.Cut(strings.TrimSuffix(first, `"}}`), `"nextCursor":"`)
		expect(t, p.ask(1, "resources/list", fmt.Sprintf(`{"cursor":%q}`, cursor)), result(1, `{"resources":[{"size":1.0,"uri":"z:é/%41 "}]}`))
		expectPart(t, p.ask(1, "resources/list", `{"cursor":"?"}`), `"code":-32602`)
		for uri, want := range map[string]string{
			"x:1": "read a x:1", "toolfleet://b/x:1": "read b x:1", "toolfleet://a/x:1": "read a x:1", "m:2": "read a m:2",
			"toolfleet://b/z:%C3%A9%2F%2541%20": "read b z:é/%41 ", "z:é/%41 ": "read b z:é/%41 ", "toolfleet://c/not:listed": "read c not:listed",
		} {
			asked = nil
			expect(t, p.ask(1, "resources/read", fmt.Sprintf(`{"uri":%q}`, uri)), result(1, `{"contents":[{"uri":"x:1","n":1.0}]}`))
			expect(t, strings.Join(asked, ","), want)
		}
		for _, uri := range []string{"", "y:1", "toolfleet://", "toolfleet://b", "toolfleet:///x", "toolfleet://b/", "toolfleet://b/%"} {
			expectPart(t, p.ask(1, "resources/read", fmt.Sprintf(`{"uri":%q}`, uri)), `"code":-32002`, fmt.Sprintf(`"data":{"uri":%q}`, uri))
		}
		expectPart(t, p.ask(1, "resources/subscribe", `{"uri":"x:1"}`), `"code":-32601`)
	})
}

// A URI that nobody lists is read where a template matches, by the first that does
// not refuse.
func TestTemplates(t *testing.T) {
	f := newFleet()
	f.templates = []session.Template{aTemplate("a", "n:/{x}"), aTemplate("b", "n:/{x}"), aTemplate("b", "n:/{+all}"), aTemplate("c", "n:/{x}")}
	var asked []string
	bubble(t, f, nil, func(t *testing.T, g *Gateway) {
		p := greet(t, g)
		defer p.close()
		expect(t, p.ask(1, "resources/templates/list", `{}`), result(1, `{"resourceTemplates":[{"uriTemplate":"n:/{+all}","of":"b"},{"uriTemplate":"n:/{x}","of":"a"}]}`))
		for _, tt := range []struct {
			uri   string
			fails map[events.ServerID]error
			asked string
			part  string
		}{
			{"n:/1", nil, "a", `"contents":["a"]`},
			{"n:/1/2", nil, "b", `"contents":["b"]`},
			{"n:/1", map[events.ServerID]error{"a": refused(-32002, "none here", `{"why":1.0}`)}, "a b", `"contents":["b"]`},
			{"n:/1", map[events.ServerID]error{"a": refused(-32002, "none here", `{"why":1.0}`), "b": refused(-1, "no", ""), "c": refused(-1, "no", "")}, "a b c", `{"code":-32002,"message":"none here","data":{"why":1.0}}`},
			{"n:/1", map[events.ServerID]error{"a": &session.CallError{Outcome: session.ErrUnknownOutcome}}, "a", `"code":-32603`},
			{"n:/1", map[events.ServerID]error{"a": errors.Mark(errors.New("?"), session.ErrUnknownServer)}, "a", `"code":-32002`},
			{"n:/1", map[events.ServerID]error{"a": &session.CallError{Outcome: session.ErrCancelled}}, "a", `"code":-32800`},
		} {
			asked = nil
			f.ask = func(_ string, server events.ServerID, _, _ string) (string, error) {
				asked = append(asked, string(server))
				return fmt.Sprintf(`{"contents":[%q]}`, server), tt.fails[server]
			}
			expectPart(t, p.ask(1, "resources/read", fmt.Sprintf(`{"uri":%q}`, tt.uri)), tt.part)
			expect(t, strings.Join(asked, " "), tt.asked)
		}
	})
}

func TestPatterns(t *testing.T) {
	for _, tt := range []struct {
		template, uri string
		want          bool
	}{
		{"file:///{path}", "file:///a.txt", true},
		{"file:///{path}", "file:///", true},
		{"file:///{path}", "file:///a/b", false},
		{"file:///{path}", "file:///a?b", false},
		{"file:///{path*}", "file:///a/b", true},
		{"file:///{+path}", "file:///a/b\nc", true},
		{"x:{a}.{b}!", "x:1.2!", true},
		{"x:{a}.{b}!", "x:1.2", false},
		{"x:{?q,r}", "x:?q=1&r=2", true},
		{"x:{a,b}", "x:1,2/3", true},
		{"x:.*", "x:abc", false},
		{"x:.*", "x:.*", true},
		{"x:{a", "x:{a", false},
		{"x:}", "x:}", false},
		{"x:{}}", "x:", false},
		{"x:{{a}}", "x:1", false},
	} {
		p := patternOf(tt.template)
		if got := p != nil && p.MatchString(tt.uri); got != tt.want {
			t.Errorf("%s matches %q: %v", tt.template, tt.uri, got)
		}
	}
}

// Without a session no result of reading may be kept unless its server says so,
// and what is not found has another code.
func TestReadingWithoutASession(t *testing.T) {
	f := newFleet()
	f.resources = []session.Resource{aResource("a", "x:é")}
	overHTTP(t, f, nil, func(t *testing.T, _ *Gateway, w *web) {
		name := "=?base64?eDrDqQ==?="
		for answer, want := range map[string]string{
			`{"contents":[]}`: `{"resultType":"complete","ttlMs":0,"cacheScope":"private","contents":[]}`,
			`{"ttlMs":9,"contents":[],"cacheScope":"public"}`: `{"resultType":"complete","ttlMs":9,"contents":[],"cacheScope":"public"}`,
			`{}`: `{"resultType":"complete","ttlMs":0,"cacheScope":"private"}`,
		} {
			f.ask = func(string, events.ServerID, string, string) (string, error) { return answer, nil }
			_, body := w.ask("resources/read", name, `{"uri":"x:é"}`)
			expect(t, body, result(1, want))
		}
		for code, want := range map[int]int{-32002: -32602, -32602: -32602, -32601: -32603, -32022: -32603, -32042: -32603, -32050: -32603, 7: 7} {
			f.ask = func(string, events.ServerID, string, string) (string, error) { return "", refused(code, "m", "") }
			status, body := w.ask("resources/read", name, `{"uri":"x:é"}`)
			expect(t, body, fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"error":{"code":%d,"message":"m"}}`, want))
			if status != http.StatusOK {
				t.Errorf("status %d", status)
			}
		}
		_, body := w.ask("resources/read", "x:2", `{"uri":"x:2"}`)
		expect(t, body, `{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"no server has this resource","data":{"uri":"x:2"}}}`)
		if status, _ := w.ask("resources/read", "x:2", `{"uri":"x:é"}`); status != http.StatusBadRequest {
			t.Errorf("status %d", status)
		}
		_, body = w.ask("resources/list", "", `{}`)
		expectPart(t, body, `{"resultType":"complete","ttlMs":250,"cacheScope":"private","resources":[{"size":1.0,"uri":"x:é"}],"_meta":`)
		_, body = w.ask("resources/templates/list", "", `{}`)
		expectPart(t, body, `"resourceTemplates":[],"_meta"`)
	})
}

func TestPrompts(t *testing.T) {
	f := newFleet()
	f.prompts = []session.Prompt{aPrompt("a", "p"), aPrompt("b", "p")}
	f.prompts[1].Description = "d"
	f.templates = []session.Template{aTemplate("b", "n:/{x}")}
	f.resources = []session.Resource{aResource("a", "x:1"), aResource("c", "x:1")}
	var asked string
	var fails error
	f.ask = func(method string, server events.ServerID, what, arguments string) (string, error) {
		asked = method + " " + string(server) + " " + what + " " + arguments
		return `{"messages":[ 1.0 ]}`, fails
	}
	bubble(t, f, nil, func(t *testing.T, g *Gateway) {
		p := greet(t, g)
		defer p.close()
		expect(t, p.ask(1, "prompts/list", `{}`), result(1, `{"prompts":[{"description":"The prompt p of server a.","name":"a__p","x":1.0},{"name":"b__p","x":1.0}]}`))
		expect(t, p.ask(1, "prompts/get", `{"name":"a__p","arguments":{"x":"y"}}`), result(1, `{"messages":[ 1.0 ]}`))
		expect(t, asked, `prompt  a__p {"x":"y"}`)
		expect(t, p.ask(1, "prompts/get", stray(`{"name":"a__p","arguments":null}`)), result(1, `{"resultType":"complete","messages":[ 1.0 ]}`))
		expect(t, asked, `prompt  a__p `)
		for ref, want := range map[string]string{
			`{"type":"ref/prompt","name":"b__p","title":"T"}`:   `complete b  {"ref":{"type":"ref/prompt","name":"p","title":"T"},"argument":{"name":"x","value":"v"}}`,
			`{"type":"ref/resource","uri":"n:/{x}"}`:            `complete b  {"ref":{"type":"ref/resource","uri":"n:/{x}"},"argument":{"name":"x","value":"v"}}`,
			`{"type":"ref/resource","uri":"toolfleet://c/x:1"}`: `complete c  {"ref":{"type":"ref/resource","uri":"x:1"},"argument":{"name":"x","value":"v"}}`,
		} {
			expect(t, p.ask(1, "completion/complete", stray(`{"ref":`+ref+`,"argument":{"name":"x","value":"v"}}`)), result(1, `{"resultType":"complete","messages":[ 1.0 ]}`))
			expect(t, asked, want)
		}
		asked = ""
		for _, ref := range []string{`{"type":"ref/prompt","name":"p"}`, `{"type":"ref/resource","uri":"y"}`, `{"type":"?"}`, `7`} {
			expectPart(t, p.ask(1, "completion/complete", `{"ref":`+ref+`,"argument":{}}`), `"code":-32602`)
		}
		expect(t, asked, "")
		fails = refused(-32601, "unknown method", "")
		expect(t, p.ask(1, "completion/complete", `{"ref":{"type":"ref/prompt","name":"b__p"},"argument":{}}`), result(1, `{"completion":{"values":[]}}`))
		fails = errors.Mark(errors.New("unknown prompt"), session.ErrUnknownPrompt)
		expectPart(t, p.ask(1, "prompts/get", `{"name":"x"}`), `"code":-32602`)
		expectPart(t, p.ask(1, "completion/complete", `{"ref":{"type":"ref/prompt","name":"b__p"},"argument":{}}`), `"code":-32602`)
	})
}

// R22: each kind of list is told of by itself, when clients see a difference.
func TestChangesOfEachKind(t *testing.T) {
	f := newFleet()
	bubble(t, f, nil, func(t *testing.T, g *Gateway) {
		p := greet(t, g)
		defer p.close()
		p.ask(1, "subscriptions/listen", stray(`{"notifications":{"promptsListChanged":true,"resourcesListChanged":true}}`))
		told := func(methods ...string) {
			t.Helper()
			time.Sleep(time.Second)
			p.send(request(2, "ping", `{}`))
			var got []string
			for line := p.next(); line != result(2, `{}`); line = p.next() {
				got = append(got, line)
			}
			slices.Sort(got)
			var want []string
			for _, m := range methods {
				want = append(want, notice("notifications/"+m+"/list_changed", `{}`))
				if m != "tools" {
					want = append(want, notice("notifications/"+m+"/list_changed", `{"_meta":{"io.modelcontextprotocol/subscriptionId":1}}`))
				}
			}
			slices.Sort(want)
			expect(t, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
		f.list(`{"name":"a"}`)
		told("tools")
		f.change(func() { f.resources = []session.Resource{aResource("a", "x:1")} })
		told("resources")
		f.change(func() { f.templates = []session.Template{aTemplate("a", "x:{n}")} })
		told("resources")
		f.change(func() {
			f.resources = slices.Clone(f.resources)
			f.resources[0].State = "stale"
		})
		told()
		f.change(func() { f.prompts = []session.Prompt{aPrompt("a", "p")} })
		told("prompts")
		f.change(func() { f.prompts, f.resources, f.tools = nil, nil, nil })
		told("prompts", "resources", "tools")
	})
}

// What is in a URI comes back as it was.
func FuzzURI(f *testing.F) {
	for _, seed := range []string{"file:///a b", "x:%", "toolfleet://a/b", "", "é/?#"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, uri string) {
		got, ok := unqualified(qualified("s", uri))
		if ok != (uri != "") || ok && got != (target{"s", uri}) {
			t.Errorf("%q became %+v, %v", uri, got, ok)
		}
		unqualified(uri)
		if p := patternOf(uri); p != nil && !strings.Contains(uri, "{") && !p.MatchString(uri) {
			t.Errorf("%q does not match itself", uri)
		}
	})
}
