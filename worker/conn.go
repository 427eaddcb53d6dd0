package worker

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/mcp"

	"github.com/toolfleet/toolfleet/events/callwire"
)

const (
	// The pauses before a subscription that ended is opened again.
	firstRelisten = time.Second
	lastRelisten  = 30 * time.Second
)

// conn is one connection: one attempt, never used again after its end.
type conn struct {
	*link

	client  *client.Client
	hello   *hello
	notices *notices
	scrub   scrubber
	calls   atomic.Int32 // that wait for their answer
}

// notices is where a connection's notifications go. Its methods do not block.
type notices struct {
	// changed holds one signal for each list that it may have changed.
	changed [listKinds]chan struct{}
	// logged takes log messages.
	logged func(params jsontext.Value)

	mu sync.Mutex // guards calls
	// calls are those that wait for their answer, by their progress token.
	calls map[string]*listener
}

func newNotices() *notices {
	n := &notices{logged: func(jsontext.Value) {}, calls: make(map[string]*listener)}
	for k := range n.changed {
		n.changed[k] = make(chan struct{}, 1)
	}
	return n
}

// take takes a notification.
func (n *notices) take(method string, params jsontext.Value) {
	if k, ok := announcements[method]; ok {
		n.change(k)
		return
	}
	switch method {
	case mcp.MethodNotificationSubscriptionsAcknowledged:
		n.changeAll() // what was announced before it is lost
	case "notifications/message":
		n.logged(params)
		n.passLog(params)
	case "notifications/progress":
		var p struct {
			Token jsontext.Value `json:"progressToken"`
		}
		var token string
		if json.Unmarshal(params, &p) == nil && json.Unmarshal(p.Token, &token) == nil {
			n.mu.Lock()
			defer n.mu.Unlock()
			n.calls[token].hear(callwire.Progress, params)
		}
	}
}

// passLog passes a log message to the call that it is about. Nothing in it says
// which that is: where several wait for their answer, it could be told to a
// stranger, and is told to nobody.
func (n *notices) passLog(params jsontext.Value) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.calls) != 1 {
		return
	}
	for _, only := range n.calls {
		only.hear(callwire.Log, params)
	}
}

func (n *notices) change(k ListKind) {
	select {
	case n.changed[k] <- struct{}{}:
	default: // one signal is enough
	}
}

func (n *notices) changeAll() {
	for k := range n.changed {
		n.change(ListKind(k))
	}
}

// follow has the notices of a call sent, one after the other, until stop is called,
// which returns when none is being sent any more.
func (n *notices) follow(token string, send func(callwire.FrameKind, []byte)) (stop func()) {
	l := &listener{send: send}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.calls[token] = l
	return func() {
		n.mu.Lock()
		delete(n.calls, token)
		n.mu.Unlock()
		l.sending.Wait()
	}
}

// callTool calls a tool. X holds the raw result, or the server's error.
func (c *conn) callTool(ctx context.Context, name string, arguments jsontext.Value, meta *mcp.Meta, x *exchange) error {
	var request mcp.CallToolRequest
	request.Params.Name, request.Params.RawArguments, request.Params.Meta = name, []byte(arguments), meta
	_, err := c.client.CallTool(withExchange(ctx, x), request)
	if x.result != nil && !x.asksForInput() {
		return nil
	}
	return err
}

// listen keeps a subscription to changes of the lists open, which the stateless
// revision has instead of a stream of the server's own.
func (c *conn) listen(life context.Context) {
	ctx, cancel := context.WithCancel(life)
	defer cancel()
	go func() {
		select {
		case <-c.over:
			cancel()
		case <-ctx.Done():
		}
	}()
	for wait := firstRelisten; ; wait = min(2*wait, lastRelisten) {
		x := &exchange{}
		_ = c.client.Listen(withExchange(ctx, x), mcp.SubscriptionFilter{
			ToolsListChanged:     c.hello.offers[Tools],
			ResourcesListChanged: c.hello.offers[Resources],
			PromptsListChanged:   c.hello.offers[Prompts],
		}) // it is tried again
		if x.failure != nil && x.failure.Code == codeMethodNotFound || await(ctx.Done(), nil, wait) {
			return
		}
	}
}
