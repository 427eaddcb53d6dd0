// Package crash kills the real programs at exact places, and looks at what is
// left: of them, of their servers, and of the history.
package crash

import (
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/toolfleet/toolfleet/integration/invariants"
	"github.com/toolfleet/toolfleet/worker/mcptest"
)

// bin holds the programs.
var bin string

// TestMain makes the test binary an MCP server where it was started as one.
func TestMain(m *testing.M) {
	if err := invariants.Guard(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	mcptest.Main()
	flag.Parse()
	// Most of the time they wait for a lease or a pause to be over.
	if err := flag.Set("test.parallel", "6"); err != nil {
		panic(err)
	}
	os.Exit(buildAndRun(m))
}

func buildAndRun(m *testing.M) int {
	dir, err := os.MkdirTemp("", "toolfleet-crash-")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	bin = dir
	if err := lookAtSources(); err != nil {
		panic(err)
	}
	build := exec.Command("go", "build", "-o", dir+string(filepath.Separator),
		"../../cmd/toolfleet", "../../cmd/controller", "../../cmd/worker")
	if out, err := build.CombinedOutput(); err != nil {
		panic("build the programs: " + string(out))
	}
	return m.Run()
}

// lookAtSources tells go test what the programs are made of, so that a result is
// not taken from its cache when that has changed.
func lookAtSources() error {
	return filepath.WalkDir("../..", func(name string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, "_test.go") {
			_, err = os.Stat(name)
		}
		return err
	})
}
