package gateway

import (
	"context"
	"net/http"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/toolfleet/toolfleet/session"
)

// asker is who sends one request: what the methods need to know of that.
type asker struct {
	gateway *Gateway
	message *message
	// client is the session that the request is in; nil in the revision without.
	client *client
	// header has the request's own headers, over HTTP.
	header http.Header
	// notify takes, in order, the notifications that belong to the request. It
	// does not block.
	notify func([]byte)
}

// answer answers a request with a frame and its HTTP status.
func (a *asker) answer(ctx context.Context) ([]byte, int) {
	result, err := a.serve(ctx)
	if err != nil {
		e := asRPC(err)
		return failure(a.message.ID, e), max(e.status, http.StatusOK)
	}
	return answer(a.message.ID, result, nil), http.StatusOK
}

// check says why a request is not served, if it is not.
func (a *asker) check() *rpcError {
	switch {
	case a.client != nil:
		return a.client.admit(a.message)
	case a.header != nil:
		return nil // the headers were checked, and the message with them
	default:
		return a.message.check()
	}
}

func (a *asker) serve(ctx context.Context) (jsontext.Value, error) {
	if err := a.check(); err != nil {
		return nil, err
	}
	ctx = a.traced(ctx)
	switch m := a.message; m.Method {
	case "tools/list":
		return a.list(ctx, tools, "tools", a.listTools)
	case "tools/call":
		return a.complete(a.call(ctx))
	case "resources/list":
		return a.list(ctx, resources, "resources", a.listResources)
	case "resources/templates/list":
		return a.list(ctx, resources, "resourceTemplates", a.listTemplates)
	case "resources/read":
		return a.read(ctx)
	case "prompts/list":
		return a.list(ctx, prompts, "prompts", a.listPrompts)
	case "prompts/get":
		return a.prompt(ctx)
	case "completion/complete":
		return a.completion(ctx)
	}
	if a.client != nil {
		return a.client.serve(a.message)
	}
	switch a.message.Method {
	case "server/discover":
		return a.gateway.discover(), nil
	case "subscriptions/listen":
		return a.listen(ctx)
	default:
		e := unknownMethod(a.message.Method)
		e.status = http.StatusNotFound
		return nil, e
	}
}

func unknownMethod(name string) *rpcError {
	return &rpcError{Code: codeUnknownMethod, Message: "unknown method " + name}
}

// complete says of a server's result what every one says in the revision without
// sessions, where the server has not said it.
func (a *asker) complete(result jsontext.Value, err error) (jsontext.Value, error) {
	if err != nil || a.client != nil {
		return result, err
	}
	return withDefault(result, "resultType", jsontext.Value(`"complete"`))
}

// options are those of whatever the request asks of a server.
func (a *asker) options() *session.CallOptions {
	o := &session.CallOptions{Log: a.log}
	if token := a.message.meta.Token; token != nil {
		o.Progress = func(params jsontext.Value) {
			if params, err := withMember(params, "progressToken", token); err == nil {
				a.notify(notification("notifications/progress", params))
			}
		}
	}
	return o
}

// level is the severity of a log message: the index of its name.
type level int

// levels are the names, from the least severe.
var levels = []string{"debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"}

const (
	// defaultLevel is "info".
	defaultLevel level = 1
	// silent is above all.
	silent = level(1 << 10)
)

func levelOf(name string) level {
	if n := slices.Index(levels, name); n >= 0 {
		return level(n)
	}
	return silent
}

// least returns how severe a message must be to be passed on. Without a session,
// whoever wants any says so in each request.
func (a *asker) least() level {
	if a.client == nil {
		return levelOf(a.message.meta.Level)
	}
	a.client.mu.Lock()
	defer a.client.mu.Unlock()
	return a.client.level
}

// log passes a server's log message on, if it is severe enough. One without a
// known level is.
func (a *asker) log(params jsontext.Value) {
	least := a.least()
	if least == silent {
		return
	}
	var p struct {
		Level string `json:"level"`
	}
	if read(params, &p) == nil && levelOf(p.Level) >= least {
		a.notify(notification("notifications/message", params))
	}
}
