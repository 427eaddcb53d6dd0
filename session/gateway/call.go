package gateway

import (
	"context"
	"slices"
	"strings"

	"github.com/cockroachdb/errors"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/toolfleet/toolfleet/session"
)

// call answers tools/call.
func (a *asker) call(ctx context.Context) (jsontext.Value, error) {
	var p struct {
		Name      string         `json:"name"`
		Arguments jsontext.Value `json:"arguments"`
	}
	if err := read(a.message.Params, &p); err != nil {
		return nil, err
	}
	if p.Arguments.Kind() == 'n' { // what some clients make of none
		p.Arguments = nil
	}
	if a.header != nil && a.client == nil {
		if err := checkParams(a.header, a.gateway.schemaOf(p.Name), p.Arguments); err != nil {
			return nil, err
		}
	}
	result, err := a.gateway.session.Call(ctx, p.Name, p.Arguments, a.options())
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

// schemaOf returns the input schema of a tool, or nil.
func (g *Gateway) schemaOf(name string) jsontext.Value {
	list, _ := g.session.Tools()
	i, found := slices.BinarySearchFunc(list, name, func(t session.Tool, name string) int { return strings.Compare(t.Name, name) })
	if !found {
		return nil
	}
	return list[i].InputSchema
}
