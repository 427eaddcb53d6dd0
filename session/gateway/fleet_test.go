package gateway_test

import (
	"context"
	"io"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/errors"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"
	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"

	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/events/eventstest"
	"github.com/toolfleet/toolfleet/events/jetlog"
	"github.com/toolfleet/toolfleet/projections/kvview"
	"github.com/toolfleet/toolfleet/session"
	"github.com/toolfleet/toolfleet/session/gateway"
	"github.com/toolfleet/toolfleet/worker"
	"github.com/toolfleet/toolfleet/worker/mcptest"
)

const (
	workerID    events.WorkerID    = "w"
	incarnation events.Incarnation = "life-1"
)

// fleet is a broker, a worker with real children, and the views.
type fleet struct {
	t      *testing.T
	server *eventstest.Server
	log    *jetlog.Log
	last   events.Seq // of a definition
}

func newFleet(t *testing.T) *fleet {
	t.Helper()
	f := &fleet{t: t, server: eventstest.NewServer(t, nil)}
	open := func(writer string) *jetlog.Log {
		l, err := jetlog.Open(t.Context(), f.server.Connect(writer), events.DefaultFleet, &jetlog.Options{Writer: writer})
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	log := open("worker/w")
	f.log = open("controller")
	lease, err := log.Acquire(t.Context(), "worker.w", jetlog.Holder{Folder: "folder", Incarnation: incarnation}, nil)
	if err != nil {
		t.Fatal(err)
	}
	f.run(func(ctx context.Context) error { return kvview.Project(ctx, f.log, nil) })
	f.run(lease.Run)
	f.run(func(ctx context.Context) error {
		return worker.Run(ctx, worker.Parts{Journal: log, Inbox: log, Lease: lease, Blobs: log, Calls: log},
			&worker.Options{ID: workerID, Incarnation: incarnation})
	})
	return f
}

// run runs a part until the end of the test.
func (f *fleet) run(part func(context.Context) error) {
	ctx, stop := context.WithCancel(context.WithoutCancel(f.t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- part(ctx) }()
	f.t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			f.t.Error(err)
		}
	})
}

// start has the worker run a server.
func (f *fleet) start(id events.ServerID, s mcptest.Script) {
	f.t.Helper()
	d := s.Definition(f.t)
	r, err := f.log.Append(f.t.Context(), events.Event{Chain: events.ServerChain(id), Body: events.Declared{Definition: d}}, events.Tip{})
	if err != nil {
		f.t.Fatal(err)
	}
	f.last = r.Seq
	_, err = f.log.Append(f.t.Context(), events.Event{
		Chain: events.InstanceChain(id, "0"), Epoch: 1, Body: events.Assigned{Worker: workerID, Incarnation: incarnation, Epoch: 1},
	}, events.Tip{})
	if err != nil {
		f.t.Fatal(err)
	}
	_, err = f.log.PutCommand(f.t.Context(), events.Address{Worker: workerID, Server: id, Instance: "0"}, &events.Command{
		Want: events.Running, Definition: &d, Digest: d.Digest(), Generation: r.Seq, Incarnation: incarnation, Epoch: 1,
	}, 0)
	if err != nil {
		f.t.Fatal(err)
	}
}

// serve returns a gateway to the fleet, which runs.
func (f *fleet) serve(o *gateway.Options) *gateway.Gateway {
	f.t.Helper()
	s, err := session.Open(f.t.Context(), f.server.Connect("session"), nil)
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(s.Close)
	if err := s.Wait(f.t.Context(), f.last); err != nil {
		f.t.Fatal(err)
	}
	g := gateway.New(s, o)
	f.run(g.Run)
	return g
}

// wire is what a client of the MCP library sees, and what came over the wire.
type wire struct {
	t *testing.T
	*client.Client
	raw     *capture
	changed chan string
}

// capture keeps the last result as it came.
type capture struct {
	transport.Interface
	result string
}

func (c *capture) SendRequest(ctx context.Context, r transport.JSONRPCRequest) (*transport.JSONRPCResponse, error) {
	resp, err := c.Interface.SendRequest(ctx, r)
	if resp != nil {
		c.result = string(resp.Result)
	}
	return resp, err
}

// captureHTTP also has what the client looks for in a transport over HTTP.
type captureHTTP struct {
	*capture
	http *transport.StreamableHTTP
}

func (c *captureHTTP) SetProtocolVersion(v string)  { c.http.SetProtocolVersion(v) }
func (c *captureHTTP) RequiresLegacyProtocol() bool { return c.http.RequiresLegacyProtocol() }

// connect makes the library's client of a transport, with its own way to agree on
// a revision.
func connect(t *testing.T, over transport.Interface, o ...client.ClientOption) *wire {
	t.Helper()
	w := &wire{t: t, raw: &capture{Interface: over}, changed: make(chan string, 100)}
	var through transport.Interface = w.raw
	if h, ok := over.(*transport.StreamableHTTP); ok {
		through = &captureHTTP{w.raw, h}
	}
	w.Client = client.NewClient(through, o...)
	w.OnNotification(func(n mcp.JSONRPCNotification) { w.changed <- n.Method })
	if err := w.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	r, err := w.Initialize(t.Context(), mcp.InitializeRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if r.ServerInfo.Name != "toolfleet" || r.Capabilities.Tools == nil || !r.Capabilities.Tools.ListChanged || r.Capabilities.Resources.Subscribe {
		t.Errorf("greeted with %+v", r)
	}
	return w
}

func (w *wire) close() {
	w.t.Helper()
	if err := w.Close(); err != nil {
		w.t.Error(err)
	}
}

func (w *wire) names() (names []string) {
	w.t.Helper()
	r, err := w.ListTools(w.t.Context(), mcp.ListToolsRequest{})
	if err != nil {
		w.t.Fatal(err)
	}
	for _, t := range r.Tools {
		names = append(names, t.Name)
	}
	return names
}

func (w *wire) call(ctx context.Context, name, arguments string) (*mcp.CallToolResult, error) {
	r := mcp.CallToolRequest{}
	r.Params.Name, r.Params.RawArguments = name, []byte(arguments)
	r.Params.Meta = &mcp.Meta{ProgressToken: "p"}
	return w.CallTool(ctx, r)
}

// heard waits for a notification.
func (w *wire) heard(method string) {
	w.t.Helper()
	for {
		select {
		case got := <-w.changed:
			if got == method {
				return
			}
		case <-time.After(eventstest.HangLimit):
			w.t.Fatalf("%s did not come", method)
		}
	}
}

const odd = `{"title":"T","name":"odd","description":"d","inputSchema":{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object","minProperties":1.0},"vendor":{"n":9007199254740993}}`

// R14, R20, R22: the MCP library's client sees the fleet as one server, over both
// transports, and nothing of what its servers say is lost.
func TestAFleetIsOneServer(t *testing.T) {
	f := newFleet(t)
	f.start("raw", mcptest.Script{Raw: []jsontext.Value{jsontext.Value(odd)}})
	f.start("kit", mcptest.Script{Tools: mcptest.Special})
	g := f.serve(&gateway.Options{Tokens: map[string]string{"me": "t0ken"}})
	web := httptest.NewServer(g)
	t.Cleanup(web.Close)
	for name, tt := range map[string]struct {
		dial     func(*testing.T) *wire
		revision string
	}{
		"http, with a session": {func(t *testing.T) *wire { return connect(t, overHTTP(t, web.URL), pinned) }, gateway.Revisions[1]},
		"http":                 {func(t *testing.T) *wire { return connect(t, overHTTP(t, web.URL)) }, gateway.Revisions[0]},
		"stdio, greeted":       {func(t *testing.T) *wire { return connect(t, overPipes(t, g), pinned) }, gateway.Revisions[1]},
		"stdio":                {func(t *testing.T) *wire { return connect(t, overPipes(t, g)) }, gateway.Revisions[0]},
	} {
		t.Run(name, func(t *testing.T) {
			w := tt.dial(t)
			defer w.close()
			if v := w.ProtocolVersion(); v != tt.revision {
				t.Fatalf("revision %s", v)
			}
			names := w.names()
			if len(names) != len(mcptest.Special)+1 || names[0] != "kit__ask" {
				t.Fatalf("tools %v", names)
			}
			if want := strings.Replace(odd, `"odd"`, `"raw__odd"`, 1); !strings.Contains(w.raw.result, want) {
				t.Errorf("the list has no %s:\n%s", want, w.raw.result)
			}
			_, _ = w.call(t.Context(), "kit__odd", `{}`) // whatever the library makes of it
			want := mcptest.OddResult
			if tt.revision == gateway.Revisions[0] {
				want = strings.Replace(want, "{", `{"resultType":"complete",`, 1)
			}
			if diff := cmp.Diff(want, w.raw.result); diff != "" {
				t.Errorf("result (-want +got):\n%s", diff)
			}
			r, err := w.call(t.Context(), "kit__echo", `{"n":9007199254740993}`)
			if err != nil || r.IsError || !strings.Contains(w.raw.result, `{\"n\":9007199254740993}`) {
				t.Errorf("echo: %s, %v", w.raw.result, err)
			}
			if r, err := w.call(t.Context(), "kit__rpc-error", `{}`); err != nil || !r.IsError || !strings.Contains(w.raw.result, "MCP error: ") {
				t.Errorf("rpc-error: %s, %v", w.raw.result, err)
			}
			if _, err := w.call(t.Context(), "kit__none", `{}`); !errors.Is(err, mcp.ErrInvalidParams) {
				t.Errorf("an unknown tool: %v", err)
			}
			if _, err := w.call(t.Context(), "kit__progress", `{"times":2}`); err != nil {
				t.Error(err)
			}
			w.heard("notifications/progress")
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(100*time.Millisecond, cancel)
			if _, err := w.call(ctx, "kit__sleep", `{"ms":60000}`); !errors.Is(err, context.Canceled) {
				t.Errorf("a cancelled call: %v", err)
			}
		})
	}
}

// R22
func TestAServerThatComesLate(t *testing.T) {
	f := newFleet(t)
	g := f.serve(&gateway.Options{Tokens: map[string]string{"me": "t0ken"}})
	web := httptest.NewServer(g)
	t.Cleanup(web.Close)
	// Whoever listens to the stream of a session agrees on a revision that has one.
	listening := transport.WithContinuousListening() //nolint:staticcheck // it is what these revisions have
	clients := []*wire{
		connect(t, overHTTP(t, web.URL, listening)), connect(t, overPipes(t, g), pinned),
		connect(t, overHTTP(t, web.URL)), connect(t, overPipes(t, g)),
	}
	for _, w := range clients[2:] {
		stop, err := w.ListenAsync(t.Context(), mcp.SubscriptionFilter{ToolsListChanged: true, PromptsListChanged: true}, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer stop()
		w.heard("notifications/subscriptions/acknowledged")
	}
	for _, w := range clients {
		defer w.close()
		if names := w.names(); len(names) != 0 {
			t.Errorf("tools %v", names)
		}
	}
	f.start("kit", mcptest.Script{Tools: []string{"echo", "grow"}})
	for _, w := range clients {
		w.heard("notifications/tools/list_changed")
		if diff := cmp.Diff([]string{"kit__echo", "kit__grow"}, w.names()); diff != "" {
			t.Errorf("tools (-want +got):\n%s", diff)
		}
	}
}

// R21, M16: a call that a server does not survive is answered, with an outcome that
// nobody knows, and the next one by its successor.
func TestAServerThatDiesOnACall(t *testing.T) {
	f := newFleet(t)
	f.start("kit", mcptest.Script{Tools: []string{"die", "echo"}})
	g := f.serve(&gateway.Options{Tokens: map[string]string{"me": "t0ken"}})
	web := httptest.NewServer(g)
	t.Cleanup(web.Close)
	for _, w := range []*wire{connect(t, overHTTP(t, web.URL)), connect(t, overHTTP(t, web.URL), pinned)} {
		defer w.close()
		w.names()
		r, err := w.call(t.Context(), "kit__die", `{}`)
		if err != nil || !r.IsError || !strings.Contains(w.raw.result, session.ErrUnknownOutcome.Error()) {
			t.Errorf("%s, %v", w.raw.result, err)
		}
		if r, err = w.call(t.Context(), "kit__echo", `{}`); err != nil || r.IsError {
			t.Errorf("the next: %s, %v", w.raw.result, err)
		}
	}
}

// pinned has a client begin with initialize, as those do that know no more.
var pinned = client.WithProtocolVersion(gateway.Revisions[1])

// overHTTP returns a way to a gateway for a client with its token.
func overHTTP(t *testing.T, url string, o ...transport.StreamableHTTPCOption) transport.Interface {
	t.Helper()
	h, err := transport.NewStreamableHTTP(url+"/mcp", append(o, transport.WithHTTPHeaders(map[string]string{"Authorization": "Bearer t0ken"}))...)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// overPipes serves a client on pipes.
func overPipes(t *testing.T, g *gateway.Gateway) transport.Interface {
	t.Helper()
	inRead, inWrite := io.Pipe()
	outRead, outWrite := io.Pipe()
	ended := make(chan error, 1)
	go func() { ended <- g.ServeStdio(t.Context(), inRead, outWrite) }()
	t.Cleanup(func() {
		_ = inWrite.Close() // of a pipe
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return transport.NewIO(outRead, inWrite, io.NopCloser(strings.NewReader("")))
}
