package show

import (
	"encoding/base64"
	"io"
	"strings"

	"github.com/cockroachdb/errors"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/toolfleet/toolfleet/cmd/internal/exit"
	"github.com/toolfleet/toolfleet/projections"
	"github.com/toolfleet/toolfleet/projections/shape"
	"github.com/toolfleet/toolfleet/session"
)

// ReadResources returns what a session lists of resources: those first, then
// templates.
func ReadResources(s *session.Session) (list []shape.Resource) {
	n := s.Status()
	for _, r := range n.Resources {
		list = append(list, shape.Resource{
			Server: r.Server, URI: r.URI, State: r.State, Name: r.Name, Description: r.Description, MIMEType: r.MIMEType, Definition: r.Definition,
		})
	}
	for _, t := range n.Templates {
		list = append(list, shape.Resource{
			Server: t.Server, URITemplate: t.URITemplate, State: t.State, Name: t.Name, Description: t.Description, MIMEType: t.MIMEType, Definition: t.Definition,
		})
	}
	return list
}

// Resources is the view of resources and templates.
var Resources = &View[shape.Resource]{
	Name:   func(r *shape.Resource) string { return r.URI + r.URITemplate },
	Member: "uri",
	None:   "there are no resources",
	Object: func(r *shape.Resource) any { return r },
	Columns: []Column[shape.Resource]{
		{Heading: "RESOURCE", Cell: func(r *shape.Resource) string { return r.URI + r.URITemplate }},
		{Heading: "SERVER", Cell: func(r *shape.Resource) string { return string(r.Server) }},
		{Heading: "STATE", Cell: func(r *shape.Resource) string { return string(r.State) }, Paint: func(r *shape.Resource) paint { return ofList(r.State) }},
		{Heading: "KIND", Wide: true, Cell: func(r *shape.Resource) string {
			if r.URI == "" {
				return "template"
			}
			return "resource"
		}},
		{Heading: "TYPE", Cell: func(r *shape.Resource) string { return r.MIMEType }},
		{Heading: "NAME", Wide: true, Cell: func(r *shape.Resource) string { return r.Name }},
		{Heading: "DESCRIPTION", Cell: func(r *shape.Resource) string { return firstLine(r.Description) }},
	},
}

// ofList returns the colour of what is listed in a state.
func ofList(s projections.ToolsState) paint {
	if s == projections.ToolsLive {
		return green
	}
	return yellow
}

// firstLine returns what of a description fits a table.
func firstLine(s string) string {
	first, _, _ := strings.Cut(strings.TrimSpace(s), "\n")
	return cut(first, descriptionWidth)
}

// Contents writes what was read of a resource: for programs the result as its
// server sent it, else the bytes of its contents as they are. On a terminal these
// must be text, and what would steer it is taken out.
func Contents(w io.Writer, f *Format, result jsontext.Value) error {
	if f.Data() {
		return f.Write(w, result)
	}
	var r struct {
		Contents []contents `json:"contents"`
	}
	if err := json.Unmarshal(result, &r); err != nil {
		return errors.WithHint(errors.Wrap(err, "read the contents"), "see what the server sent: -o json")
	}
	terminal := sizeOf(w) != nil
	if terminal {
		w = Terminal(w)
	}
	for _, c := range r.Contents {
		data, err := c.bytes(terminal)
		if err != nil {
			return err
		}
		if _, err := w.Write(data); err != nil {
			return errors.Wrap(err, "write the output")
		}
	}
	return nil
}

// contents are those of one resource.
type contents struct {
	URI  string  `json:"uri"`
	Type string  `json:"mimeType"`
	Text string  `json:"text"`
	Blob *string `json:"blob"` // in base64
}

func (c *contents) bytes(terminal bool) ([]byte, error) {
	switch {
	case c.Blob == nil:
		return []byte(c.Text), nil
	case terminal:
		return nil, errors.WithHint(exit.Usagef("%s is not text: %q", Clean(c.URI), c.Type), "write it to a file: > FILE, or use -o json")
	}
	data, err := base64.StdEncoding.DecodeString(*c.Blob)
	return data, errors.Wrapf(err, "decode the contents of %s", c.URI)
}
