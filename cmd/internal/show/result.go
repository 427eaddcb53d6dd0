package show

import (
	"io"
	"strings"

	"github.com/cockroachdb/errors"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/toolfleet/toolfleet/session"
)

// Result writes a tool's result: for programs as its server sent it, for people
// the text of its content, and in the place of anything else what it is.
func Result(w io.Writer, f *Format, r *session.Result) error {
	switch {
	case f.Is(YAML):
		return writeYAML(w, r.JSON)
	case f.Is(JSON):
		return writeJSON(w, r.JSON)
	}
	var result struct {
		Content    []content      `json:"content"`
		Structured jsontext.Value `json:"structuredContent"`
	}
	if err := json.Unmarshal(r.JSON, &result); err != nil {
		return writeJSON(w, r.JSON) // not of the form that results have
	}
	var b strings.Builder
	for _, c := range result.Content {
		b.WriteString(strings.TrimSuffix(c.words(), "\n") + "\n")
	}
	if len(result.Content) == 0 && result.Structured != nil {
		return writeJSON(w, result.Structured)
	}
	_, err := io.WriteString(Terminal(w), b.String())
	return errors.Wrap(err, "write the output")
}

type content struct {
	Type     string `json:"type"`
	Text     string `json:"text"`
	URI      string `json:"uri"`
	MIMEType string `json:"mimeType"`
	Resource struct {
		URI  string `json:"uri"`
		Text string `json:"text"`
	} `json:"resource"`
}

func (c *content) words() string {
	switch {
	case c.Type == "text":
		return c.Text
	case c.Resource.Text != "":
		return c.Resource.Text
	default:
		return "[" + strings.Join(strings.Fields(c.Type+" "+c.MIMEType+" "+c.URI+" "+c.Resource.URI), " ") + "]"
	}
}
