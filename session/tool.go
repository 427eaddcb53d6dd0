package session

import (
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/projections"
)

// Tool is a tool that a session offers.
type Tool struct {
	// Name is what the session calls it: unique, and legal for model APIs.
	Name string
	// Reserved is the name that it would have if the session's host had not
	// reserved that, or empty.
	Reserved string
	// Server and Tool identify it; Tool is the server's own name for it.
	Server events.ServerID
	Tool   string
	// State says what to expect of a call: a live tool answers at once, a call of
	// a deferred or stale one waits until its server is ready (again).
	State projections.ToolsState
	// Path says where the tool comes from, for people: "mcp:<server>", followed
	// by " via <provider>" where that is known.
	Path string

	// Description is the server's, or empty.
	Description string
	// InputSchema is the JSON Schema of the arguments, as the server sent it.
	InputSchema jsontext.Value
	// Definition is the whole tool, as the server sent it.
	Definition jsontext.Value
	// Replayable says that the server declares calls to change nothing, or
	// nothing more when repeated.
	Replayable bool
}

func (t *Tool) id() projections.ToolID { return projections.ToolID{Server: t.Server, Tool: t.Tool} }

// described are the members of a definition that matter here.
type described struct {
	Name        string         `json:"name"`
	Description jsontext.Value `json:"description"`
	InputSchema jsontext.Value `json:"inputSchema"`
	Annotations jsontext.Value `json:"annotations"`
}

type annotations struct {
	ReadOnly   bool `json:"readOnlyHint"`
	Idempotent bool `json:"idempotentHint"`
}

// describe reads a definition, leniently: what is of another type than it
// should be counts as absent. It returns false for one without a name.
func describe(definition jsontext.Value) (t Tool, ok bool) {
	var d described
	if err := json.Unmarshal(definition, &d); err != nil || d.Name == "" {
		return Tool{}, false
	}
	t = Tool{Tool: d.Name, Definition: definition, InputSchema: d.InputSchema}
	if d.Description.Kind() == '"' {
		// Valid text: it was just decoded.
		_ = json.Unmarshal(d.Description, &t.Description)
	}
	if d.Annotations.Kind() == '{' {
		var a annotations
		if json.Unmarshal(d.Annotations, &a) == nil {
			t.Replayable = a.ReadOnly || a.Idempotent
		}
	}
	return t, true
}

// pathOf says where a server's tools come from.
func pathOf(s *projections.Server) string {
	path := "mcp:" + string(s.ID)
	if d := s.Definition; d != nil && d.Source != nil {
		if via := d.Source.Name; via != "" {
			return path + " via " + via
		}
		if via := d.Source.Provider; via != "" {
			return path + " via " + via
		}
	}
	return path
}
