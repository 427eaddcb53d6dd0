package files_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cockroachdb/errors"

	"github.com/toolfleet/toolfleet/cmd/internal/files"
	"github.com/toolfleet/toolfleet/events"
)

func write(t *testing.T, path, text string) string {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600)); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestRead(t *testing.T) {
	dir := t.TempDir()
	one := write(t, filepath.Join(dir, "one.json"), `{"mcpServers": {"a": {"command": "x"}, "bad": {"command": "x", "url": "y"}}}`)
	two := write(t, filepath.Join(dir, "two.json"), `{"mcpServers": {"b": {"command": "x"}, "a": {"command": "other"}, "bad": {"command": "good"}}}`)
	all, err := files.Read(one, two)
	if err != nil {
		t.Fatal(err)
	}
	if len(all) != 2 || len(all[0].Entries) != 1 || len(all[1].Entries) != 1 || all[1].Entries[0].ID != "b" {
		t.Fatalf("got %+v", all)
	}
	if !all[0].Has("bad") || !all[0].Has("a") || all[0].Has("b") {
		t.Error("the first file has a and bad")
	}
	if notes := strings.Join(all[1].Notes, "\n"); strings.Count(notes, "is in "+one+" already") != 2 {
		t.Errorf("notes are %s", notes)
	}
	source := all[0].Source
	if !all[0].DeclaredBefore(&events.Definition{Source: &source}) || all[1].DeclaredBefore(&events.Definition{Source: &source}) {
		t.Error("a source is the file")
	}
}

// case A2
func TestReadShowsTheLine(t *testing.T) {
	broken := write(t, filepath.Join(t.TempDir(), "broken.json"), "{\"mcpServers\": {\n  \"a\": {\"command\": x}\n}}")
	_, err := files.Read(broken)
	if err == nil || !strings.Contains(err.Error(), "line 2, column 20") {
		t.Fatalf("got %v", err)
	}
	if hints := errors.GetAllHints(err); len(hints) != 1 || hints[0] != `2 |   "a": {"command": x}` {
		t.Errorf("hints are %q", hints)
	}
}

func TestFind(t *testing.T) {
	project, home := t.TempDir(), t.TempDir()
	write(t, filepath.Join(project, ".mcp.json"), `{"mcpServers": {"a": {"command": "x"}, "b": {"command": "y"}}}`)
	write(t, filepath.Join(home, ".cursor", "mcp.json"), `{`)
	found := files.Find(project, home)
	if len(found) != 2 || found[0].Servers != 2 || found[0].Err != nil || found[1].Err == nil || found[1].Program != "Cursor" {
		t.Errorf("got %+v", found)
	}
	if got := files.Find(t.TempDir(), t.TempDir()); len(got) != 0 {
		t.Errorf("got %+v, want nothing", got)
	}
}
