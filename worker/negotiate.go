package worker

import (
	"context"
	"slices"
	"strings"

	"github.com/cockroachdb/errors"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/mcp"

	"github.com/toolfleet/toolfleet/events"
)

// The bounds of what a server says about itself, in bytes.
const (
	maxServerInfo   = 64 << 10
	maxCapabilities = 64 << 10
	maxInstructions = 32 << 10
)

// The values of a definition's protocol that are no revision.
const (
	protocolAuto   = "auto"
	protocolLegacy = "legacy"
)

// completionsDeclared is the first revision in which servers declare completions.
const completionsDeclared = "2025-03-26"

// hello is what a server said in the handshake.
type hello struct {
	revision     string
	stateless    bool
	serverInfo   jsontext.Value
	capabilities jsontext.Value
	instructions string
	// offers says which lists the server has, completions that it completes
	// arguments.
	offers      [listKinds]bool
	completions bool
}

// handshake finds a revision that both sides know. The handshake of older
// revisions comes first: there are servers that exit, or stay silent, when they
// are asked for the stateless one.
func (d *dialing) handshake(ctx, life context.Context) (*client.Client, *hello, error) {
	protocol := d.definition.Protocol
	auto := protocol == "" || protocol == protocolAuto
	revisions := []string{protocol}
	if auto || protocol == protocolLegacy {
		revisions[0] = mcp.LATEST_LEGACY_PROTOCOL_VERSION
	}
	for i := 0; ; i++ {
		if err := d.open(ctx, life, mcp.IsModernProtocol(revisions[i])); err != nil {
			return nil, nil, err
		}
		d.phase, d.last = events.PhaseHandshake, &exchange{}
		method := string(mcp.MethodInitialize)
		if mcp.IsModernProtocol(revisions[i]) {
			method = string(mcp.MethodServerDiscover)
		}
		ctx, asked := asks(ctx, method, d.last)
		c, h, err := d.greet(withExchange(ctx, d.last), life, revisions[i])
		asked(err)
		if err == nil {
			return c, h, nil
		}
		next := instead(d.last, err, revisions)
		if next == "" || !auto {
			return nil, nil, err
		}
		revisions = append(revisions, next)
	}
}

// greet shakes hands in a certain revision.
func (d *dialing) greet(ctx, life context.Context, revision string) (*client.Client, *hello, error) {
	options := []client.ClientOption{client.WithProtocolVersion(revision)}
	if len(d.definition.Roots) > 0 {
		options = append(options, client.WithClientCapabilities(mcp.ClientCapabilities{Roots: &struct {
			ListChanged bool `json:"listChanged,omitempty"`
		}{}}))
	}
	c := client.NewClient(d.link.wire, options...)
	if err := c.Start(life); err != nil {
		return nil, nil, errors.Wrap(err, "start the transport")
	}
	request := mcp.InitializeRequest{}
	request.Params.ProtocolVersion = revision
	request.Params.ClientInfo = mcp.Implementation{Name: "toolfleet", Version: clientVersion}
	if _, err := c.Initialize(ctx, request); err != nil {
		return nil, nil, err
	}
	h, err := readHello(d.last.result, c.ProtocolVersion())
	if err == nil && mcp.IsModernProtocol(revision) != h.stateless {
		err = mcp.UnsupportedProtocolVersionError{Version: revision, Supported: []string{h.revision}}
	}
	return c, h, err
}

// clientVersion is what servers are told of ours.
const clientVersion = "0.1.0"

// readHello takes what a server said about itself as it said it.
func readHello(result jsontext.Value, revision string) (*hello, error) {
	var r struct {
		Versions     []string       `json:"supportedVersions"`
		ServerInfo   jsontext.Value `json:"serverInfo"`
		Capabilities jsontext.Value `json:"capabilities"`
		Instructions string         `json:"instructions"`
		Meta         struct {
			ServerInfo jsontext.Value `json:"io.modelcontextprotocol/serverInfo"`
		} `json:"_meta"`
	}
	lenient := json.JoinOptions(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	if err := json.Unmarshal(result, &r, lenient); err != nil {
		return nil, errors.Wrap(err, "read the answer to the handshake")
	}
	h := &hello{revision: revision, stateless: mcp.IsModernProtocol(revision), instructions: r.Instructions}
	if h.stateless && len(r.Versions) == 0 {
		return nil, mcp.UnsupportedProtocolVersionError{Version: revision}
	}
	if r.ServerInfo == nil {
		r.ServerInfo = r.Meta.ServerInfo
	}
	h.serverInfo, h.capabilities = fit(r.ServerInfo, maxServerInfo), fit(r.Capabilities, maxCapabilities)
	var offered map[string]jsontext.Value
	_ = json.Unmarshal(r.Capabilities, &offered, lenient) // not an object: nothing is offered
	declared := func(name string) bool { return len(offered[name]) > 0 && offered[name].Kind() != 'n' }
	for k := range h.offers {
		h.offers[k] = declared(ListKind(k).String())
	}
	h.completions = declared("completions") || revision < completionsDeclared
	return h, nil
}

// fit returns an object that may be part of an event, or nil.
func fit(v jsontext.Value, limit int) jsontext.Value {
	if len(v) > limit || v.Kind() != '{' || !v.IsValid() {
		return nil
	}
	return v
}

// instead returns the revision to try after one was refused, or "".
func instead(x *exchange, err error, tried []string) string {
	var unsupported mcp.UnsupportedProtocolVersionError
	var supported []string
	switch f := x.failure; {
	case f != nil:
		var data struct {
			Supported []string `json:"supported"`
		}
		_ = json.Unmarshal(f.Data, &data) // other data says nothing about revisions
		if supported = data.Supported; len(supported) == 0 && !refuses(f) {
			return ""
		}
	case errors.As(err, &unsupported) && len(unsupported.Supported) > 0:
		supported = unsupported.Supported
	default:
		return ""
	}
	next := mcp.LATEST_PROTOCOL_VERSION
	if len(supported) > 0 {
		next = mcp.NegotiateMutuallySupportedVersion(supported)
	}
	if slices.Contains(tried, next) {
		return ""
	}
	return next
}

// refuses says whether an error means the revision, or the handshake as such.
func refuses(e *rpcError) bool {
	return e.Code == codeMethodNotFound || e.Code == codeUnsupportedVersion ||
		strings.Contains(strings.ToLower(e.Message), "unsupported")
}

// connected returns the event for a handshake.
func (h *hello) connected(s scrubber) events.Connected {
	era := "handshake"
	if h.stateless {
		era = "stateless"
	}
	return events.Connected{
		Protocol: h.revision, Era: era,
		ServerInfo: s.json(h.serverInfo), Capabilities: s.json(h.capabilities),
		Instructions: s.text(h.instructions, maxInstructions),
	}
}
