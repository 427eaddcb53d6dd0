package shape

import (
	"github.com/go-json-experiment/json/jsontext"

	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/projections"
)

// Tool is a tool that sessions are offered.
type Tool struct {
	Name        string                 `json:"name"`
	Server      events.ServerID        `json:"server"`
	Tool        string                 `json:"tool"`
	State       projections.ToolsState `json:"state"`
	Path        string                 `json:"path"`
	Description string                 `json:"description"`
	InputSchema jsontext.Value         `json:"inputSchema"`
}
