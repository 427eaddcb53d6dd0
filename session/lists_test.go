package session

import (
	"fmt"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"

	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/projections"
)

const (
	someResources = `{"resources":[{"uri":"file:///b","name":"b"},{"uri":"file:///a","name":"a","mimeType":"text/plain","size":12345678901234567890}],` +
		`"templates":[{"uriTemplate":"file:///{path}","name":"any","description":"any file"}]}`
	somePrompts = `[{"name":"review","description":"Reviews","arguments":[{"name":"text","required":true},{"name":"tone","description":"kind"}]},{"name":"ask me"}]`
)

// listedBy returns what a session lists besides tools, a line each.
func listedBy(s *Session) string {
	var b strings.Builder
	for _, r := range s.Resources() {
		fmt.Fprintf(&b, "%s %s %s\n", r.Server, r.URI, r.State)
	}
	for _, r := range s.Templates() {
		fmt.Fprintf(&b, "%s %s %s\n", r.Server, r.URITemplate, r.State)
	}
	for _, p := range s.Prompts() {
		fmt.Fprintf(&b, "%s %s\n", p.Name, p.State)
	}
	return b.String()
}

// R35, M11, R16: resources, templates and prompts are listed by server, and follow
// its connections as tools do.
func TestResourcesAndPrompts(t *testing.T) {
	f := newScene(t)
	f.declare("docs")
	s := attend(t, f, &owners{})
	chain := events.InstanceChain("docs", "0")
	lists := func(what string, signal bool, want ...string) {
		t.Helper()
		if diff := cmp.Diff(strings.Join(append(want, ""), "\n"), listedBy(s)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", what, diff)
		}
		if got := drainSignal(s); got != signal {
			t.Errorf("%s: signalled %v", what, got)
		}
	}
	all := func(state string) []string {
		return []string{
			"docs file:///a " + state, "docs file:///b " + state, "docs file:///{path} " + state,
			"docs__ask_me_hxvfld3mmae7z2cmc " + state, "docs__review " + state,
		}
	}
	f.connecting("docs", "0", "w")
	lists("connecting for the first time", false)
	f.connected("docs", "0", `{"tools":{},"resources":{},"prompts":{}}`)
	drainSignal(s)
	lists("ready, but not listed yet", false)
	unlisted := func(want bool) {
		t.Helper()
		if got := s.Unlisted(); len(got) > 0 != want {
			t.Errorf("unlisted: %v", got)
		}
	}
	unlisted(true)
	f.offer("docs", "0", `{"resources":[{"uri":"file:///a","name":"a"}],"templates":[]}`, "")
	unlisted(true)
	lists("one resource", true, "docs file:///a live")
	f.offer("docs", "0", `{"resources":[{"uri":"file:///a","name":"a"}],"templates":[{"uriTemplate":"x:{y}","name":"t"}]}`, "")
	lists("a template", true, "docs file:///a live", "docs x:{y} live")
	f.offer("docs", "0", someResources, "")
	drainSignal(s)
	f.offer("docs", "0", "", somePrompts)
	unlisted(false)
	lists("listed", true, all("live")...)

	before := s.Resources()
	f.tell(events.WorkerChain("w"), events.Joined{})
	lists("something else happened", false, all("live")...)
	if after := s.Resources(); &after[0] != &before[0] {
		t.Error("another list, though nothing changed")
	}
	f.tell(chain, events.Failed{Failure: events.NewFailure(events.Killed, events.PhaseRun, ""), Attempt: 1})
	lists("killed", true, all("stale")...)
	f.connecting("docs", "0", "w2")
	lists("another owner", true, all("deferred")...)
	f.connected("docs", "0", `{"tools":{},"resources":{},"prompts":{}}`)
	lists("ready, but not listed again", false, all("deferred")...)
	unlisted(true)
	f.offer("docs", "0", `{"resources":[{"uri":"file:///c","name":"c"}],"templates":[]}`, "")
	lists("resources are listed", true, "docs file:///c live", "docs__ask_me_hxvfld3mmae7z2cmc deferred", "docs__review deferred")
	f.connecting("docs", "0", "w")
	drainSignal(s)
	f.connected("docs", "0", `{"tools":{},"resources":{}}`)
	f.offer("docs", "0", someResources, "")
	lists("a server that has no prompts any more", true, all("live")[:3]...)
	unlisted(false)
	if got := s.Instructions("docs"); got != "be kind" {
		t.Errorf("instructions are %q", got)
	}

	f.tell(events.ServerChain("docs"), events.Disabled{})
	f.tell(chain, events.HasStopped{})
	lists("disabled", true)
	if got := s.Instructions("docs") + s.Instructions("none"); got != "" {
		t.Errorf("instructions are %q", got)
	}
}

// What a session has of a resource or prompt is what the server sent.
func TestReadingOfResourcesAndPrompts(t *testing.T) {
	lists := readResources("s", jsontext.Value(`{"resources":[7,{"name":"no uri"},{"uri":5},{"uri":"x:1","name":5},{"uri":"x:1","name":"twice"},
		{"uri":"x:0","name":"n","description":"d","mimeType":"m","n":1.0}],"templates":[{"uriTemplate":"x:{y}"},{"uri":"x:1"}]}`))
	want := resourceLists{
		resources: []Resource{
			{Server: "s", URI: "x:0", Name: "n", Description: "d", MIMEType: "m", Definition: jsontext.Value(`{"uri":"x:0","name":"n","description":"d","mimeType":"m","n":1.0}`)},
			{Server: "s", URI: "x:1", Definition: jsontext.Value(`{"uri":"x:1","name":5}`)},
		},
		templates: []Template{{Server: "s", URITemplate: "x:{y}", Definition: jsontext.Value(`{"uriTemplate":"x:{y}"}`)}},
	}
	if diff := cmp.Diff(want, lists, cmp.AllowUnexported(resourceLists{})); diff != "" {
		t.Errorf("resources (-want +got):\n%s", diff)
	}
	if lists = readResources("s", jsontext.Value(`[]`)); lists.resources != nil || lists.templates != nil {
		t.Errorf("of something else: %+v", lists)
	}
	prompts := readPrompts("s", jsontext.Value(`[{"name":"p","arguments":[{"name":"a","required":true},{"name":"b","required":"yes","description":"d"},{},7]},{"name":"q","arguments":{}},{},7]`))
	wantPrompts := []Prompt{
		{
			Server: "s", Prompt: "p", Arguments: []Argument{{"a", "", true}, {"b", "d", false}},
			Definition: jsontext.Value(`{"name":"p","arguments":[{"name":"a","required":true},{"name":"b","required":"yes","description":"d"},{},7]}`),
		},
		{Server: "s", Prompt: "q", Definition: jsontext.Value(`{"name":"q","arguments":{}}`)},
	}
	if diff := cmp.Diff(wantPrompts, prompts); diff != "" {
		t.Errorf("prompts (-want +got):\n%s", diff)
	}
}

// A session keeps to one instance for everything that a server offers, also where
// that is no tools.
func TestResourcesAreOfOneInstance(t *testing.T) {
	f := newScene(t)
	f.declare("docs")
	s := attend(t, f, &owners{})
	for _, n := range []events.InstanceID{"0", "1"} {
		f.connecting("docs", n, "w"+events.WorkerID(n))
		f.connected("docs", n, `{"resources":{}}`)
		f.offer("docs", n, fmt.Sprintf(`{"resources":[{"uri":"of:%s","name":"r"}],"templates":[]}`, n), "")
	}
	now, _ := s.load()
	used := now.catalogue.member("docs").instance
	if got := listedBy(s); got != fmt.Sprintf("docs of:%s live\n", used) {
		t.Errorf("instance %s is used, and listed is\n%s", used, got)
	}
	f.tell(events.InstanceChain("docs", used), events.Failed{Failure: events.NewFailure(events.Killed, events.PhaseRun, "")})
	other := map[events.InstanceID]events.InstanceID{"0": "1", "1": "0"}[used]
	if got := listedBy(s); got != fmt.Sprintf("docs of:%s live\n", other) {
		t.Errorf("instance %s is gone, and listed is\n%s", used, got)
	}
	f.tell(events.InstanceChain("docs", other), events.Failed{Failure: events.NewFailure(events.Killed, events.PhaseRun, "")})
	if got := listedBy(s); got != fmt.Sprintf("docs of:%s stale\n", other) {
		t.Errorf("both are gone, and listed is\n%s", got)
	}
}

// M14: prompts have names by the same scheme, and apart from those of tools.
func TestNamesOfPrompts(t *testing.T) {
	f := newScene(t)
	s := attendWith(t, f, &owners{}, &Options{Scheme: projections.OnCollision, Reserved: []string{"review"}})
	for _, id := range []events.ServerID{"a", "b"} {
		f.declare(id)
		f.ready(id, "0", "w", "review")
	}
	f.offer("a", "0", "", `[{"name":"review"},{"name":"both"}]`)
	f.offer("b", "0", "", `[{"name":"both"}]`)
	if got, want := listedBy(s), "a__both live\nb__both live\nreview live\n"; got != want {
		t.Errorf("got\n%s", got)
	}
}
