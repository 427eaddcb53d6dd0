package gateway

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/projections"
	"github.com/toolfleet/toolfleet/session"
)

// fleet is a session whose tools and answers the test decides.
type fleet struct {
	changes chan struct{}
	// known is closed when nothing is pending any more.
	known chan struct{}
	// answer answers calls.
	answer func(ctx context.Context, name string, arguments []byte, o *session.CallOptions) (*session.Result, error)

	// ask answers everything else that goes to a server.
	ask func(method string, server events.ServerID, what, arguments string) (string, error)

	mu        sync.Mutex // guards what follows
	tools     []session.Tool
	resources []session.Resource
	templates []session.Template
	prompts   []session.Prompt
	servers   []projections.Status
	pending   []events.ServerID
}

func newFleet(tools ...string) *fleet {
	f := &fleet{changes: make(chan struct{}, 1), known: make(chan struct{})}
	f.list(tools...)
	return f
}

// list makes these the tools: definitions without their servers' names.
func (f *fleet) list(definitions ...string) {
	f.mu.Lock()
	f.tools = nil
	for _, d := range definitions {
		var t struct {
			Name        string         `json:"name"`
			Description string         `json:"description"`
			Schema      jsontext.Value `json:"inputSchema"`
		}
		if err := json.Unmarshal([]byte(d), &t); err != nil {
			panic(err)
		}
		f.tools = append(f.tools, session.Tool{
			Name: "s__" + t.Name, Server: "s", Tool: t.Name, Definition: jsontext.Value(d), Description: t.Description, InputSchema: t.Schema,
		})
	}
	f.mu.Unlock()
	f.signal()
}

func (f *fleet) signal() {
	select {
	case f.changes <- struct{}{}:
	default:
	}
}

func (f *fleet) Status() session.Status {
	f.mu.Lock()
	defer f.mu.Unlock()
	return session.Status{Tools: f.tools, Servers: f.servers}
}

func (f *fleet) Tools() ([]session.Tool, events.Seq) { return f.Status().Tools, 0 }

func (f *fleet) Resources() []session.Resource {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.resources
}

func (f *fleet) Templates() []session.Template {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.templates
}

func (f *fleet) Prompts() []session.Prompt {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.prompts
}

// change changes the lists and says so.
func (f *fleet) change(how func()) {
	f.mu.Lock()
	how()
	f.mu.Unlock()
	f.signal()
}

func aResource(server events.ServerID, uri string) session.Resource {
	return session.Resource{Server: server, URI: uri, Definition: jsontext.Value(fmt.Sprintf(`{"size":1.0,"uri":%q}`, uri))}
}

func aTemplate(server events.ServerID, uri string) session.Template {
	return session.Template{Server: server, URITemplate: uri, Definition: jsontext.Value(fmt.Sprintf(`{"uriTemplate":%q,"of":%q}`, uri, server))}
}

func aPrompt(server events.ServerID, name string) session.Prompt {
	return session.Prompt{Name: string(server) + "__" + name, Server: server, Prompt: name, Definition: jsontext.Value(fmt.Sprintf(`{"name":%q,"x":1.0}`, name))}
}

func (f *fleet) Read(_ context.Context, server events.ServerID, uri string, _ *session.CallOptions) (jsontext.Value, error) {
	r, err := f.ask("read", server, uri, "")
	return jsontext.Value(r), err
}

func (f *fleet) Prompt(_ context.Context, name string, arguments []byte, _ *session.CallOptions) (jsontext.Value, error) {
	r, err := f.ask("prompt", "", name, string(arguments))
	return jsontext.Value(r), err
}

func (f *fleet) Complete(_ context.Context, server events.ServerID, params []byte) (jsontext.Value, error) {
	r, err := f.ask("complete", server, "", string(params))
	return jsontext.Value(r), err
}

func (f *fleet) Pending() []events.ServerID {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.pending)
}

func (f *fleet) await(servers ...events.ServerID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.pending, f.servers = servers, nil
	for _, id := range servers {
		f.servers = append(f.servers, projections.Status{ID: id, State: projections.Connecting, Status: projections.IsConnecting, Want: events.Running})
	}
}

// fail has every server that is pending fail, and be tried again.
func (f *fleet) fail() {
	f.mu.Lock()
	f.servers = slices.Clone(f.servers)
	for i := range f.servers {
		f.servers[i].Failure = &projections.Fault{}
	}
	f.mu.Unlock()
	f.signal()
}

func (f *fleet) WaitReady(ctx context.Context, _ ...events.ServerID) error {
	select {
	case <-f.known:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (f *fleet) Changes() <-chan struct{} { return f.changes }

func (f *fleet) Call(ctx context.Context, name string, arguments []byte, o *session.CallOptions) (*session.Result, error) {
	return f.answer(ctx, name, arguments, o)
}

// answers returns a result for every call.
func answers(result string) func(context.Context, string, []byte, *session.CallOptions) (*session.Result, error) {
	return func(context.Context, string, []byte, *session.CallOptions) (*session.Result, error) {
		return &session.Result{JSON: jsontext.Value(result)}, nil
	}
}

// hangs answers a call when it is cancelled, and says so.
func hangs(cancelled chan<- string) func(context.Context, string, []byte, *session.CallOptions) (*session.Result, error) {
	return func(ctx context.Context, name string, arguments []byte, _ *session.CallOptions) (*session.Result, error) {
		<-ctx.Done()
		cancelled <- string(arguments)
		return nil, &session.CallError{Outcome: session.ErrCancelled, Server: "s", Tool: name, Err: context.Cause(ctx)}
	}
}

// bubble runs a test with a gateway that runs, in fake time.
func bubble(t *testing.T, f *fleet, o *Options, test func(t *testing.T, g *Gateway)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		f.changes, f.known = make(chan struct{}, 1), make(chan struct{})
		g := New(f, o)
		ctx, stop := context.WithCancel(t.Context())
		ran := make(chan error, 1)
		go func() { ran <- g.Run(ctx) }()
		synctest.Wait()
		test(t, g)
		stop()
		if err := <-ran; err != nil {
			t.Error(err)
		}
	})
}

func request(id any, method, params string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%v,"method":%q,"params":%s}`, id, method, params)
}

func notice(method, params string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","method":%q,"params":%s}`, method, params)
}

func result(id any, r string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%v,"result":%s}`, id, r)
}

const (
	hello       = `{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"test","version":"1"}}`
	changed     = `{"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":{}}`
	initialized = `{"jsonrpc":"2.0","method":"notifications/initialized"}`
)

const (
	says  = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}`
	about = `"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"toolfleet","version":"devel"}`
)

// stray adds to parameters, which say nothing in _meta, what those of a request
// without a session say.
func stray(params string) string {
	comma := ","
	if params == "{}" {
		comma = ""
	}
	return "{" + says + "}" + comma + params[1:]
}

func expect(t *testing.T, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func expectPart(t *testing.T, got string, parts ...string) {
	t.Helper()
	for _, p := range parts {
		if !strings.Contains(got, p) {
			t.Errorf("got %s\nwithout %s", got, p)
		}
	}
}
