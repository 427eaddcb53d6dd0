package files_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

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
	if len(files.Remarks(sources, nil)) > 0 {
		t.Error("something is said of a fleet without servers")
	}
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

// What may surprise is said: a server that another file declared is taken over,
// and one whose entry is bad goes on.
func TestRemarks(t *testing.T) {
	file := write(t, filepath.Join(t.TempDir(), "mcp.json"), `{"mcpServers": {
		"new": {"command": "x"}, "own": {"command": "x"}, "other": {"command": "x"}, "unfiled": {"command": "x"},
		"bad": {"command": "x", "url": "y"}, "stopped": {"command": "x", "url": "y"}, "unknown": {"command": "x", "url": "y"}
	}}`)
	sources, err := files.Read(file)
	if err != nil {
		t.Fatal(err)
	}
	server := func(id events.ServerID, source *events.Source) *projections.Server {
		return &projections.Server{ID: id, Enabled: id != "stopped", Definition: &events.Definition{Command: "x", Source: source}}
	}
	own := &events.Source{Provider: "file", Path: file, Line: 99}
	got := files.Remarks(sources, []*projections.Server{
		server("bad", own), server("elsewhere", own), server("other", &events.Source{Provider: "file", Path: "/another"}),
		server("own", own), server("stopped", own), server("unfiled", nil),
		{ID: "unknown", Withdrawn: true},
	})
	want := []string{
		"server bad keeps running as it was declared before",
		"server other was declared from /another; it becomes one of " + file,
		"server stopped stays as it was declared before, and is not to run",
		"server unfiled was declared without a file; it becomes one of " + file,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
