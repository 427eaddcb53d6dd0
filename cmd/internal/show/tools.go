package show

import (
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/projections"
	"github.com/toolfleet/toolfleet/session"
)

// tool is the JSON shape of a tool.
type tool struct {
	Name        string                 `json:"name"`
	Server      events.ServerID        `json:"server"`
	Tool        string                 `json:"tool"`
	State       projections.ToolsState `json:"state"`
	Path        string                 `json:"path"`
	Description string                 `json:"description"`
	InputSchema jsontext.Value         `json:"inputSchema"`
}

// Tools is the view of tools.
var Tools = &View[session.Tool]{
	Name:   func(t *session.Tool) string { return t.Name },
	Member: "name",
	None:   "there are no tools",
	Object: func(t *session.Tool) any {
		return &tool{t.Name, t.Server, t.Tool, t.State, t.Path, t.Description, t.InputSchema}
	},
	Columns: []Column[session.Tool]{
		{Heading: "TOOL", Cell: func(t *session.Tool) string { return t.Name }},
		{Heading: "SERVER", Cell: func(t *session.Tool) string { return string(t.Server) }},
		{Heading: "STATE", Cell: func(t *session.Tool) string { return string(t.State) }, Paint: func(t *session.Tool) paint {
			if t.State == projections.ToolsLive {
				return green
			}
			return yellow
		}},
		{Heading: "PATH", Wide: true, Cell: func(t *session.Tool) string { return t.Path }},
		{Heading: "DESCRIPTION", Cell: func(t *session.Tool) string {
			first, _, _ := strings.Cut(strings.TrimSpace(t.Description), "\n")
			return cut(first, descriptionWidth)
		}},
	},
}

// descriptionWidth is how much of a description fits a table.
const descriptionWidth = 70
