package session

import (
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/projections"
)

// listKind says what a list is of.
type listKind string

const (
	toolList     listKind = "tools"
	resourceList listKind = "resources" // and templates
	promptList   listKind = "prompts"
)

// listing is a list as the fleet's views have it.
type listing struct {
	// digest of the list, and of the definition that it was listed for.
	digest, definition events.Digest
	// data is the list in JSON, or nil while it is not there.
	data jsontext.Value
}

// held is what one instance lists of one kind, as a session has it.
type held[L any] struct {
	digest events.Digest
	// current says that it is the instance's last list, and not one before while
	// that one is on its way.
	current bool
	state   projections.ToolsState
	list    L
}

// next returns what is held of a catalogue now. What was read before is taken
// again, also while another list is on its way: until then it does not become
// live, since it may not be what the connection offers.
func (b held[L]) next(s *projections.Server, i *projections.Instance, kind listKind, found listing, read func(data jsontext.Value, before L) L) held[L] {
	c := catalogueOf(i, kind)
	n := held[L]{digest: b.digest, list: b.list, state: s.Worth(i, c)}
	switch {
	case c.Count > 0 && (n.state == "" || gone(i, c, kind)):
		return held[L]{}
	case c.Count == 0:
		n = held[L]{digest: c.Digest, state: n.state}
	case found.data != nil && found.digest == c.Digest && found.digest != b.digest:
		n.digest, n.list = c.Digest, read(found.data, b.list)
	}
	n.current = n.digest == c.Digest
	if n.state == projections.ToolsLive && !n.current {
		n.state = b.state
	}
	return n
}

func catalogueOf(i *projections.Instance, kind listKind) *projections.Catalogue {
	switch kind {
	case resourceList:
		return &i.Resources
	case promptList:
		return &i.Prompts
	default:
		return &i.Tools
	}
}

// gone says whether a list is one of an earlier connection, and this one says that
// the server has none any more.
func gone(i *projections.Instance, c *projections.Catalogue, kind listKind) bool {
	return kind != toolList && i.Connection != nil && c.Seq < i.Connection.Seq && !declares(i.Connection.Capabilities, kind)
}

// declares says whether a server's capabilities have lists of that kind.
func declares(capabilities jsontext.Value, kind listKind) bool {
	var c map[string]jsontext.Value
	return json.Unmarshal(capabilities, &c) == nil && c[string(kind)].Kind() == '{'
}

// readArray reads an array of JSON objects, none if it is something else.
func readArray(data jsontext.Value) (items []jsontext.Value) {
	if json.Unmarshal(data, &items) != nil {
		return nil
	}
	return items
}
