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
	if err := show.ToolsJSON(&b, tools); err != nil {
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
	if err := show.Tools(&b, tools); err != nil {
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
	if err := show.Servers(&b, servers); err != nil {
		t.Fatal(err)
	}
	want := "SERVER   STATE    TOOLS   WORKER   RESTARTS   FAILURE\n" +
		"a        ready    3       w        1\n" +
		"b        parked   0                0          startup_crash: " + strings.Repeat("long ", 13)[:64] + "…\n"
	if diff := cmp.Diff(want, b.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for _, tt := range []struct {
		write func(*strings.Builder) error
		want  string
	}{
		{func(b *strings.Builder) error { return show.Servers(b, nil) }, "the fleet has no servers\n"},
		{func(b *strings.Builder) error { return show.ServersJSON(b, nil) }, "[]\n"},
		{func(b *strings.Builder) error { return show.ToolsJSON(b, nil) }, "[]\n"},
	} {
		var b strings.Builder
		if err := tt.write(&b); err != nil || b.String() != tt.want {
			t.Errorf("got %q, %v; want %q", b.String(), err, tt.want)
		}
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
			if err := show.Result(&b, &session.Result{JSON: []byte(tt.result)}); err != nil {
				t.Fatal(err)
			}
			if b.String() != tt.want {
				t.Errorf("got %q, want %q", b.String(), tt.want)
			}
		})
	}
}
