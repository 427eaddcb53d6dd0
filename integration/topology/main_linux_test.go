//go:build topology

package topology

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
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
	// Most of the time they wait for a lease to be over.
	if err := flag.Set("test.parallel", "4"); err != nil {
		panic(err)
	}
	os.Exit(buildAndRun(m))
}

func buildAndRun(m *testing.M) int {
	dir, err := os.MkdirTemp("", "toolfleet-topology-")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	bin = dir
	for _, args := range [][]string{
		{"-o", dir + string(filepath.Separator), "../../cmd/toolfleet", "../../cmd/controller", "../../cmd/worker"},
		{"-o", filepath.Join(dir, "nats-server"), "./natsd"},
	} {
		if out, err := exec.Command("go", append([]string{"build"}, args...)...).CombinedOutput(); err != nil {
			panic("build the programs: " + string(out))
		}
	}
	return m.Run()
}
