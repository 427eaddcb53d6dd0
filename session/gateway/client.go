package gateway

import (
	"context"
	"slices"
	"sync"

	"github.com/cockroachdb/errors"
	"github.com/go-json-experiment/json/jsontext"
)

// Revisions of the protocol that are served, the newest first.
var Revisions = []string{"2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"}

// maxInFlight bounds the requests of one client that are not answered yet; agents
// have a few.
const maxInFlight = 256

var (
	// errWithdrawn is why a request ends that its client has cancelled.
	errWithdrawn = errors.New("cancelled by the client")
	// errEnded is why requests end that are in flight at the end of a client.
	errEnded = errors.New("the client's session has ended")
)

// client is one MCP client, from initialize to its end.
type client struct {
	gateway *Gateway
	done    chan struct{} // closed at the end
	// requests are those in flight; none begins after the end.
	requests sync.WaitGroup

	mu sync.Mutex // guards what follows
	// greeted says that initialize was answered, ready that the client has said
	// that it may be sent notifications.
	greeted, ready bool
	level          level
	// waited says that the client's first list has been waited for.
	waited bool
	// listed is the number of the list that the client has, if hasOne.
	listed uint64
	hasOne bool
	// inFlight holds what cancels each request, by its id.
	inFlight map[string]context.CancelCauseFunc
	// stream is where notifications go that belong to no request, or nil.
	stream *queue
	closed bool
}

// newClient returns a client whose notifications go to a stream, which may be nil.
func newClient(g *Gateway, stream *queue) *client {
	return &client{
		gateway: g, done: make(chan struct{}), level: defaultLevel,
		inFlight: make(map[string]context.CancelCauseFunc), stream: stream,
	}
}

// begin makes a request one that can be cancelled. What follows is
// [client.request], and then end.
func (c *client) begin(ctx context.Context, id jsontext.Value) (_ context.Context, end func(), err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	key := string(id)
	switch _, used := c.inFlight[key]; {
	case c.closed:
		return nil, nil, errEnded
	case used:
		return nil, nil, &rpcError{Code: codeInvalidRequest, Message: "a request with the id " + key + " is in flight"}
	case len(c.inFlight) >= maxInFlight:
		return nil, nil, &rpcError{Code: codeBusy, Message: "too many requests are in flight: wait for one to end"}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	c.inFlight[key] = cancel
	c.requests.Add(1)
	return ctx, func() {
		cancel(nil)
		c.requests.Done()
	}, nil
}

// request answers a request that has begun; notify takes, in order, the
// notifications that belong to it, and does not block. A request that its client
// has cancelled has no answer.
func (c *client) request(ctx context.Context, m *message, notify func([]byte)) []byte {
	result, err := c.serve(ctx, m, notify)
	c.mu.Lock()
	delete(c.inFlight, string(m.ID)) // before the client can use the id again
	c.mu.Unlock()
	if errors.Is(context.Cause(ctx), errWithdrawn) {
		return nil
	}
	return answer(m.ID, result, err)
}

func (c *client) serve(ctx context.Context, m *message, notify func([]byte)) (jsontext.Value, error) {
	switch m.Method {
	case "initialize":
		return c.initialize(m.Params)
	case "ping":
		return jsontext.Value("{}"), nil
	}
	c.mu.Lock()
	greeted := c.greeted
	c.mu.Unlock()
	switch {
	case !greeted:
		return nil, &rpcError{Code: codeInvalidRequest, Message: "initialize comes first"}
	case m.Method == "tools/list":
		return c.list(ctx, m.Params)
	case m.Method == "tools/call":
		return c.call(ctx, m.Params, notify)
	case m.Method == "logging/setLevel":
		return c.setLevel(m.Params)
	default:
		return nil, &rpcError{Code: codeUnknownMethod, Message: "unknown method " + m.Method}
	}
}

type implementation struct {
	Name    string `json:"name"`
	Version string `json:"version"`
}

// greeting is the result of initialize.
type greeting struct {
	Revision     string `json:"protocolVersion"`
	Capabilities struct {
		Logging struct{} `json:"logging"`
		Tools   struct {
			ListChanged bool `json:"listChanged"`
		} `json:"tools"`
	} `json:"capabilities"`
	Server       implementation `json:"serverInfo"`
	Instructions string         `json:"instructions,omitzero"`
}

func (c *client) initialize(params jsontext.Value) (jsontext.Value, error) {
	var p struct {
		Revision string `json:"protocolVersion"`
	}
	if err := read(params, &p); err != nil {
		return nil, err
	}
	s := c.gateway.session
	g := greeting{
		Revision: p.Revision, Server: implementation{"toolfleet", c.gateway.options.Version},
		Instructions: instructions(s.Pending(), s.Status().Servers),
	}
	g.Capabilities.Tools.ListChanged = true
	if !slices.Contains(Revisions, g.Revision) {
		g.Revision = Revisions[0]
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.greeted {
		return nil, &rpcError{Code: codeInvalidRequest, Message: "initialize was answered before"}
	}
	c.greeted = true
	return mustMarshal(&g), nil
}

// notified takes a notification of the client.
func (c *client) notified(m *message) {
	switch m.Method {
	case "notifications/initialized":
		c.mu.Lock()
		c.ready = true
		c.catchUp()
		c.mu.Unlock()
	case "notifications/cancelled":
		var p struct {
			ID jsontext.Value `json:"requestId"`
		}
		if read(m.Params, &p) != nil {
			return // nobody waits for an answer
		}
		c.mu.Lock()
		cancel := c.inFlight[string(p.ID)]
		c.mu.Unlock()
		if cancel != nil {
			cancel(errWithdrawn)
		}
	}
}

// list answers tools/list.
func (c *client) list(ctx context.Context, params jsontext.Value) (jsontext.Value, error) {
	var p struct {
		Cursor string `json:"cursor"`
	}
	if err := read(params, &p); err != nil {
		return nil, err
	}
	g := c.gateway
	c.await(ctx)
	if p.Cursor != "" {
		return listOf(g.session.Status().Tools, p.Cursor, g.options.PageSize, nil)
	}
	number := g.number.Load() // before the list that is at least as new
	missing, tools := g.session.Pending(), g.session.Status().Tools
	c.mu.Lock()
	c.listed, c.hasOne = number, true
	c.mu.Unlock()
	return listOf(tools, "", g.options.PageSize, missing)
}

// await has a client's first list wait.
func (c *client) await(ctx context.Context) {
	c.mu.Lock()
	first := !c.waited
	c.waited = true
	c.mu.Unlock()
	if first {
		c.gateway.await(ctx)
	}
}

// announce tells the client that its list is old, if it has a stream.
func (c *client) announce() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ready && c.stream != nil {
		c.stream.push(notification("notifications/tools/list_changed", nil))
	}
}

// listen makes a stream the client's, in place of the one that it has, and tells
// it what happened while it had none. It returns false after the client's end.
func (c *client) listen(q *queue) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return false
	}
	if c.stream != nil {
		c.stream.end()
	}
	c.stream = q
	c.catchUp()
	return true
}

// catchUp tells a client with a stream that its list is old, if it is. The caller
// holds the lock.
func (c *client) catchUp() {
	if c.ready && c.stream != nil && c.hasOne && c.listed != c.gateway.number.Load() {
		c.stream.push(notification("notifications/tools/list_changed", nil))
	}
}

// forget is the end of a stream.
func (c *client) forget(q *queue) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stream == q {
		c.stream = nil
	}
}

// close ends the client: what is in flight is cancelled, and its stream ends.
func (c *client) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return
	}
	c.closed = true
	close(c.done)
	for _, cancel := range c.inFlight {
		cancel(errEnded)
	}
	if c.stream != nil {
		c.stream.end()
	}
}
