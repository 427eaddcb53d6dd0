package worker

import (
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

// request makes another request than a call of a tool, with its parameters as they
// came, but for what telemetry and progress need. X holds the raw result, or the
// server's error.
func (c *conn) request(ctx context.Context, r *callwire.Request, fields map[string]any, x *exchange) error {
	meta := make(map[string]jsontext.Value, len(fields)+1)
	meta["progressToken"] = mustJSON(r.ID)
	for name, value := range fields {
		meta[name] = mustJSON(value)
	}
	var err error
	if x.params, err = withMeta(r.Arguments, meta); err != nil {
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
