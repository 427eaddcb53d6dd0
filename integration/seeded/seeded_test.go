//go:build seeded

package seeded

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
)

// TestSeeds builds each bug into the program, without touching the source, and
// demands that the test named in it fails, and does not fail without it.
func TestSeeds(t *testing.T) {
	for _, s := range seeds(t) {
		t.Run(s.name, func(t *testing.T) {
			if out, ok := s.run(t, ""); !ok {
				t.Fatalf("%s fails without the bug:\n%s", s.test, out)
			}
			out, ok := s.run(t, s.overlay(t))
			switch {
			case ok:
				t.Errorf("%s does not notice: %s", s.test, s.bug)
			case !strings.Contains(out, "--- FAIL: ") && !strings.Contains(out, "panic: "):
				t.Errorf("the bug does not build:\n%s", out)
			}
		})
	}
}

// overlay writes what go build's -overlay takes, and returns its path.
func (s *seed) overlay(t *testing.T) string {
	t.Helper()
	changed, err := s.files()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	replace := make(map[string]string)
	for name, text := range changed {
		there, err := filepath.Abs(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		here := filepath.Join(dir, strings.ReplaceAll(name, "/", "_"))
		if err := os.WriteFile(here, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		replace[there] = here
	}
	data, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// run runs the test, with an overlay if there is one: in the flags of all go
// commands, because some tests build programs.
func (s *seed) run(t *testing.T, overlay string) (string, bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	var parts []string
	for part := range strings.SplitSeq(s.test, "/") {
		parts = append(parts, "^"+part+"$")
	}
	cmd := exec.CommandContext(ctx, "go", "test", "-count", s.runs, "-failfast", "-timeout", "100s", "-run", strings.Join(parts, "/"), s.pkg)
	cmd.Dir = root
	cmd.Env = os.Environ()
	if overlay != "" {
		cmd.Env = append(cmd.Env, "GOFLAGS=-overlay="+overlay)
	}
	out, err := cmd.CombinedOutput()
	return string(out), err == nil
}
