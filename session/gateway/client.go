package gateway

import (
	"context"
	"sync"

	"github.com/cockroachdb/errors"
	"github.com/go-json-experiment/json/jsontext"
)

// maxInFlight bounds the requests of one client that are not answered yet; agents
// have a few.
const maxInFlight = 256

var (
	// errWithdrawn is why a request ends that its client has cancelled.
	errWithdrawn = errors.New("cancelled by the client")
	// errEnded is why requests end that are in flight at the end of a client.
	errEnded = errors.New("the client's session has ended")
)

// client is one MCP client: on standard streams, or in a session from initialize
// to its end.
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
	// listed is the number of the list of each kind that the client has, if
	// hasOne.
	listed [kinds]uint64
	hasOne [kinds]bool
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

// request answers a request that has begun, with a frame and its HTTP status. One
// that its client has cancelled has no answer.
func (c *client) request(ctx context.Context, a *asker) ([]byte, int) {
	frame, status := a.answer(ctx)
	c.mu.Lock()
	delete(c.inFlight, string(a.message.ID)) // before the client can use the id again
	c.mu.Unlock()
	if errors.Is(context.Cause(ctx), errWithdrawn) {
		return nil, status
	}
	return frame, status
}

// admit says whether a request may come now.
func (c *client) admit(m *message) *rpcError {
	if m.Method == "initialize" || m.Method == "ping" {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.greeted {
		return &rpcError{Code: codeInvalidRequest, Message: "initialize comes first"}
	}
	return nil
}

// serve answers what only sessions have.
func (c *client) serve(m *message) (jsontext.Value, error) {
	switch m.Method {
	case "initialize":
		return c.initialize(m.Params)
	case "ping":
		return jsontext.Value("{}"), nil
	case "logging/setLevel":
		return c.setLevel(m.Params)
	default:
		return nil, unknownMethod(m.Method)
	}
}

func (c *client) initialize(params jsontext.Value) (jsontext.Value, error) {
	var p struct {
		Revision string `json:"protocolVersion"`
	}
	if err := read(params, &p); err != nil {
		return nil, err
	}
	g := c.gateway.greet(p.Revision)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.greeted {
		return nil, &rpcError{Code: codeInvalidRequest, Message: "initialize was answered before"}
	}
	c.greeted = true
	return g, nil
}

func (c *client) setLevel(params jsontext.Value) (jsontext.Value, error) {
	var p struct {
		Level string `json:"level"`
	}
	if err := read(params, &p); err != nil {
		return nil, err
	}
	n := levelOf(p.Level)
	if n == silent {
		return nil, &rpcError{Code: codeInvalidParams, Message: "unknown level: it is one of debug, info, notice, warning, error, critical, alert, emergency"}
	}
	c.mu.Lock()
	c.level = n
	c.mu.Unlock()
	return jsontext.Value("{}"), nil
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

// isFirst says, once, that the client has listed nothing before.
func (c *client) isFirst() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	first := !c.waited
	c.waited = true
	return first
}

// announce tells the client that its list is old, if it has a stream.
func (c *client) announce(k kind) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ready && c.stream != nil {
		c.stream.push(k.changed(nil))
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

// catchUp tells a client with a stream which of its lists are old. The caller holds
// the lock.
func (c *client) catchUp() {
	for k := range kinds {
		if c.ready && c.stream != nil && c.hasOne[k] && c.listed[k] != c.gateway.number[k].Load() {
			c.stream.push(k.changed(nil))
		}
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
