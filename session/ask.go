package session

import (
	"context"
	"strings"

	"github.com/cockroachdb/errors"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/events/callwire"
)

// What is asked here changes nothing, so that it may be sent again, once, when
// its outcome is unknown.

// Read reads a resource of a server, whether that lists it or not, and returns the
// MCP result as the server sent it. It waits for the server, and fails, as
// [Session.Call] does; a server that the session does not see is
// [ErrUnknownServer].
func (s *Session) Read(ctx context.Context, server events.ServerID, uri string, o *CallOptions) (jsontext.Value, error) {
	if uri == "" {
		return nil, errors.Mark(errors.Newf("read a resource of server %s: the URI is empty", server), ErrInvalidArguments)
	}
	if err := s.sees(server); err != nil {
		return nil, err
	}
	body, err := json.Marshal(struct {
		URI string `json:"uri"`
	}{uri})
	if err != nil {
		return nil, errors.Mark(errors.Wrapf(err, "read a resource of server %s", server), ErrInvalidArguments)
	}
	return s.ask(ctx, &request{
		server: server, method: callwire.ReadResource, target: uri, body: body, replayable: true,
	}, o)
}

// Prompt gets a prompt by its name in the session, and returns the MCP result as
// the server sent it. The arguments are a JSON object of texts, or none; those
// that the prompt requires must be there. It waits for the server, and fails, as
// [Session.Call] does; a name that nothing has is [ErrUnknownPrompt].
func (s *Session) Prompt(ctx context.Context, name string, arguments []byte, o *CallOptions) (jsontext.Value, error) {
	now, _ := s.load()
	p, ok := now.catalogue.prompt(name)
	if !ok {
		p, ok = s.knownPrompt(now, name)
	}
	if !ok {
		return nil, errors.Mark(errors.Newf("unknown prompt %q as of event %d", name, now.asOf.Seq), ErrUnknownPrompt)
	}
	if err := p.check(arguments); err != nil {
		return nil, errors.Mark(errors.Wrapf(err, "get prompt %s", name), ErrInvalidArguments)
	}
	body, err := json.Marshal(struct {
		Name      string         `json:"name"`
		Arguments jsontext.Value `json:"arguments,omitzero"`
	}{p.Prompt, arguments})
	if err != nil {
		return nil, errors.Mark(errors.Wrapf(err, "get prompt %s", name), ErrInvalidArguments)
	}
	return s.ask(ctx, &request{
		server: p.Server, method: callwire.GetPrompt, target: p.Prompt, body: body, replayable: true,
	}, o)
}

// check returns an error unless the arguments are none, or an object of texts, and
// those that the prompt requires are there.
func (p *Prompt) check(arguments jsontext.Value) error {
	var given map[string]jsontext.Value
	if len(arguments) > 0 {
		if !isObject(arguments) || json.Unmarshal(arguments, &given) != nil {
			return errors.New("the arguments are not a JSON object")
		}
	}
	for name, value := range given {
		if value.Kind() != '"' {
			return errors.Newf("argument %s is not a string", name)
		}
	}
	var missing []string
	for _, a := range p.Arguments {
		if _, ok := given[a.Name]; a.Required && !ok {
			missing = append(missing, a.Name)
		}
	}
	switch len(missing) {
	case 0:
		return nil
	case 1:
		return errors.Newf("argument %s is missing", missing[0])
	default:
		return errors.Newf("arguments %s are missing", strings.Join(missing, ", "))
	}
}

// Complete asks a server to complete an argument of one of its prompts or
// templates. The parameters are those of MCP's completion/complete, in the
// server's own words, and the result is as the server sent it. It waits for the
// server, and fails, as [Session.Read] does.
func (s *Session) Complete(ctx context.Context, server events.ServerID, params []byte) (jsontext.Value, error) {
	if !isObject(params) {
		return nil, errors.Mark(errors.Newf("complete an argument of server %s: the parameters are not a JSON object", server), ErrInvalidArguments)
	}
	if err := s.sees(server); err != nil {
		return nil, err
	}
	var p struct {
		Ref struct {
			Name jsontext.Value `json:"name"`
			URI  jsontext.Value `json:"uri"`
		} `json:"ref"`
	}
	_ = json.Unmarshal(params, &p) // what it is about is for people: the server decides
	return s.ask(ctx, &request{
		server: server, method: callwire.Complete, target: text(p.Ref.Name) + text(p.Ref.URI), body: params, replayable: true,
	}, nil)
}

// sees returns an error if the session does not see a server.
func (s *Session) sees(id events.ServerID) error {
	now, _ := s.load()
	if now.catalogue.member(id) == nil {
		return errors.Mark(errors.Newf("the session sees no server %s as of event %d", id, now.asOf.Seq), ErrUnknownServer)
	}
	return nil
}
