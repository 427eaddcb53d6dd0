package session

import (
	"cmp"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/projections"
)

// Resource is a resource that a server of the session lists. Server and URI
// identify it.
type Resource struct {
	Server events.ServerID
	URI    string
	// State says what to expect of reading it, as [Tool.State] of a call.
	State projections.ToolsState

	// Name, Description and MIMEType are the server's, or empty.
	Name        string
	Description string
	MIMEType    string
	// Definition is the whole resource, as the server sent it.
	Definition jsontext.Value
}

// Template says which resources a server has that it does not list one by one.
type Template struct {
	Server events.ServerID
	// URITemplate is an RFC 6570 template of their URIs.
	URITemplate string
	// The others are those of a [Resource].
	State       projections.ToolsState
	Name        string
	Description string
	MIMEType    string
	Definition  jsontext.Value
}

// resourceLists are what one instance lists of resources.
type resourceLists struct {
	resources []Resource // in the order of their URIs
	templates []Template // in the order of their templates
}

// describedResource are the members of a resource or template that matter here.
type describedResource struct {
	URI         jsontext.Value `json:"uri"`
	URITemplate jsontext.Value `json:"uriTemplate"`
	Name        jsontext.Value `json:"name"`
	Description jsontext.Value `json:"description"`
	MIMEType    jsontext.Value `json:"mimeType"`
}

// readResources reads the resources and templates of a server, leniently: what is
// of another type than it should be counts as absent, and what has no URI is left
// out. Of several with one URI the first counts.
func readResources(id events.ServerID, data jsontext.Value) (l resourceLists) {
	var lists struct {
		Resources []jsontext.Value `json:"resources"`
		Templates []jsontext.Value `json:"templates"`
	}
	if json.Unmarshal(data, &lists) != nil {
		return l // unreachable unless a worker stored something else
	}
	for _, item := range lists.Resources {
		var d describedResource
		if json.Unmarshal(item, &d) == nil && text(d.URI) != "" {
			l.resources = append(l.resources, Resource{
				Server: id, URI: text(d.URI), Name: text(d.Name), Description: text(d.Description), MIMEType: text(d.MIMEType), Definition: item,
			})
		}
	}
	for _, item := range lists.Templates {
		var d describedResource
		if json.Unmarshal(item, &d) == nil && text(d.URITemplate) != "" {
			l.templates = append(l.templates, Template{
				Server: id, URITemplate: text(d.URITemplate), Name: text(d.Name), Description: text(d.Description), MIMEType: text(d.MIMEType), Definition: item,
			})
		}
	}
	l.resources = inOrder(l.resources, func(r *Resource) string { return r.URI })
	l.templates = inOrder(l.templates, func(t *Template) string { return t.URITemplate })
	return l
}

// inOrder sorts a list by a key and leaves out what has the key of another one
// before it.
func inOrder[T any](list []T, key func(*T) string) []T {
	slices.SortStableFunc(list, func(a, b T) int { return cmp.Compare(key(&a), key(&b)) })
	return slices.CompactFunc(list, func(a, b T) bool { return key(&a) == key(&b) })
}

// text returns JSON text, or "" for anything else.
func text(v jsontext.Value) (s string) {
	if v.Kind() == '"' {
		// Valid text: it was just decoded.
		_ = json.Unmarshal(v, &s)
	}
	return s
}

// Resources returns the resources that the session's servers list, in the order
// of server and URI. Nobody may change the list: one that has not changed is the
// same.
func (s *Session) Resources() []Resource {
	now, _ := s.load()
	return now.catalogue.resources
}

// Templates returns the templates of resources that the session's servers list,
// as [Session.Resources] does.
func (s *Session) Templates() []Template {
	now, _ := s.load()
	return now.catalogue.templates
}
