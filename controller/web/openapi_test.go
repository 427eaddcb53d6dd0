package web_test

import (
	"flag"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"

	"github.com/toolfleet/toolfleet/controller/request"
	"github.com/toolfleet/toolfleet/controller/web"
	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/projections"
	"github.com/toolfleet/toolfleet/projections/shape"
)

// document is as much of the OpenAPI document as is compared.
type document struct {
	OpenAPI    string                          `json:"openapi"`
	Paths      map[string]map[string]operation `json:"paths"`
	Components struct {
		Schemas    map[string]any           `json:"schemas"`
		Parameters map[string]parameter     `json:"parameters"`
		Responses  map[string]documentation `json:"responses"`
	} `json:"components"`
}

type operation struct {
	Security   []map[string][]string    `json:"security"`
	Parameters []parameter              `json:"parameters"`
	Body       *documentation           `json:"requestBody"`
	Responses  map[string]documentation `json:"responses"`
}

type parameter struct {
	Ref  string `json:"$ref"`
	Name string `json:"name"`
	In   string `json:"in"`
}

type documentation struct {
	Ref     string                    `json:"$ref"`
	Content map[string]jsontext.Value `json:"content"`
}

func readDocument(t *testing.T) *document {
	t.Helper()
	d := &document{}
	if err := json.Unmarshal(web.Document, d); err != nil {
		t.Fatal(err)
	}
	if d.OpenAPI != "3.1.0" {
		t.Errorf("it is OpenAPI %s", d.OpenAPI)
	}
	return d
}

// The document has the operations that are served, with their parameters and
// scopes, and no others.
func TestDocumentedOperations(t *testing.T) {
	d := readDocument(t)
	got := make(map[string]string)
	for path, operations := range d.Paths {
		for method, o := range operations {
			got[strings.ToUpper(method)+" "+path] = o.demands(d)
		}
	}
	want := make(map[string]string)
	for _, o := range web.Operations() {
		want[o.Method+" "+o.Path] = o.Access + " " + strings.Join(o.Query, " ")
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-served +documented):\n%s", diff)
	}
}

// demands returns the scope that an operation needs, and its query parameters.
func (o *operation) demands(d *document) string {
	scope, query := "", []string(nil)
	for _, s := range o.Security {
		scope = strings.Join(s["token"], ",")
	}
	for _, p := range o.Parameters {
		if p.Ref != "" {
			p = d.Components.Parameters[strings.TrimPrefix(p.Ref, "#/components/parameters/")]
		}
		if p.In == "query" {
			query = append(query, p.Name)
		}
	}
	slices.Sort(query)
	return scope + " " + strings.Join(query, " ")
}

// shapes are the Go types of the document's schemas.
var shapes = map[string]any{
	"Server": shape.Server{}, "Worker": shape.Worker{}, "Tool": shape.Tool{}, "Event": shape.Event{},
	"Answer": request.Answer{}, "Problem": web.Problem{}, "Definition": events.Definition{},
	"InstanceStatus": projections.InstanceStatus{}, "Fault": projections.Fault{}, "Next": projections.Next{},
	"Rollback": projections.Rollback{}, "Rejection": projections.Rejection{}, "Failure": events.Failure{},
	"Source": events.Source{}, "OAuth": events.OAuth{}, "Placement": events.Placement{}, "RestartPolicy": events.RestartPolicy{},
	"Quarantines": events.Quarantines{}, "Quarantine": events.Quarantine{}, "DefinitionProblem": events.Problem{},
	"Health": struct {
		Status string `json:"status"`
	}{},
}

// The document has every member of what is sent and taken, of its type, and no
// other.
func TestDocumentedMembers(t *testing.T) {
	want := make(map[string]any)
	for name, v := range shapes {
		want[name] = schemaOf(t, reflect.TypeOf(v))
	}
	if *update {
		writeMembers(t, want)
		return // this program has the former document in it
	}
	d := readDocument(t)
	if diff := cmp.Diff(want, withoutWords(d.Components.Schemas)); diff != "" {
		t.Errorf("(-Go +document):\n%s", diff)
	}
}

var update = flag.Bool("update", false, "write the members of the OpenAPI document anew, with the words that there are")

// writeMembers replaces the schemas of the document.
func writeMembers(t *testing.T, schemas map[string]any) {
	t.Helper()
	var doc map[string]any
	if err := json.Unmarshal(web.Document, &doc); err != nil {
		t.Fatal(err)
	}
	components := doc["components"].(map[string]any)
	components["schemas"] = withWords(schemas, components["schemas"])
	data, err := json.Marshal(doc, json.Deterministic(true), jsontext.WithIndent("  "))
	if err == nil {
		err = os.WriteFile("openapi.json", append(data, '\n'), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// withWords returns v with the words for people of what stands in the same place.
func withWords(v, before any) any {
	to, ok := v.(map[string]any)
	from, was := before.(map[string]any)
	if !ok || !was {
		return v
	}
	for name, x := range to {
		to[name] = withWords(x, from[name])
	}
	if words, ok := from["description"].(string); ok {
		to["description"] = words
	}
	return to
}

// withoutWords leaves out what is for people.
func withoutWords(v any) any {
	switch v := v.(type) {
	case map[string]any:
		n := make(map[string]any, len(v))
		for name, x := range v {
			if _, words := x.(string); name != "description" || !words {
				n[name] = withoutWords(x)
			}
		}
		return n
	case []any:
		n := make([]any, 0, len(v))
		for _, x := range v {
			n = append(n, withoutWords(x))
		}
		return n
	default:
		return v
	}
}

// schemaOf returns the schema of a struct.
func schemaOf(t *testing.T, of reflect.Type) map[string]any {
	t.Helper()
	properties, always, open := make(map[string]any), make(map[string]bool), false
	for _, f := range fields(of) {
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if strings.Contains(options, "embed") {
			open = true
			continue
		}
		always[name] = !strings.Contains(options, "omit")
		properties[name] = schema(t, f.Type, always[name])
	}
	var required []any
	for _, name := range slices.Sorted(maps.Keys(always)) {
		if always[name] {
			required = append(required, name)
		}
	}
	s := map[string]any{"type": "object", "properties": properties}
	if required != nil {
		s["required"] = required
	}
	if open {
		s["additionalProperties"] = true
	}
	return s
}

// fields returns the fields of a struct, those of embedded ones first.
func fields(of reflect.Type) (all []reflect.StructField) {
	for f := range of.Fields() {
		if f.Anonymous {
			all = append(all, fields(f.Type)...)
		}
	}
	for f := range of.Fields() {
		if !f.Anonymous && f.IsExported() {
			all = append(all, f)
		}
	}
	return all
}

func schema(t *testing.T, of reflect.Type, always bool) any {
	t.Helper()
	switch of {
	case reflect.TypeFor[time.Time]():
		return map[string]any{"type": "string", "format": "date-time"}
	case reflect.TypeFor[jsontext.Value]():
		return map[string]any{}
	case reflect.TypeFor[events.Replicas]():
		return map[string]any{"type": []any{"integer", "string"}}
	}
	for name, v := range shapes {
		if reflect.TypeOf(v) == of {
			return map[string]any{"$ref": "#/components/schemas/" + name}
		}
	}
	switch of.Kind() {
	case reflect.Pointer:
		if s := schema(t, of.Elem(), false); always {
			return map[string]any{"anyOf": []any{s, map[string]any{"type": "null"}}}
		} else {
			return s
		}
	case reflect.String:
		return map[string]any{"type": "string"}
	case reflect.Bool:
		return map[string]any{"type": "boolean"}
	case reflect.Float64:
		return map[string]any{"type": "number"}
	case reflect.Slice:
		return map[string]any{"type": "array", "items": schema(t, of.Elem(), false)}
	case reflect.Map:
		return map[string]any{"type": "object", "additionalProperties": schema(t, of.Elem(), false)}
	case reflect.Int, reflect.Int64, reflect.Uint64:
		return map[string]any{"type": "integer"}
	default:
		t.Fatalf("%v has no schema", of)
		return nil
	}
}
