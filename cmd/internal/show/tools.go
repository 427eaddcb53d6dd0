package show

import (
	"github.com/toolfleet/toolfleet/projections/shape"
	"github.com/toolfleet/toolfleet/session"
)

// ToolShape returns the JSON shape of a tool.
func ToolShape(t *session.Tool) shape.Tool {
	return shape.Tool{
		Name: t.Name, Server: t.Server, Tool: t.Tool, State: t.State, Path: t.Path,
		Description: t.Description, InputSchema: t.InputSchema,
	}
}

// Tools is the view of tools.
var Tools = &View[session.Tool]{
	Name:   func(t *session.Tool) string { return t.Name },
	Member: "name",
	None:   "there are no tools",
	Object: func(t *session.Tool) any { return ToolShape(t) },
	Columns: []Column[session.Tool]{
		{Heading: "TOOL", Cell: func(t *session.Tool) string { return t.Name }},
		{Heading: "SERVER", Cell: func(t *session.Tool) string { return string(t.Server) }},
		{Heading: "STATE", Cell: func(t *session.Tool) string { return string(t.State) }, Paint: func(t *session.Tool) paint { return ofList(t.State) }},
		{Heading: "PATH", Wide: true, Cell: func(t *session.Tool) string { return t.Path }},
		{Heading: "DESCRIPTION", Cell: func(t *session.Tool) string { return firstLine(t.Description) }},
	},
}

// descriptionWidth is how much of a description fits a table.
const descriptionWidth = 70
