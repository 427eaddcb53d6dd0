package show

import (
	"io"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/toolfleet/toolfleet/session"
)

// The formats of lists of tools for the APIs of models: an array that a request
// takes as its tools.
const (
	OpenAI          = "openai"           // for Chat Completions
	OpenAIResponses = "openai-responses" // for Responses
	Anthropic       = "anthropic"        // for Messages
)

// models are the formats for models.
var models = []string{OpenAI, OpenAIResponses, Anthropic}

// NewToolFormat returns a flag that allows the formats of lists and those for
// models.
func NewToolFormat() *Format {
	f := NewFormat()
	f.allowed = append(f.allowed, models...)
	return f
}

// ForModel says whether a format for models was chosen.
func (f *Format) ForModel() bool { return slices.Contains(models, f.chosen) }

type openAIFunction struct {
	Name        string         `json:"name"`
	Description string         `json:"description,omitzero"`
	Parameters  jsontext.Value `json:"parameters"`
}

// ToolsForModel writes tools for the API of a model. All that a session lists can
// be called.
func ToolsForModel(w io.Writer, f *Format, tools []session.Tool) error {
	all := make([]any, 0, len(tools))
	for i := range tools {
		all = append(all, forModel(f, &tools[i]))
	}
	return writeJSON(w, all, jsontext.WithIndent("  "))
}

func forModel(f *Format, t *session.Tool) any {
	function := openAIFunction{t.Name, t.Description, t.Parameters()}
	switch f.chosen {
	case OpenAI:
		return struct {
			Type     string         `json:"type"`
			Function openAIFunction `json:"function"`
		}{"function", function}
	case OpenAIResponses:
		return struct {
			Type           string `json:"type"`
			openAIFunction `json:",embed"`
			// Strict is on by default there, and refuses most schemas.
			Strict bool `json:"strict"`
		}{"function", function, false}
	default:
		return struct {
			Name        string         `json:"name"`
			Description string         `json:"description,omitzero"`
			InputSchema jsontext.Value `json:"input_schema"`
		}{function.Name, function.Description, function.Parameters}
	}
}
