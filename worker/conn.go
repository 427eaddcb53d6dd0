package worker

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/errors"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/mcp"
)

const (
	// progressQueue bounds progress notifications of one call that wait for the
	// bus; what comes on top of it is left out.
	progressQueue = 64

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
	// changed holds one signal that the tools may have changed.
	changed chan struct{}
	// logged takes log messages.
	logged func(params jsontext.Value)

	mu       sync.Mutex // guards progress
	progress map[string]chan<- jsontext.Value
}

func newNotices() *notices {
	return &notices{changed: make(chan struct{}, 1), logged: func(jsontext.Value) {}, progress: make(map[string]chan<- jsontext.Value)}
}

// take takes a notification.
func (n *notices) take(method string, params jsontext.Value) {
	switch method {
	case string(mcp.MethodNotificationToolsListChanged):
		n.change()
	case mcp.MethodNotificationSubscriptionsAcknowledged:
		n.change() // what was announced before it is lost
	case "notifications/message":
		n.logged(params)
	case "notifications/progress":
		var p struct {
			Token jsontext.Value `json:"progressToken"`
		}
		var token string
		if json.Unmarshal(params, &p) != nil || json.Unmarshal(p.Token, &token) != nil {
			return
		}
		n.mu.Lock()
		defer n.mu.Unlock()
		if to, ok := n.progress[token]; ok {
			select {
			case to <- params:
			default:
			}
		}
	}
}

func (n *notices) change() {
	select {
	case n.changed <- struct{}{}:
	default: // one signal is enough
	}
}

// follow returns the progress of a call, until stop is called.
func (n *notices) follow(token string) (progress <-chan jsontext.Value, stop func()) {
	c := make(chan jsontext.Value, progressQueue)
	n.mu.Lock()
	defer n.mu.Unlock()
	n.progress[token] = c
	return c, func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		delete(n.progress, token)
	}
}

// listTools lists all tools, page by page. A server that offers none, or has no
// such method although it said so, has an empty list.
func (c *conn) listTools(ctx context.Context, x *exchange) ([]jsontext.Value, error) {
	if !c.hello.tools {
		return nil, nil
	}
	var all []jsontext.Value
	var request mcp.ListToolsRequest
	size := 0
	seen := map[mcp.Cursor]bool{"": true}
	for range maxToolPages {
		_, err := c.client.ListToolsByPage(withExchange(ctx, x), request)
		switch {
		case x.failure != nil && x.failure.Code == codeMethodNotFound:
			return nil, nil
		case x.failure != nil:
			return nil, x.failure
		case x.result == nil: // the library's own decoding may well have failed
			return nil, withoutURL(err)
		}
		page, err := decodeToolPage(x.result)
		if err != nil {
			return nil, errors.Wrap(err, "read the answer to tools/list")
		}
		x.result = nil
		for _, t := range page.Tools {
			size += len(t)
		}
		all = append(all, page.Tools...)
		switch cursor := mcp.Cursor(page.NextCursor); {
		case size > maxToolsBytes:
			return nil, errors.Newf("the tools have more than %d bytes", maxToolsBytes)
		case len(all) > maxTools:
			return nil, errors.Newf("there are more than %d tools", maxTools)
		case cursor == "":
			return all, nil
		case seen[cursor]:
			return nil, errors.New("a cursor of tools/list came again")
		default:
			seen[cursor], request.Params.Cursor = true, cursor
		}
	}
	return nil, errors.Newf("the tools have more than %d pages", maxToolPages)
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

// listen keeps a subscription to changes of the tools open, which the stateless
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
		_ = c.client.Listen(withExchange(ctx, x), mcp.SubscriptionFilter{ToolsListChanged: true}) // it is tried again
		if x.failure != nil && x.failure.Code == codeMethodNotFound || await(ctx.Done(), nil, wait) {
			return
		}
	}
}
