package show_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolfleet/toolfleet/cmd/internal/show"
	"github.com/toolfleet/toolfleet/projections"
	"github.com/toolfleet/toolfleet/projections/shape"
	"github.com/toolfleet/toolfleet/session"
)

func TestResources(t *testing.T) {
	list := []shape.Resource{
		{Server: "docs", URI: "file:///a", State: projections.ToolsLive, Name: "a", MIMEType: "text/plain", Description: "one\ntwo", Definition: []byte(`{"uri":"file:///a","n":1.0}`)},
		{Server: "docs", URITemplate: "file:///{p}\x1b[2J", State: projections.ToolsStale},
	}
	for format, want := range map[string]string{
		show.Table: "RESOURCE          SERVER   STATE   TYPE         DESCRIPTION\n" +
			"file:///a         docs     live    text/plain   one\n" +
			"file:///{p}�[2J   docs     stale\n",
		show.Name: "file:///a\nfile:///{p}�[2J\n",
	} {
		var b strings.Builder
		if err := show.Resources.Write(&b, as(t, format), list); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, b.String()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", format, diff)
		}
	}
}

func TestPrompts(t *testing.T) {
	list := []session.Prompt{{
		Name: "docs__ask", Server: "docs", Prompt: "ask", State: projections.ToolsLive, Description: "Asks",
		Arguments: []session.Argument{{Name: "what", Required: true}, {Name: "how", Description: "kindly"}}, Definition: []byte(`{"name":"ask","x":1.0}`),
	}, {Name: "docs__none", Server: "docs", Prompt: "none", State: projections.ToolsLive}}
	var b strings.Builder
	if err := show.Prompts.Write(&b, as(t, show.Table), list); err != nil {
		t.Fatal(err)
	}
	want := "PROMPT       SERVER   STATE   ARGUMENTS        DESCRIPTION\n" +
		"docs__ask    docs     live    what=… [how=…]   Asks\n" +
		"docs__none   docs     live\n"
	if diff := cmp.Diff(want, b.String()); diff != "" {
		t.Errorf("table (-want +got):\n%s", diff)
	}
	b.Reset()
	if err := show.Prompts.Write(&b, as(t, show.JSON), list); err != nil {
		t.Fatal(err)
	}
	want = `[
  {
    "name": "docs__ask",
    "server": "docs",
    "prompt": "ask",
    "state": "live",
    "description": "Asks",
    "arguments": [
      {
        "name": "what",
        "description": "",
        "required": true
      },
      {
        "name": "how",
        "description": "kindly",
        "required": false
      }
    ],
    "definition": {
      "name": "ask",
      "x": 1.0
    }
  },
  {
    "name": "docs__none",
    "server": "docs",
    "prompt": "none",
    "state": "live",
    "description": "",
    "arguments": [],
    "definition": null
  }
]
`
	if diff := cmp.Diff(want, b.String()); diff != "" {
		t.Errorf("JSON (-want +got):\n%s", diff)
	}
}

// The contents of a resource are written as they are.
func TestContents(t *testing.T) {
	const (
		text = `{"contents":[{"uri":"a","text":"one\r\n\u001b[2J"},{"uri":"b","text":""},{"uri":"c","text":"two"}]}`
		blob = `{"contents":[{"uri":"a\u001b","mimeType":"image/png","blob":"AP8KDQ=="}]}`
	)
	written := func(result string) string {
		var b strings.Builder
		if err := show.Contents(&b, as(t, show.Text), []byte(result)); err != nil {
			t.Error(err)
		}
		return b.String()
	}
	if got := written(text); got != "one\r\n\x1b[2Jtwo" {
		t.Errorf("text is %q", got)
	}
	if got := written(blob); got != "\x00\xff\n\r" {
		t.Errorf("a blob is %q", got)
	}
	if got := written(`{"contents":[{"uri":"a","blob":""}]}`); got != "" {
		t.Errorf("an empty blob is %q", got)
	}
	for _, broken := range []string{`{"contents":[{"uri":"a","blob":"?"}]}`, `{"contents":7}`} {
		if err := show.Contents(&strings.Builder{}, as(t, show.Text), []byte(broken)); err == nil {
			t.Errorf("%s was written", broken)
		}
	}
	var b strings.Builder
	if err := show.Contents(&b, as(t, show.JSON), []byte(blob)); err != nil || !strings.Contains(b.String(), `"blob": "AP8KDQ=="`) {
		t.Errorf("JSON: %s, %v", b.String(), err)
	}
}

func TestMessages(t *testing.T) {
	for _, tt := range []struct{ name, result, want string }{
		{"one", `{"messages":[{"role":"user","content":{"type":"text","text":"Look\u001b[2J\n"}}]}`, "Look�[2J\n"},
		{
			"several", `{"messages":[{"role":"user","content":{"type":"text","text":"a"}},{"role":"assistant","content":{"type":"image","mimeType":"image/png"}}]}`,
			"user:\na\n\nassistant:\n[image image/png]\n",
		},
		{"none", `{}`, ""},
	} {
		var b strings.Builder
		if err := show.Messages(&b, as(t, show.Text), []byte(tt.result)); err != nil || b.String() != tt.want {
			t.Errorf("%s: got %q, %v", tt.name, b.String(), err)
		}
	}
	if err := show.Messages(&strings.Builder{}, as(t, show.Text), []byte(`{"messages":7}`)); err == nil {
		t.Error("what is no prompt was written")
	}
}

// case G4: the arrays that the APIs of models take, with schemas that they accept.
func TestToolsForModels(t *testing.T) {
	tools := []session.Tool{
		{Name: "s__a", Description: "Does a", InputSchema: []byte(`{"type":"object","properties":{"n":{"maximum":12345678901234567890}}}`)},
		{Name: "s__b", InputSchema: []byte(`{"$schema":"x"}`), State: projections.ToolsStale},
	}
	for format, want := range map[string]string{
		show.OpenAI: `[{"type":"function","function":{"name":"s__a","description":"Does a","parameters":{"type":"object","properties":{"n":{"maximum":12345678901234567890}}}}},` +
			`{"type":"function","function":{"name":"s__b","parameters":{"type":"object","properties":{},"$schema":"x"}}}]`,
		show.OpenAIResponses: `[{"type":"function","name":"s__a","description":"Does a","parameters":{"type":"object","properties":{"n":{"maximum":12345678901234567890}}},"strict":false},` +
			`{"type":"function","name":"s__b","parameters":{"type":"object","properties":{},"$schema":"x"},"strict":false}]`,
		show.Anthropic: `[{"name":"s__a","description":"Does a","input_schema":{"type":"object","properties":{"n":{"maximum":12345678901234567890}}}},` +
			`{"name":"s__b","input_schema":{"type":"object","properties":{},"$schema":"x"}}]`,
	} {
		f := show.NewToolFormat()
		if err := f.Set(format); err != nil || !f.ForModel() {
			t.Fatal(err)
		}
		var b strings.Builder
		if err := show.ToolsForModel(&b, f, tools); err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(strings.Fields(b.String()), ""); got != strings.Join(strings.Fields(want), "") {
			t.Errorf("%s:\n got %s\nwant %s", format, got, want)
		}
		b.Reset()
		if err := show.ToolsForModel(&b, f, nil); err != nil || b.String() != "[]\n" {
			t.Errorf("%s: none is %q, %v", format, b.String(), err)
		}
	}
	if as(t, show.JSON).ForModel() {
		t.Error("JSON is for programs")
	}
}
