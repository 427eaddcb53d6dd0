package worker

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"

	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/worker/mcptest"
)

const (
	resources = events.KindResourcesListed
	prompts   = events.KindPromptsListed
)

// listing returns what an event says of a list, whichever it is.
func listing(t *testing.T, r *events.Record) events.Listing {
	t.Helper()
	switch b := r.Body.(type) {
	case events.ToolsListed:
		return b.Listing
	case events.ResourcesListed:
		return b.Listing
	case events.PromptsListed:
		return b.Listing
	}
	t.Fatalf("%s is no list", r.Kind())
	return events.Listing{}
}

// seeList waits for a list, and returns it with its blob.
func (r *rig) seeList(after events.Seq, kind events.Kind) (seq events.Seq, l events.Listing, blob string) {
	r.t.Helper()
	seen := r.see("s", after, kind)
	l = listing(r.t, &seen[0])
	data, err := r.log.GetBlob(r.t.Context(), l.Digest)
	if err != nil {
		r.t.Fatal(err)
	}
	return seen[0].Seq, l, string(data)
}

// bodyOf returns the body of a request, which can be read again.
func bodyOf(t *testing.T, q *http.Request) string {
	t.Helper()
	data, err := io.ReadAll(q.Body)
	if err != nil {
		return "" // the client went away
	}
	q.Body = io.NopCloser(bytes.NewReader(data))
	return string(data)
}

func offering() mcptest.Script {
	return mcptest.Script{
		Tools: mcptest.Special, Completes: true,
		Resources: []string{"test:///b", "test:///a", mcptest.OddURI, mcptest.SleepingResource},
		Templates: []string{"test:///{name}"},
		Prompts:   []string{"greet", mcptest.OddPrompt},
	}
}

// R35: resources, templates and prompts are listed, over both transports and in
// both eras, and again when the server announces a change of them.
func TestWorkerListsResourcesAndPrompts(t *testing.T) {
	t.Parallel()
	stateless := offering()
	stateless.Refuse = jsontext.Value(`{"code":-32022,"message":"unsupported","data":{"supported":["2026-07-28"]}}`)
	for name, definition := range map[string]func(t *testing.T) events.Definition{
		"stdio": func(t *testing.T) events.Definition { return offering().Definition(t) },
		"http": func(t *testing.T) events.Definition {
			return events.Definition{URL: mcptest.NewHTTP(t, offering()).URL}
		},
		"stateless": func(t *testing.T) events.Definition { return events.Definition{URL: mcptest.NewHTTP(t, stateless).URL} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.start()
			r.run("s", definition(t))
			seen := r.see("s", 0, ready)
			_, l, blob := r.seeList(seen[0].Seq, resources)
			want := []string{mcptest.OddURI, "test:///a", "test:///b", mcptest.SleepingResource, "test:///{name}"}
			if d := cmp.Diff(want, l.Added.Names); d != "" || l.Count != 5 {
				t.Errorf("%d resources (-want +got):\n%s", l.Count, d)
			}
			c, err := catalogueOf(Resources, []byte(blob))
			if err != nil || !strings.HasPrefix(blob, `{"resources":[{`) || !strings.Contains(blob, `"templates":[{`) || len(c.items) != 5 {
				t.Errorf("blob %s, %v", blob, err)
			}
			at, l, blob := r.seeList(seen[0].Seq, prompts)
			if !slices.Equal(l.Added.Names, []string{"greet", "odd"}) || !strings.HasPrefix(blob, "[{") || !strings.Contains(blob, `"name":"odd"`) {
				t.Errorf("prompts %+v, %s", l, blob)
			}

			if got := r.call(t.Context(), "s", "grow", `{"times":5,"what":"resources"}`); got.err != nil {
				t.Fatalf("grow: %+v", got.err)
			}
			// The first list may just have been made.
			grown, l, _ := r.seeList(seen[0].Seq, resources)
			if !slices.Contains(l.Added.Names, "test:///grown") {
				_, l, _ = r.seeList(grown, resources)
			}
			if l.Count != 6 || !slices.Contains(l.Added.Names, "test:///grown") {
				t.Errorf("resources %+v", l)
			}
			if got := r.call(t.Context(), "s", "grow", `{"times":5,"what":"prompts"}`); got.err != nil {
				t.Fatalf("grow: %+v", got.err)
			}
			if _, l, _ := r.seeList(at, prompts); l.Count != 3 || !slices.Equal(l.Added.Names, []string{"grown"}) || l.From == "" {
				t.Errorf("prompts %+v", l)
			}
			if n := strings.Count(r.kinds("s"), string(ready)); n != 1 {
				t.Errorf("tools were listed %d times", n)
			}
		})
	}
}

// The first lists of a connection are written even if they are the last ones again:
// they are those of this connection.
func TestWorkerListsAgainForEachConnection(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.start()
	d := mcptest.Script{Tools: mcptest.Special, Prompts: []string{"p"}}.Definition(t)
	r.run("s", d)
	_, first, _ := r.seeList(0, prompts)
	r.call(t.Context(), "s", "die", `{}`)
	seen := r.see("s", 0, events.KindFailed, ready)
	if _, l, _ := r.seeList(seen[1].Seq, prompts); l.Digest != first.Digest || l.From != first.Digest || l.Added.Count != 0 {
		t.Errorf("the same prompts: %+v", l)
	}
	if got := r.kinds("s"); strings.Contains(got, string(resources)) {
		t.Errorf("resources that it does not have: %s", got)
	}

	// A server that offers none any more has none.
	r.command("s", events.Command{Definition: new(mcptest.Script{Tools: []string{"echo"}}.Definition(t)), Generation: 2})
	seen = r.see("s", seen[1].Seq, events.KindStopping, ready)
	if _, l, blob := r.seeList(seen[1].Seq, prompts); l.Count != 0 || !slices.Equal(l.Removed.Names, []string{"p"}) || blob != "[]" {
		t.Errorf("no prompts: %+v, %s", l, blob)
	}
}

// case E6: what is not declared is not asked for.
func TestWorkerAsksForNoUndeclaredList(t *testing.T) {
	t.Parallel()
	s := mcptest.NewHTTP(t, mcptest.Script{Tools: mcptest.Special})
	r := newRig(t)
	r.start()
	r.run("s", events.Definition{URL: s.URL})
	r.see("s", 0, ready)
	if got := r.call(t.Context(), "s", "echo", `{}`); got.err != nil {
		t.Error(got.err)
	}
	if err := r.finish(); err != nil {
		t.Error(err)
	}
	for _, q := range s.Seen() {
		if strings.HasPrefix(q.RPC, "resources/") || strings.HasPrefix(q.RPC, "prompts/") || strings.HasPrefix(q.RPC, "completion/") {
			t.Errorf("it was asked %s", q.RPC)
		}
	}
	if got := r.kinds("s"); got != "assigned connecting connected tools-listed stopping stopped" {
		t.Errorf("the chain says %s", got)
	}
}

// R35, case N3: a server without templates has its resources all the same. Case E6:
// no error of these lists is a failure of the server.
func TestWorkerListsThatFail(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		errors map[string]jsontext.Value
		want   string // resources in the blob, "" if nothing is written
	}{
		"no templates": {
			map[string]jsontext.Value{"resources/templates/list": jsontext.Value(`{"code":-32601,"message":"no such method"}`)}, "test:///a",
		},
		"templates that fail": {
			map[string]jsontext.Value{"resources/templates/list": jsontext.Value(`{"code":-32603,"message":"out of order"}`)}, "test:///a",
		},
		"no resources": {
			map[string]jsontext.Value{"resources/list": jsontext.Value(`{"code":-32601,"message":"no such method"}`)}, "test:///{x}",
		},
		"resources that fail": {
			map[string]jsontext.Value{"resources/list": jsontext.Value(`{"code":-32603,"message":"out of order"}`)}, "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.start()
			r.run("s", mcptest.Script{
				Tools: []string{"echo"}, Resources: []string{"test:///a"}, Templates: []string{"test:///{x}"}, Errors: tc.errors,
			}.Definition(t))
			seen := r.see("s", 0, ready)
			if tc.want != "" {
				_, l, blob := r.seeList(seen[0].Seq, resources)
				if l.Count != 1 || !strings.Contains(blob, tc.want) {
					t.Errorf("resources %+v, %s", l, blob)
				}
			}
			eventually(t, "a warning", func() bool { return strings.Contains(r.logs.String(), "cannot be listed") })
			if got := r.call(t.Context(), "s", "echo", `{}`); got.err != nil {
				t.Error(got.err)
			}
			want := "assigned connecting connected tools-listed"
			if tc.want != "" {
				want += " resources-listed"
			}
			if got := r.kinds("s"); got != want {
				t.Errorf("the chain says %s", got)
			}
		})
	}
}

// A list that fails later changes nothing; one that fails on a new connection is
// empty, until it comes.
func TestWorkerListsThatFailLater(t *testing.T) {
	t.Parallel()
	s := mcptest.NewHTTP(t, mcptest.Script{Tools: mcptest.Special, Prompts: []string{"p"}})
	var broken atomic.Bool
	var refused atomic.Int32
	s.Answer(func(w http.ResponseWriter, q *http.Request) bool {
		if !broken.Load() || !strings.Contains(bodyOf(t, q), `"prompts/list"`) {
			return false
		}
		http.Error(w, "out of order", http.StatusBadGateway)
		refused.Add(1)
		return true
	})
	r := newRig(t)
	r.start()
	d := events.Definition{URL: s.URL}
	r.run("s", d)
	at, _, _ := r.seeList(0, prompts)
	broken.Store(true)
	if got := r.call(t.Context(), "s", "grow", `{"times":1,"what":"prompts"}`); got.err != nil {
		t.Fatalf("grow: %+v", got.err)
	}
	eventually(t, "the list to be refused", func() bool { return refused.Load() > 0 })
	if got := r.call(t.Context(), "s", "grow", `{"times":1}`); got.err != nil { // it works on
		t.Fatalf("grow: %+v", got.err)
	}
	r.see("s", at, ready)
	r.command("s", events.Command{Definition: &d, Generation: 2, Restart: 2})
	seen := r.see("s", at, events.KindStopping, ready)
	if strings.Count(r.kinds("s"), string(prompts)) > 2 {
		t.Errorf("the chain says %s", r.kinds("s"))
	}
	at, l, _ := r.seeList(seen[0].Seq, prompts)
	if l.Count != 0 || l.Removed.Count != 1 {
		t.Errorf("prompts that cannot be listed: %+v", l)
	}
	broken.Store(false)
	if got := r.call(t.Context(), "s", "grow", `{"times":1,"what":"prompts"}`); got.err != nil {
		t.Fatalf("grow: %+v", got.err)
	}
	if _, l, _ := r.seeList(at, prompts); l.Count != 2 {
		t.Errorf("prompts that can be listed again: %+v", l)
	}
}

// case G1: all pages are read, of each list. An item that cannot be used only costs
// itself, and one that holds a secret is not told of.
func TestWorkerListsPagesOfResources(t *testing.T) {
	t.Parallel()
	raw := make([]jsontext.Value, 0, 104)
	for n := range 101 {
		raw = append(raw, jsontext.Value(fmt.Sprintf(`{"uri":"test:///%d","name":"n","x":9007199254740993}`, n)))
	}
	raw = append(raw, jsontext.Value(`{"uri":"test:///nameless"}`), jsontext.Value(`{"name":"homeless"}`),
		jsontext.Value(`{"uri":"test:///?token=hunter2-hunter2","name":"n"}`))
	d := mcptest.Script{
		Tools: []string{"echo"}, PageSize: 50, RawLists: map[string][]jsontext.Value{"resources/list": raw},
	}.Definition(t)
	d.Env["TOKEN"] = "${secret:s/env.TOKEN#1}"
	r := newRig(t)
	r.secrets["${secret:s/env.TOKEN#1}"] = "hunter2-hunter2"
	r.start()
	r.run("s", d)
	_, l, blob := r.seeList(0, resources)
	if l.Count != 101 || l.Added.Count != 101 || strings.Count(blob, "9007199254740993") != 101 {
		t.Errorf("%d resources, %+v", l.Count, l.Added)
	}
	var why []string
	for _, q := range l.Quarantined.Items {
		why = append(why, q.Name+" "+q.Path+" "+q.Reason)
	}
	want := []string{
		"test:///nameless /name the name is missing, or no text", "#103 /uri the uri is missing, or no text",
		"#104  the resource holds a secret of the server's definition",
	}
	if d := cmp.Diff(want, why); d != "" {
		t.Errorf("quarantined (-want +got):\n%s", d)
	}
	if strings.Contains(r.history()+blob+r.logs.String(), "hunter2") {
		t.Error("the secret was told")
	}
}
