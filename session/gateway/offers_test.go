package gateway_test

import (
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/cockroachdb/errors"
	"github.com/google/go-cmp/cmp"
	"github.com/mark3labs/mcp-go/mcp"

	"github.com/toolfleet/toolfleet/session/gateway"
	"github.com/toolfleet/toolfleet/worker/mcptest"
)

// R35, M11, R22: the MCP library's client lists, reads and gets what servers offer
// besides tools, in revisions of both kinds, and hears when that changes.
func TestResourcesAndPromptsOfAFleet(t *testing.T) {
	f := newFleet(t)
	f.start("a", mcptest.Script{
		Tools: []string{"grow"}, Resources: []string{mcptest.OddURI, "test:///1"}, Templates: []string{"test:///{id}"},
		Prompts: []string{mcptest.OddPrompt, "say"}, Completes: true,
	})
	f.start("b", mcptest.Script{Tools: []string{"echo"}, Resources: []string{"test:///1"}})
	g := f.serve(&gateway.Options{Tokens: map[string]string{"me": "t0ken"}})
	web := httptest.NewServer(g)
	t.Cleanup(web.Close)
	first := connect(t, overPipes(t, g), pinned)
	first.names() // waits for the servers, whose other lists come later
	for len(first.uris()) < 3 {
		first.heard("notifications/resources/list_changed")
	}
	for len(first.prompts()) < 2 {
		first.heard("notifications/prompts/list_changed")
	}
	for name, w := range map[string]*wire{
		"with a session": first, "without": connect(t, overPipes(t, g)),
		"without, over HTTP": connect(t, overHTTP(t, web.URL)),
	} {
		t.Run(name, func(t *testing.T) {
			defer w.close()
			w.offers(t)
		})
	}
}

func (w *wire) uris() (uris []string) {
	w.t.Helper()
	r, err := w.ListResources(w.t.Context(), mcp.ListResourcesRequest{})
	if err != nil {
		w.t.Fatal(err)
	}
	for _, r := range r.Resources {
		uris = append(uris, r.URI)
	}
	return uris
}

func (w *wire) prompts() []mcp.Prompt {
	w.t.Helper()
	r, err := w.ListPrompts(w.t.Context(), mcp.ListPromptsRequest{})
	if err != nil {
		w.t.Fatal(err)
	}
	return r.Prompts
}

// offers checks what the servers of a fleet offer.
func (w *wire) offers(t *testing.T) {
	t.Helper()
	uris := w.uris()
	if diff := cmp.Diff([]string{mcptest.OddURI, "test:///1", "toolfleet://b/test:%2F%2F%2F1"}, uris); diff != "" {
		t.Fatalf("resources (-want +got):\n%s", diff)
	}
	templates, err := w.ListResourceTemplates(t.Context(), mcp.ListResourceTemplatesRequest{})
	if err != nil || len(templates.ResourceTemplates) != 1 {
		t.Errorf("templates %v, %v", templates, err)
	}
	for _, uri := range []string{uris[0], uris[1], uris[2], "test:///another"} {
		var q mcp.ReadResourceRequest
		q.Params.URI = uri
		_, err := w.ReadResource(t.Context(), q)
		own := strings.NewReplacer("toolfleet://b/test:%2F%2F%2F1", "test:///1").Replace(uri)
		switch want := "what is at " + own; {
		case uri == mcptest.OddURI:
			w.ends(t, mcptest.OddContents) // whatever the library makes of it
		case err != nil || !strings.Contains(w.raw.result, want):
			t.Errorf("%s: %s, %v", uri, w.raw.result, err)
		}
	}
	var q mcp.ReadResourceRequest
	q.Params.URI = "nowhere:///"
	if _, err := w.ReadResource(t.Context(), q); !errors.IsAny(err, mcp.ErrResourceNotFound, mcp.ErrInvalidParams) {
		t.Errorf("a resource that is nowhere: %v", err)
	}
	if p := w.prompts(); len(p) != 2 || p[1].Name != "a__say" || p[1].Description == "" {
		t.Errorf("prompts %v", p)
	}
	var p mcp.GetPromptRequest
	p.Params.Name, p.Params.Arguments = "a__say", map[string]string{"text": "hello"}
	if _, err := w.GetPrompt(t.Context(), p); err != nil || !strings.Contains(w.raw.result, "say: hello") {
		t.Errorf("prompt: %s, %v", w.raw.result, err)
	}
	p.Params.Name = "a__odd"
	_, _ = w.GetPrompt(t.Context(), p) // whatever the library makes of it
	w.ends(t, mcptest.OddMessages)
	var c mcp.CompleteRequest
	c.Params.Ref = mcp.PromptReference{Type: "ref/prompt", Name: "a__say"}
	c.Params.Argument.Name = "text"
	if _, err := w.Complete(t.Context(), c); err != nil {
		t.Error(err)
	}
	w.ends(t, mcptest.OddCompletion)
}

// ends checks that the last result was what a server had sent, but for members
// before it.
func (w *wire) ends(t *testing.T, want string) {
	t.Helper()
	if !strings.HasSuffix(w.raw.result, want[1:]) {
		t.Errorf("got %s, want %s", w.raw.result, want)
	}
}
