//go:build real

package real

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/errors"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/projections"
)

type toolRow struct {
	Name        string                 `json:"name"`
	Server      events.ServerID        `json:"server"`
	Tool        string                 `json:"tool"`
	State       projections.ToolsState `json:"state"`
	InputSchema jsontext.Value         `json:"inputSchema"`
}

// checkTools compares what the command line and the session list with what a bare
// client is sent: over stdio, also for the same program over HTTP.
func checkTools(f *fleet) {
	rows := get[[]toolRow](f, "tools")
	if !slices.IsSortedFunc(rows, func(a, b toolRow) int { return strings.Compare(a.Name, b.Name) }) {
		f.t.Error("the tools are not sorted by name") // R19
	}
	bare := make(map[events.ServerID]map[string]jsontext.Value)
	for _, s := range f.servers {
		if s.Command != "" {
			bare[s.ID] = listBare(f.t, s)
		}
	}
	bare[overHTTP] = bare[everything]
	total := 0
	for id, tools := range bare {
		total += len(tools)
		if len(tools) == 0 {
			f.t.Errorf("the bare client saw no tools of %s", id)
		}
	}
	if tools, _ := f.session.Tools(); len(tools) != total || len(rows) != total {
		f.t.Errorf("the session has %d tools and the command line %d, want %d", len(tools), len(rows), total)
	}
	tools, _ := f.session.Tools()
	for i := range tools {
		t := &tools[i]
		want := bare[t.Server][t.Tool]
		if want == nil || t.State != projections.ToolsLive {
			f.t.Errorf("%s is %s; the bare client has %q", t.Name, t.State, want)
			continue
		}
		if got, want := canonical(f.t, t.Definition), canonical(f.t, want); got != want {
			f.t.Errorf("%s:\n got %s\nwant %s", t.Name, got, want)
		}
		if i >= len(rows) || rows[i].Name != t.Name || rows[i].State != t.State ||
			canonical(f.t, rows[i].InputSchema) != canonical(f.t, t.InputSchema) {
			f.t.Errorf("toolfleet tools has no line %d for %s with its schema", i, t.Name)
		}
	}
}

func canonical(t *testing.T, v jsontext.Value) string {
	t.Helper()
	c := v.Clone()
	if err := c.Canonicalize(); err != nil {
		t.Fatalf("%s: %v", v, err)
	}
	return string(c)
}

func checkCalls(f *fleet, dir string) {
	if err := os.WriteFile(filepath.Join(dir, "hello.txt"), []byte("good morning"), 0o600); err != nil {
		f.t.Fatal(err)
	}
	for _, tt := range []struct{ tool, arguments, want string }{
		{"everything__echo", `{"message":"over the bus"}`, "over the bus"},
		{"remote__echo", `{"message":"and the web"}`, "and the web"},
		{"filesystem__read_text_file", fmt.Sprintf(`{"path":%q}`, filepath.Join(dir, "hello.txt")), "good morning"},
		{"memory__create_entities", `{"entities":[{"name":"Ada","entityType":"person","observations":["counts"]}]}`, "Ada"},
		{"memory__read_graph", `{}`, "counts"},
	} {
		out, err := f.run("call", tt.tool, tt.arguments)
		if err != nil || !bytes.Contains(out, []byte(tt.want)) {
			f.t.Errorf("%s answered %s, %v; want %q in it", tt.tool, out, err, tt.want)
		}
	}
	// R20: a server's own error passes as it is.
	out, err := f.run("call", "filesystem__read_text_file", `{"path":"/etc/passwd"}`)
	if exitStatus(err) != 5 || !bytes.Contains(out, []byte("Access denied")) {
		f.t.Errorf("reading outside the folder: %s, %v", out, err)
	}
	if _, err := f.run("call", "everything__no_such_tool"); exitStatus(err) != 3 {
		f.t.Errorf("an unknown tool: %v, want exit status 3", err)
	}
}

func exitStatus(err error) int {
	var e *exec.ExitError
	if !errors.As(err, &e) {
		return 0
	}
	return e.ExitCode()
}
