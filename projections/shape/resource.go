package shape

import (
	"github.com/go-json-experiment/json/jsontext"

	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/projections"
)

// Resource is a resource, or a template of several.
type Resource struct {
	Server events.ServerID `json:"server"`
	// URI of a resource; empty for a template, which has URITemplate (RFC 6570).
	URI         string                 `json:"uri"`
	URITemplate string                 `json:"uriTemplate"`
	State       projections.ToolsState `json:"state"`
	Name        string                 `json:"name"`
	Description string                 `json:"description"`
	MIMEType    string                 `json:"mimeType"`
	// Definition is all that its server says of it.
	Definition jsontext.Value `json:"definition"`
}

// Prompt is a prompt that sessions are offered.
type Prompt struct {
	Name        string                 `json:"name"`
	Server      events.ServerID        `json:"server"`
	Prompt      string                 `json:"prompt"`
	State       projections.ToolsState `json:"state"`
	Description string                 `json:"description"`
	Arguments   []Argument             `json:"arguments"`
	Definition  jsontext.Value         `json:"definition"`
}

// Argument is an argument of a prompt.
type Argument struct {
	Name        string `json:"name"`
	Description string `json:"description"`
	Required    bool   `json:"required"`
}
