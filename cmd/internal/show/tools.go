package show

import (
	"io"
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

// ToolsJSON writes tools as a JSON array.
func ToolsJSON(w io.Writer, tools []session.Tool) error {
	list := make([]tool, 0, len(tools))
	for _, t := range tools {
		list = append(list, tool{t.Name, t.Server, t.Tool, t.State, t.Path, t.Description, t.InputSchema})
	}
	return writeList(w, list)
}

// Tools writes tools as a table for people.
func Tools(w io.Writer, tools []session.Tool) error {
	rows := [][]string{{"TOOL", "SERVER", "STATE", "DESCRIPTION"}}
	for _, t := range tools {
		first, _, _ := strings.Cut(strings.TrimSpace(t.Description), "\n")
		rows = append(rows, []string{t.Name, string(t.Server), string(t.State), cut(first, descriptionWidth)})
	}
	return writeTable(w, rows)
}

// descriptionWidth is how much of a description fits a table.
const descriptionWidth = 70
