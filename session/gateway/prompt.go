package gateway

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/cockroachdb/errors"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/session"
)

// listPrompts answers prompts/list.
func (a *asker) listPrompts(l *page, cursor string) error {
	some, err := cut(l, a.gateway.session.Prompts(), cursor, func(p session.Prompt) string { return p.Name })
	for i := range some {
		l.add(shownPrompt(&some[i]))
	}
	return err
}

// shownPrompt returns what clients see of a prompt: see [shownTool].
func shownPrompt(p *session.Prompt) (jsontext.Value, error) {
	d, err := withMember(p.Definition, "name", mustMarshal(p.Name))
	if err != nil || p.Description != "" {
		return d, err
	}
	return described(d, fmt.Sprintf("The prompt %s of server %s.", p.Prompt, p.Server))
}

// prompt answers prompts/get.
func (a *asker) prompt(ctx context.Context) (jsontext.Value, error) {
	var p struct {
		Name      string         `json:"name"`
		Arguments jsontext.Value `json:"arguments"`
	}
	if err := read(a.message.Params, &p); err != nil {
		return nil, err
	}
	if p.Arguments.Kind() == 'n' {
		p.Arguments = nil
	}
	result, err := a.gateway.session.Prompt(ctx, p.Name, p.Arguments, a.options())
	if err != nil {
		return nil, a.refusal(err)
	}
	return a.complete(result, nil)
}

// completion answers completion/complete. A server that completes nothing has
// nothing to propose.
func (a *asker) completion(ctx context.Context) (jsontext.Value, error) {
	var p struct {
		Ref      jsontext.Value `json:"ref"`
		Argument jsontext.Value `json:"argument"`
		Context  jsontext.Value `json:"context,omitzero"`
	}
	if err := read(a.message.Params, &p); err != nil {
		return nil, err
	}
	server, ref, err := a.gateway.referred(p.Ref)
	if err != nil {
		return nil, err
	}
	p.Ref = ref
	result, err := a.gateway.session.Complete(ctx, server, mustMarshal(&p))
	var e *session.CallError
	switch {
	case err == nil:
	case errors.As(err, &e) && e.RPCCode == codeUnknownMethod:
		result = jsontext.Value(`{"completion":{"values":[]}}`)
	default:
		return nil, a.refusal(err)
	}
	return a.complete(result, nil)
}

// referred returns the server that a prompt or a template is of, and the reference
// in that server's own words.
func (g *Gateway) referred(ref jsontext.Value) (events.ServerID, jsontext.Value, error) {
	var p struct {
		Type string `json:"type"`
		Name string `json:"name"`
		URI  string `json:"uri"`
	}
	if err := read(ref, &p); err != nil {
		return "", nil, err
	}
	switch p.Type {
	case "ref/prompt":
		all := g.session.Prompts()
		i, found := slices.BinarySearchFunc(all, p.Name, func(x session.Prompt, name string) int { return cmp.Compare(x.Name, name) })
		if found {
			ref, err := withMember(ref, "name", mustMarshal(all[i].Prompt))
			return all[i].Server, ref, err
		}
	case "ref/resource":
		o := g.offer()
		i, found := slices.BinarySearchFunc(o.templates, p.URI, func(x template, uri string) int { return cmp.Compare(x.URITemplate, uri) })
		if found {
			return o.templates[i].Server, ref, nil
		}
		if t := o.targets(p.URI); len(t) > 0 {
			ref, err := withMember(ref, "uri", mustMarshal(t[0].uri))
			return t[0].server, ref, err
		}
	}
	return "", nil, &rpcError{Code: codeInvalidParams, Message: "no server has what the reference names"}
}

// refusal returns what a client is told of what it has asked a server for in vain:
// the server's own error, where it has one that means the same here.
func (a *asker) refusal(err error) *rpcError {
	var e *session.CallError
	switch {
	case errors.IsAny(err, session.ErrUnknownPrompt, session.ErrInvalidArguments, session.ErrUnknownServer):
		return &rpcError{Code: codeInvalidParams, Message: err.Error()}
	case errors.Is(err, session.ErrCancelled):
		return &rpcError{Code: codeCancelled, Message: err.Error()}
	case !errors.As(err, &e) || e.RPCCode == 0:
		return &rpcError{Code: codeInternal, Message: err.Error()}
	}
	r := &rpcError{Code: e.RPCCode, Message: e.Failure.Message}
	if e.RPCData.IsValid() {
		r.Data = e.RPCData
	}
	switch {
	case r.Code == codeNoResource && a.client == nil:
		r.Code = codeInvalidParams
	case r.Code == codeUnknownMethod, r.Code >= -32099 && r.Code <= codeHeaders: // they are about this request
		r.Code = codeInternal
	}
	return r
}
