package session

import (
	"cmp"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/projections"
)

// Prompt is a prompt that a session offers.
type Prompt struct {
	// Name is what the session calls it: unique, and made as those of tools are.
	Name string
	// Server and Prompt identify it; Prompt is the server's own name for it.
	Server events.ServerID
	Prompt string
	// State says what to expect of getting it, as [Tool.State] of a call.
	State projections.ToolsState

	// Description is the server's, or empty.
	Description string
	// Arguments are what it takes, in the order of the server.
	Arguments []Argument
	// Definition is the whole prompt, as the server sent it.
	Definition jsontext.Value
}

func (p *Prompt) id() projections.ToolID {
	return projections.ToolID{Server: p.Server, Tool: p.Prompt}
}

// Argument is an argument of a prompt. Its value is text.
type Argument struct {
	Name        string
	Description string
	Required    bool
}

// readPrompts reads the prompts of a server, leniently: what is of another type
// than it should be counts as absent, and what has no name is left out. Of several
// with one name the first counts.
func readPrompts(id events.ServerID, data jsontext.Value) (list []Prompt) {
	for _, item := range readArray(data) {
		var d struct {
			Name        jsontext.Value `json:"name"`
			Description jsontext.Value `json:"description"`
			Arguments   jsontext.Value `json:"arguments"`
		}
		if json.Unmarshal(item, &d) != nil || text(d.Name) == "" {
			continue
		}
		list = append(list, Prompt{
			Server: id, Prompt: text(d.Name), Description: text(d.Description), Arguments: readArguments(d.Arguments), Definition: item,
		})
	}
	return inOrder(list, func(p *Prompt) string { return p.Prompt })
}

func readArguments(data jsontext.Value) (list []Argument) {
	for _, item := range readArray(data) {
		var d struct {
			Name        jsontext.Value `json:"name"`
			Description jsontext.Value `json:"description"`
			Required    jsontext.Value `json:"required"`
		}
		if json.Unmarshal(item, &d) == nil && text(d.Name) != "" {
			list = append(list, Argument{text(d.Name), text(d.Description), d.Required.Kind() == 't'})
		}
	}
	return list
}

// Prompts returns the prompts that the session's servers list, sorted by name.
// Nobody may change the list: one that has not changed is the same.
func (s *Session) Prompts() []Prompt {
	now, _ := s.load()
	return now.catalogue.prompts
}

// prompt returns the prompt of that name.
func (c *catalogue) prompt(name string) (Prompt, bool) {
	i, ok := slices.BinarySearchFunc(c.prompts, name, func(p Prompt, name string) int { return cmp.Compare(p.Name, name) })
	if !ok {
		return Prompt{}, false
	}
	return c.prompts[i], true
}
