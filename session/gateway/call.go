package gateway

import (
	"context"
	"slices"

	"github.com/cockroachdb/errors"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/toolfleet/toolfleet/session"
)

// call answers tools/call.
func (c *client) call(ctx context.Context, params jsontext.Value, notify func([]byte)) (jsontext.Value, error) {
	var p struct {
		Name      string         `json:"name"`
		Arguments jsontext.Value `json:"arguments"`
		Meta      struct {
			Token jsontext.Value `json:"progressToken"`
		} `json:"_meta"`
	}
	if err := read(params, &p); err != nil {
		return nil, err
	}
	if p.Arguments.Kind() == 'n' { // what some clients make of none
		p.Arguments = nil
	}
	o := &session.CallOptions{Log: func(params jsontext.Value) { c.log(params, notify) }}
	if token := p.Meta.Token; token != nil {
		o.Progress = func(params jsontext.Value) {
			if params, err := withMember(params, "progressToken", token); err == nil {
				notify(notification("notifications/progress", params))
			}
		}
	}
	result, err := c.gateway.session.Call(ctx, p.Name, p.Arguments, o)
	if err != nil {
		return outcome(err)
	}
	return result.JSON, nil
}

// outcome returns what a client is told of a call that has no result.
func outcome(err error) (jsontext.Value, error) {
	if errors.Is(err, session.ErrUnknownTool) || errors.Is(err, session.ErrInvalidArguments) {
		return nil, &rpcError{Code: codeInvalidParams, Message: err.Error()}
	}
	if r, ok := session.AsResult(err); ok {
		return r.JSON, nil
	}
	return nil, &rpcError{Code: codeCancelled, Message: err.Error()}
}

// level is the severity of a log message: the index of its name.
type level int

// levels are the names, from the least severe.
var levels = []string{"debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"}

// defaultLevel is "info".
const defaultLevel level = 1

func (c *client) setLevel(params jsontext.Value) (jsontext.Value, error) {
	var p struct {
		Level string `json:"level"`
	}
	if err := read(params, &p); err != nil {
		return nil, err
	}
	n := slices.Index(levels, p.Level)
	if n < 0 {
		return nil, &rpcError{Code: codeInvalidParams, Message: "unknown level: it is one of debug, info, notice, warning, error, critical, alert, emergency"}
	}
	c.mu.Lock()
	c.level = level(n)
	c.mu.Unlock()
	return jsontext.Value("{}"), nil
}

// log passes a server's log message on, if it is severe enough. One without a
// known level is.
func (c *client) log(params jsontext.Value, notify func([]byte)) {
	var p struct {
		Level string `json:"level"`
	}
	if read(params, &p) != nil {
		return
	}
	c.mu.Lock()
	least := c.level
	c.mu.Unlock()
	if n := slices.Index(levels, p.Level); n < 0 || level(n) >= least {
		notify(notification("notifications/message", params))
	}
}
