package show

import (
	"io"
	"strings"

	"github.com/cockroachdb/errors"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/toolfleet/toolfleet/projections/shape"
	"github.com/toolfleet/toolfleet/session"
)

// PromptShape returns the JSON shape of a prompt.
func PromptShape(p *session.Prompt) shape.Prompt {
	s := shape.Prompt{
		Name: p.Name, Server: p.Server, Prompt: p.Prompt, State: p.State, Description: p.Description,
		Arguments: make([]shape.Argument, 0, len(p.Arguments)), Definition: p.Definition,
	}
	for _, a := range p.Arguments {
		s.Arguments = append(s.Arguments, shape.Argument(a))
	}
	return s
}

// Prompts is the view of prompts.
var Prompts = &View[session.Prompt]{
	Name:   func(p *session.Prompt) string { return p.Name },
	Member: "name",
	None:   "there are no prompts",
	Object: func(p *session.Prompt) any { return PromptShape(p) },
	Columns: []Column[session.Prompt]{
		{Heading: "PROMPT", Cell: func(p *session.Prompt) string { return p.Name }},
		{Heading: "SERVER", Cell: func(p *session.Prompt) string { return string(p.Server) }},
		{Heading: "STATE", Cell: func(p *session.Prompt) string { return string(p.State) }, Paint: func(p *session.Prompt) paint { return ofList(p.State) }},
		{Heading: "ARGUMENTS", Cell: func(p *session.Prompt) string { return Arguments(p) }},
		{Heading: "DESCRIPTION", Cell: func(p *session.Prompt) string { return firstLine(p.Description) }},
	},
}

// Arguments returns how the arguments of a prompt are written, those that may be
// left out in brackets: "text=… [tone=…]".
func Arguments(p *session.Prompt) string {
	words := make([]string, 0, len(p.Arguments))
	for _, a := range p.Arguments {
		word := a.Name + "=…"
		if !a.Required {
			word = "[" + word + "]"
		}
		words = append(words, word)
	}
	return strings.Join(words, " ")
}

// Messages writes a prompt that was got: for programs as its server sent it, for
// people the text of its messages, under their roles if there are several.
func Messages(w io.Writer, f *Format, result jsontext.Value) error {
	if f.Data() {
		return f.Write(w, result)
	}
	var r struct {
		Messages []struct {
			Role    string  `json:"role"`
			Content content `json:"content"`
		} `json:"messages"`
	}
	if err := json.Unmarshal(result, &r); err != nil {
		return errors.WithHint(errors.Wrap(err, "read the messages"), "see what the server sent: -o json")
	}
	var b strings.Builder
	for i, m := range r.Messages {
		if len(r.Messages) > 1 {
			if i > 0 {
				b.WriteString("\n")
			}
			b.WriteString(m.Role + ":\n")
		}
		b.WriteString(strings.TrimSuffix(m.Content.words(), "\n") + "\n")
	}
	_, err := io.WriteString(Terminal(w), b.String())
	return errors.Wrap(err, "write the output")
}
