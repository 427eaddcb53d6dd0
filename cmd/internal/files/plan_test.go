package files_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/toolfleet/toolfleet/cmd/internal/files"
	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/projections"
)

func TestPlan(t *testing.T) {
	file := write(t, filepath.Join(t.TempDir(), "mcp.json"), `{"mcpServers": {
		"new": {"command": "x"},
		"same": {"command": "x", "env": {"TOKEN": "sesame-sesame"}},
		"other": {"command": "x", "args": ["-v"]},
		"bad": {"command": "x", "url": "y"}
	}}`)
	sources, err := files.Read(file)
	if err != nil {
		t.Fatal(err)
	}
	source := &events.Source{Provider: "file", Path: file, Line: 99}
	server := func(id events.ServerID, d events.Definition) *projections.Server {
		d.Source = source
		return &projections.Server{ID: id, Definition: &d}
	}
	elsewhere := server("elsewhere", events.Definition{Command: "x"})
	elsewhere.Definition.Source = &events.Source{Provider: "file", Path: "/another"}
	steps := files.Plan(sources, []*projections.Server{
		server("bad", events.Definition{Command: "x"}),
		elsewhere,
		server("gone", events.Definition{Command: "x"}),
		server("other", events.Definition{Command: "x"}),
		server("same", events.Definition{Command: "x", Env: map[string]string{"TOKEN": "${secret:same/env.TOKEN#7}"}}),
		{ID: "withdrawn", Withdrawn: true},
	})
	var got []string
	for _, s := range steps {
		word := "declare"
		switch {
		case s.Err != nil:
			t.Errorf("%s: %v", s.ID, s.Err)
		case s.Entry == nil:
			word = "withdraw"
		case s.New:
			word = "create"
		}
		got = append(got, strings.TrimSpace(string(s.ID)+" "+word+" "+strings.Join(s.Changed, ",")))
	}
	want := "new create; same declare; other declare args; gone withdraw"
	if text := strings.Join(got, "; "); text != want {
		t.Errorf("got %s, want %s", text, want)
	}
}
