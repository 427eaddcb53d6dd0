package worker

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"

	"github.com/toolfleet/toolfleet/events"
)

func catalogueFrom(definitions ...string) *catalogue {
	raw := make([]jsontext.Value, len(definitions))
	for i, d := range definitions {
		raw[i] = jsontext.Value(d)
	}
	return newCatalogue(Tools, [][]jsontext.Value{raw}, filter{})
}

func TestCatalogueKeepsBytes(t *testing.T) {
	b := `{"name":"b","x-vendor":1,"inputSchema":{"$schema":"s","type":"object","oneOf":[],"n":9007199254740993,"f":1.0}}`
	a := "{\n\t\"name\" : \"a\", \"outputSchema\":{\"type\":\"array\"}}"
	c := catalogueFrom(b, a)
	if got, want := string(c.blob()), "["+a+","+b+"]"; got != want {
		t.Errorf("blob:\n%s\nwant:\n%s", got, want)
	}
	again, err := catalogueOf(Tools, c.blob())
	if err != nil {
		t.Fatal(err)
	}
	if got := string(again.blob()); got != string(c.blob()) {
		t.Errorf("read and written again:\n%s", got)
	}
	if got := string(catalogueFrom().blob()); got != "[]" {
		t.Errorf("no tools are %s", got)
	}
}

func TestCatalogueOfRefuses(t *testing.T) {
	for _, blob := range []string{``, `{}`, `[{"name":""}]`, `[1]`} {
		if _, err := catalogueOf(Tools, []byte(blob)); err == nil {
			t.Errorf("%s was taken for a list", blob)
		}
	}
}

// case G3: one bad tool costs itself, not the list.
func TestCatalogueQuarantine(t *testing.T) {
	deep := strings.Repeat(`{"a":`, 101) + "1" + strings.Repeat("}", 101)
	for name, tc := range map[string]struct {
		tool, path, reason string
	}{
		"string":           {`{"name":"x","inputSchema":{"type":"string"}}`, "/inputSchema/type", "not"},
		"type array":       {`{"name":"x","inputSchema":{"type":["object"]}}`, "/inputSchema/type", "not"},
		"properties":       {`{"name":"x","inputSchema":{"type":"object","properties":[]}}`, "/inputSchema/properties", "no object"},
		"boolean schema":   {`{"name":"x","inputSchema":true}`, "/inputSchema", "no object"},
		"no name":          {`{"inputSchema":{}}`, "/name", "missing"},
		"name of a number": {`{"name":7}`, "/name", "no text"},
		"other case":       {`{"Name":"evil"}`, "/name", "missing"},
		"empty name":       {`{"name":""}`, "/name", "empty"},
		"long name":        {`{"name":"` + strings.Repeat("n", 129) + `"}`, "/name", "129"},
		"control":          {`{"name":"a\u0007b"}`, "/name", "invisible"},
		"bidi":             {`{"name":"a\u202eb"}`, "/name", "invisible"},
		"zero width":       {`{"name":"a\u200bb"}`, "/name", "invisible"},
		"twice":            {`{"name":"x","name":"y"}`, "", "duplicate"},
		"twice inside":     {`{"name":"x","inputSchema":{"type":"object","type":"string"}}`, "", "duplicate"},
		"twice deep":       {`{"name":"x","annotations":{"a":{"b":1,"b":2}}}`, "", "duplicate"},
		"deep":             {`{"name":"x","_meta":` + deep + `}`, "", "nested"},
		"large":            {`{"name":"x","description":"` + strings.Repeat("d", maxItemBytes) + `"}`, "", "bytes"},
		"no object":        {`"x"`, "", "not a tool"},
		"bad text":         {"{\"name\":\"x\",\"description\":\"\xff\"}", "", "UTF-8"},
	} {
		t.Run(name, func(t *testing.T) {
			c := catalogueFrom(`{"name":"good"}`, tc.tool, `{"name":"also good","inputSchema":{"type":"object"}}`)
			if len(c.items) != 2 || c.quarantined.Count != 1 {
				t.Fatalf("%d tools and %d in quarantine", len(c.items), c.quarantined.Count)
			}
			q := c.quarantined.Items[0]
			if q.Path != tc.path || !strings.Contains(q.Reason, tc.reason) || q.Name == "" {
				t.Errorf("quarantine %+v, want path %q and a reason with %q", q, tc.path, tc.reason)
			}
		})
	}
}

// case G4: a schema that says little accepts any object.
func TestCatalogueAccepts(t *testing.T) {
	for _, tool := range []string{
		`{"name":"x"}`, `{"name":"x","inputSchema":{}}`, `{"name":"x","inputSchema":null}`,
		`{"name":"x","inputSchema":{"$schema":"s"}}`, `{"name":"x","outputSchema":"nonsense"}`,
		`{"name":"Run tests"}`, `{"name":"météo"}`, `{"name":"user/update"}`,
	} {
		if c := catalogueFrom(tool); len(c.items) != 1 {
			t.Errorf("%s: %+v", tool, c.quarantined)
		}
	}
}

func TestCatalogueDuplicates(t *testing.T) {
	c := catalogueFrom(`{"name":"x","description":"first"}`, `{"name":"a"}`, `{"name":"x","description":"second"}`)
	if len(c.items) != 2 || !strings.Contains(string(c.items[1].raw), "first") {
		t.Errorf("kept %s", c.blob())
	}
	want := events.Quarantines{Count: 1, Items: []events.Quarantine{{Name: "x", Path: "/name", Reason: "a second tool of that name"}}}
	if d := cmp.Diff(want, c.quarantined); d != "" {
		t.Errorf("quarantine (-want +got):\n%s", d)
	}
}

func TestListing(t *testing.T) {
	old := catalogueFrom(`{"name":"a"}`, `{"name":"b","description":"1"}`, `{"name":"c"}`, `{"name":"d"}`)
	now := catalogueFrom(`{"name":"e"}`, `{"name":"b","description":"2"}`, `{ "name" : "c" }`, `{"name":"0"}`, `{"name":""}`)
	l := now.listing(now.blob(), old, "before")
	want := events.Listing{
		Digest: events.DigestOf(now.blob()), Count: 4, From: "before",
		Added:   events.Names{Count: 2, Names: []string{"0", "e"}},
		Removed: events.Names{Count: 2, Names: []string{"a", "d"}},
		Changed: events.Changes{Count: 1, Items: []events.Change{{
			Name: "b", From: old.items[1].digest, To: now.items[1].digest,
		}}},
		Quarantined: now.quarantined,
	}
	if d := cmp.Diff(want, l); d != "" {
		t.Errorf("listing (-want +got):\n%s", d)
	}
	if !changed(&l, old) {
		t.Error("taken for the same list")
	}
	same := now.listing(now.blob(), now, "x")
	if changed(&same, now) {
		t.Errorf("the same list counts as changed: %+v", same)
	}
	first := now.listing(now.blob(), nil, "unreadable")
	if first.From != "" || first.Added.Count != 4 || !changed(&first, nil) {
		t.Errorf("without an earlier list: %+v", first)
	}
	bad := catalogueFrom(`{"name":"e"}`, `{"name":"b","description":"2"}`, `{"name":"c"}`, `{"name":"0"}`)
	l = bad.listing(bad.blob(), now, "x")
	if !changed(&l, now) {
		t.Error("what left quarantine was not noticed")
	}
}

func TestListingIsBounded(t *testing.T) {
	var many []string
	for i := range 1000 {
		many = append(many, fmt.Sprintf(`{"name":"%s-%04d"}`, strings.Repeat("n", 120), i))
		many = append(many, fmt.Sprintf(`{"name":"bad-%d","inputSchema":{"type":"%s"}}`, i, strings.Repeat("s", 500)))
	}
	c := catalogueFrom(many...)
	l := c.listing(c.blob(), nil, "")
	if l.Added.Count != 1000 || len(l.Added.Names) != events.MaxNames || l.Quarantined.Count != 1000 {
		t.Errorf("%d added, %d named, %d in quarantine", l.Added.Count, len(l.Added.Names), l.Quarantined.Count)
	}
	e := events.Event{
		ID: "i", Source: "s", Time: timeOf(1), Chain: events.InstanceChain("s", "0"), Body: events.ToolsListed{Listing: l},
	}
	if _, err := events.Encode("f", &e); err != nil {
		t.Errorf("the event does not fit: %v", err)
	}
}

func TestDecodePage(t *testing.T) {
	for text, want := range map[string]struct {
		tools int
		next  string
	}{
		`{"tools":[{"name":"a"},{"name":"b"}],"nextCursor":"c"}`: {2, "c"},
		`{"tools":[],"nextCursor":null}`:                         {0, ""},
		`{"tools":[{"a":1,"a":2}],"nextCursor":""}`:              {1, ""},
		`{"tools":null}`:              {0, ""},
		`{}`:                          {0, ""},
		`{"TOOLS":[{"name":"evil"}]}`: {0, ""},
	} {
		p, err := decodePage([]byte(text), "tools")
		if err != nil || len(p.items) != want.tools || p.next != want.next {
			t.Errorf("%s: %d tools, next %q, %v", text, len(p.items), p.next, err)
		}
	}
	for _, text := range []string{`[]`, `{"tools":7}`, `{"tools":{}}`, `{"nextCursor":7}`} {
		if _, err := decodePage([]byte(text), "tools"); err == nil {
			t.Errorf("%s was taken for a page", text)
		}
	}
}

func TestFilters(t *testing.T) {
	d := &events.Definition{EnabledTools: []string{"a", "b"}, DisabledTools: []string{"b", "c"}}
	var seen []string
	for _, name := range []string{"a", "b", "c", "d"} {
		if offers(d, name) {
			seen = append(seen, name)
		}
	}
	if !slices.Equal(seen, []string{"a"}) {
		t.Errorf("offered %v", seen)
	}
	c := newCatalogue(Tools, [][]jsontext.Value{{[]byte(`{"name":"a"}`), []byte(`{"name":"d"}`)}},
		filter{allowed: func(n string) bool { return offers(d, n) }})
	if len(c.items) != 1 || c.quarantined.Count != 0 {
		t.Errorf("listed %s", c.blob())
	}
}

// Resources and templates are one list in two sections, each sorted by itself; the
// same text may be in both.
func TestCatalogueOfResources(t *testing.T) {
	values := func(texts ...string) (all []jsontext.Value) {
		for _, x := range texts {
			all = append(all, jsontext.Value(x))
		}
		return all
	}
	b, a, same := `{"uri":"b:","name":"n","x":1.0}`, `{"name":"n", "uri":"a:"}`, `{"uriTemplate":"a:","name":"n"}`
	c := newCatalogue(Resources, [][]jsontext.Value{values(b, a, b, `{"uri":"","name":"n"}`, `{"uri":7,"name":"n"}`), values(same, `{"uri":"x:","name":"n"}`)}, filter{})
	if got, want := string(c.blob()), `{"resources":[`+a+`,`+b+`],"templates":[`+same+`]}`; got != want {
		t.Errorf("blob:\n%s\nwant:\n%s", got, want)
	}
	var why []string
	for _, q := range c.quarantined.Items {
		why = append(why, q.Name+" "+q.Path+" "+q.Reason)
	}
	want := []string{
		"#4 /uri the uri is empty", "#5 /uri the uri is missing, or no text",
		"#2 /uriTemplate the uriTemplate is missing, or no text", "b: /uri a second resource of that uri",
	}
	if d := cmp.Diff(want, why); d != "" {
		t.Errorf("quarantine (-want +got):\n%s", d)
	}
	again, err := catalogueOf(Resources, c.blob())
	if err != nil || string(again.blob()) != string(c.blob()) {
		t.Errorf("read again: %v", err)
	}
	long := `{"uri":"` + strings.Repeat("u", 2<<10) + `","name":"n"}`
	now := newCatalogue(Resources, [][]jsontext.Value{values(long, b), nil}, filter{})
	l := now.listing(now.blob(), again, "before")
	if !slices.Equal(l.Removed.Names, []string{"a:", "a:"}) || len(l.Added.Names) != 1 || len(l.Added.Names[0]) != maxShown || l.Changed.Count != 0 {
		t.Errorf("listing %+v", l)
	}
	if got := string(newCatalogue(Resources, [][]jsontext.Value{nil, nil}, filter{}).blob()); got != `{"resources":[],"templates":[]}` {
		t.Errorf("no resources are %s", got)
	}
}

// case G3: what agents would refuse a whole list of prompts for costs one of them.
func TestCatalogueOfPrompts(t *testing.T) {
	for prompt, good := range map[string]bool{
		`{"name":"x"}`: true, `{"name":"x","arguments":null}`: true, `{"name":"x","arguments":[{"name":"a","required":true}]}`: true,
		`{"name":"x","arguments":{}}`: false, `{"name":"x","arguments":[{"title":"a"}]}`: false,
		`{"name":"x","arguments":[{"name":7}]}`: false, `{"title":"x"}`: false, `{"name":"a\u202eb"}`: false,
	} {
		c := newCatalogue(Prompts, [][]jsontext.Value{{jsontext.Value(prompt)}}, filter{})
		if (len(c.items) == 1) != good || (c.quarantined.Count == 0) != good {
			t.Errorf("%s: %+v", prompt, c.quarantined)
		}
	}
}
