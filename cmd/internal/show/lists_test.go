package show_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolfleet/toolfleet/cmd/internal/show"
	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/projections"
	"github.com/toolfleet/toolfleet/session"
)

func TestTools(t *testing.T) {
	tools := []session.Tool{
		{
			Name: "git__log", Server: "git", Tool: "log", State: projections.ToolsLive, Path: "mcp:git via file",
			Description: "Shows\x1b[31m commits\nand more", InputSchema: []byte(`{"n":1.0,"$schema":"x"}`),
		},
		{Name: "git__x", Server: "git", Tool: "x", State: projections.ToolsStale, Path: "mcp:git"},
	}
	var b strings.Builder
	if err := show.Tools.Write(&b, as(t, show.JSON), tools); err != nil {
		t.Fatal(err)
	}
	want := `[
  {
    "name": "git__log",
    "server": "git",
    "tool": "log",
    "state": "live",
    "path": "mcp:git via file",
    "description": "Shows\u001b[31m commits\nand more",
    "inputSchema": {
      "n": 1.0,
      "$schema": "x"
    }
  },
  {
    "name": "git__x",
    "server": "git",
    "tool": "x",
    "state": "stale",
    "path": "mcp:git",
    "description": "",
    "inputSchema": null
  }
]
`
	if diff := cmp.Diff(want, b.String()); diff != "" {
		t.Errorf("JSON (-want +got):\n%s", diff)
	}
	b.Reset()
	if err := show.Tools.Write(&b, as(t, show.Table), tools); err != nil {
		t.Fatal(err)
	}
	want = "TOOL       SERVER   STATE   DESCRIPTION\n" +
		"git__log   git      live    Shows�[31m commits\n" +
		"git__x     git      stale\n"
	if diff := cmp.Diff(want, b.String()); diff != "" {
		t.Errorf("text (-want +got):\n%s", diff)
	}
}

func TestServers(t *testing.T) {
	servers := []projections.Status{
		{ID: "a", State: projections.Ready, Tools: 3, Worker: "w", Restarts: 1},
		{ID: "b", State: projections.Parked, Failure: &projections.Fault{
			Failure: events.Failure{Code: events.StartupCrash, Message: strings.Repeat("long ", 40)},
		}},
	}
	var b strings.Builder
	if err := show.Servers.Write(&b, as(t, show.Table), servers); err != nil {
		t.Fatal(err)
	}
	want := "SERVER   STATE    TOOLS   WORKER   RESTARTS   FAILURE\n" +
		"a        ready    3       w        1\n" +
		"b        parked   0                0          startup_crash: " + strings.Repeat("long ", 13)[:64] + "…\n"
	if diff := cmp.Diff(want, b.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for format, want := range map[string]string{
		show.Table: "", show.JSON: "[]\n", show.YAML: "[]\n", show.Name: "",
	} {
		var b strings.Builder
		if err := show.Servers.Write(&b, as(t, format), nil); err != nil || b.String() != want {
			t.Errorf("%s: got %q, %v; want %q", format, b.String(), err, want)
		}
		said := show.Servers.Nothing(as(t, format), nil)
		if people := format == show.Table || format == show.Name; (said == "the fleet has no servers") != people {
			t.Errorf("%s: said %q", format, said)
		}
	}
}

// One that is asked for is an object, with a failure also where there is none.
func TestOneServer(t *testing.T) {
	s := &projections.Status{ID: "a", State: projections.Ready, Want: events.Running, Instances: []projections.InstanceStatus{}}
	for format, want := range map[string][]string{
		show.JSON: {"{\n  \"id\": \"a\",", "\"want\": \"running\"", "\"instances\": []", "\"failure\": null"},
		show.YAML: {"id: a\n", "want: running\n", "instances: []\n", "failure: null\n"},
		show.Name: {"a\n"},
		show.Wide: {"SERVER", "STATUS", "WANT"},
	} {
		var b strings.Builder
		if err := show.Servers.WriteOne(&b, as(t, format), s); err != nil {
			t.Fatal(err)
		}
		for _, w := range want {
			if !strings.Contains(b.String(), w) {
				t.Errorf("%s: %q is not in %s", format, w, b.String())
			}
		}
	}
}

// YAML says what JSON says, also where the two are written differently.
func TestYAML(t *testing.T) {
	tools := []session.Tool{{
		Name: "yes", Server: "1e3", Tool: "null", Description: "a: b\nc # d\n", Path: "~",
		InputSchema: []byte(`{"z":1.0,"a":12345678901234567890,"s":"\/\ud83d\ude00","e":[],"o":{}}`),
	}}
	var b strings.Builder
	if err := show.Tools.Write(&b, as(t, show.YAML), tools); err != nil {
		t.Fatal(err)
	}
	want := `- name: "yes"
  server: "1e3"
  tool: "null"
  state: ""
  path: "~"
  description: |
    a: b
    c # d
  inputSchema:
    z: 1.0
    a: 12345678901234567890
    s: "/\U0001F600"
    e: []
    o: {}
`
	if diff := cmp.Diff(want, b.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// A list that is watched shows what changed.
func TestChanges(t *testing.T) {
	for format, want := range map[string][]string{
		show.Table: {
			"SERVER     STATE    TOOLS   WORKER   RESTARTS   FAILURE\na          ready    0                0\nlong-one   parked   0                0\n",
			"", "a        parked   0                0\nlong-one   gone\n",
		},
		show.Name: {"a\nlong-one\n", "", "a\n"},
		show.JSON: {"{\"id\":\"a\",", "", "{\"id\":\"a\",\"state\":\"parked\""},
		show.YAML: {"---\nid: a\n", "", "---\nid: a\nstate: parked\n"},
	} {
		c := show.Servers.Changes(as(t, format))
		for i, list := range [][]projections.Status{
			{{ID: "a", State: projections.Ready}, {ID: "long-one", State: projections.Parked}},
			{{ID: "a", State: projections.Ready}, {ID: "long-one", State: projections.Parked}},
			{{ID: "a", State: projections.Parked}},
		} {
			var b strings.Builder
			if err := c.Write(&b, list); err != nil {
				t.Fatal(err)
			}
			if got := b.String(); !strings.HasPrefix(got, want[i]) || want[i] == "" && got != "" {
				t.Errorf("%s, list %d: got %q, want %q", format, i, got, want[i])
			}
			if format == show.JSON && i == 2 && !strings.HasSuffix(b.String(), `{"gone":true,"id":"long-one"}`+"\n") {
				t.Errorf("got %q, want the one that is gone", b.String())
			}
		}
	}
}

func TestFormat(t *testing.T) {
	f := show.NewFormat()
	if err := f.Set("xml"); err == nil || err.Error() != "use table, wide, name, json or yaml" || !f.Is(show.Table) {
		t.Errorf("got %v, %s", err, f)
	}
}

func TestResult(t *testing.T) {
	for _, tt := range []struct{ name, result, want string }{
		{"text", `{"content":[{"type":"text","text":"one\ntwo\n"},{"type":"text","text":"three"}]}`, "one\ntwo\nthree\n"},
		{"text that steers", `{"content":[{"type":"text","text":"a\u001b]0;x\u0007b"}]}`, "a�]0;x�b\n"},
		{"code", `{"content":[{"type":"text","text":"if {\r\n\tx\n}\n"}]}`, "if {\n\tx\n}\n"},
		{"an image", `{"content":[{"type":"image","mimeType":"image/png","data":"AAAA"}]}`, "[image image/png]\n"},
		{"a resource", `{"content":[{"type":"resource","resource":{"uri":"file:///a","text":"inside"}}]}`, "inside\n"},
		{"a link", `{"content":[{"type":"resource_link","uri":"file:///a"}]}`, "[resource_link file:///a]\n"},
		{"structure alone", `{"structuredContent":{"b":1.0,"a":2}}`, `{"b":1.0,"a":2}` + "\n"},
		{"something else", `{"content":7}`, `{"content":7}` + "\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var b strings.Builder
			if err := show.Result(&b, as(t, show.Text), &session.Result{JSON: []byte(tt.result)}); err != nil {
				t.Fatal(err)
			}
			if b.String() != tt.want {
				t.Errorf("got %q, want %q", b.String(), tt.want)
			}
		})
	}
}
