//go:build real

package real

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// process is a running process that carries a test's mark.
type process struct {
	pid  int
	line string
}

func (p process) kill() error { return syscall.Kill(p.pid, syscall.SIGKILL) }

// marked returns the processes that have the mark in their environment, as they
// were started with it.
func marked(t *testing.T, mark string) (found []process) {
	t.Helper()
	environments, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range environments {
		env, err := os.ReadFile(name)
		if err != nil || !bytes.Contains(env, []byte(markName+"="+mark)) {
			continue // gone, or not ours
		}
		folder := filepath.Dir(name)
		pid, err := strconv.Atoi(filepath.Base(folder))
		if err != nil {
			t.Fatal(err)
		}
		line, err := os.ReadFile(filepath.Join(folder, "cmdline"))
		if err != nil {
			continue // gone
		}
		found = append(found, process{pid, strings.ReplaceAll(string(line), "\x00", " ")})
	}
	return found
}
