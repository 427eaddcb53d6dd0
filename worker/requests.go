package worker

import (
	"bytes"
	"context"

	"github.com/cockroachdb/errors"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/mark3labs/mcp-go/mcp"

	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/events/callwire"
)

// accepts returns why a call cannot be passed on to the server, or nil. What the
// server has not declared it is not asked for.
func (d *desk) accepts(r *callwire.Request) error {
	declared, what := true, ""
	switch r.Method {
	case "", callwire.CallTool:
		if !offers(d.definition, r.Tool) {
			return refuse(codeInvalidParams, "the server offers no tool of that name here")
		}
	case callwire.ReadResource:
		declared, what = d.conn.hello.offers[Resources], "resources"
	case callwire.GetPrompt:
		declared, what = d.conn.hello.offers[Prompts], "prompts"
	case callwire.Complete:
		declared, what = d.conn.hello.completions, "completions"
	default:
		return refuse(codeMethodNotFound, "this method is not passed on to servers")
	}
	if !declared {
		return refuse(codeMethodNotFound, "the server offers no "+what)
	}
	return nil
}

// refuse is the answer to a call that is not passed on, in the words that a server
// would have for it.
func refuse(code int, why string) error {
	return errors.Mark(&callwire.Error{
		Outcome: callwire.NotExecuted, Failure: events.NewFailure(events.RPCError, events.PhaseRun, why), RPCCode: code,
	}, errNotWritten)
}

// forward makes a request of the server. X holds the raw result, or the server's error.
// Where the MCP library would add nothing of its own, it has no part in it.
func (c *conn) forward(ctx context.Context, r *callwire.Request, fields map[string]any, x *exchange) error {
	switch s, ok := c.wire.(*stdio); {
	case ok && !c.hello.stateless:
		return forwardPlainly(ctx, s, r, fields, x)
	case r.CallsTool():
		return c.callTool(ctx, r.Tool, r.Arguments, &mcp.Meta{ProgressToken: r.ID, AdditionalFields: fields}, x)
	default:
		return c.request(ctx, r, fields, x)
	}
}

// forwardPlainly makes a request of a process, in a revision with a handshake.
func forwardPlainly(ctx context.Context, s *stdio, r *callwire.Request, fields map[string]any, x *exchange) error {
	method, params := r.Method, jsontext.Value(nil)
	var err error
	if r.CallsTool() {
		method, params = callwire.CallTool, toolParams(r, fields)
	} else if params, err = withMeta(r.Arguments, metaOf(r, fields)); err != nil {
		return refuse(codeInvalidParams, "_meta is no object")
	}
	f, err := s.exchange(ctx, method, params, x)
	switch {
	case err != nil:
		return err
	case f.Error != nil:
		x.answered(nil, f.failure())
		return x.failure
	}
	x.answered(f.Result, nil)
	if x.asksForInput() {
		return errors.New("the server asks for input")
	}
	return nil
}

// toolParams are the parameters of a call of a tool.
func toolParams(r *callwire.Request, fields map[string]any) jsontext.Value {
	p := make([]byte, 0, len(r.Arguments)+len(r.Tool)+len(r.ID)+160) // with room for a trace
	p, _ = jsontext.AppendQuote(append(p, `{"name":`...), r.Tool)    // what is no Unicode is replaced
	if r.Arguments != nil {
		p = append(append(p, `,"arguments":`...), oneLine(r.Arguments)...)
	}
	p, _ = jsontext.AppendQuote(append(p, `,"_meta":{"progressToken":`...), r.ID)
	for name, value := range fields {
		p, _ = jsontext.AppendQuote(append(p, ','), name)
		p = append(append(p, ':'), mustJSON(value)...)
	}
	return append(p, "}}"...)
}

// oneLine returns a value that has no line break in it.
func oneLine(v jsontext.Value) jsontext.Value {
	if bytes.IndexByte(v, '\n') < 0 && bytes.IndexByte(v, '\r') < 0 {
		return v
	}
	v = v.Clone()
	_ = v.Compact() // it is valid
	return v
}

// metaOf is what telemetry and progress need in _meta.
func metaOf(r *callwire.Request, fields map[string]any) map[string]jsontext.Value {
	meta := make(map[string]jsontext.Value, len(fields)+1)
	meta["progressToken"] = mustJSON(r.ID)
	for name, value := range fields {
		meta[name] = mustJSON(value)
	}
	return meta
}

// request makes another request than a call of a tool, with its parameters as they
// came, but for what telemetry and progress need. X holds the raw result, or the
// server's error.
func (c *conn) request(ctx context.Context, r *callwire.Request, fields map[string]any, x *exchange) error {
	var err error
	if x.params, err = withMeta(r.Arguments, metaOf(r, fields)); err != nil {
		return refuse(codeInvalidParams, "_meta is no object")
	}
	// The library's own parameters only tell it what headers to set.
	var target struct {
		URI  string `json:"uri"`
		Name string `json:"name"`
	}
	_ = json.Unmarshal(x.params, &target) // of another type: the server will refuse it
	ctx = withExchange(ctx, x)
	switch r.Method {
	case callwire.ReadResource:
		var q mcp.ReadResourceRequest
		q.Params.URI = target.URI
		_, err = c.client.ReadResource(ctx, q)
	case callwire.GetPrompt:
		var q mcp.GetPromptRequest
		q.Params.Name = target.Name
		_, err = c.client.GetPrompt(ctx, q)
	default:
		_, err = c.client.Complete(ctx, mcp.CompleteRequest{})
	}
	if x.result != nil && !x.asksForInput() {
		return nil
	}
	return err
}
