package eventstest

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// sharedMemory is where Linux has a file system in memory.
	sharedMemory = "/dev/shm"
	// enoughMemory must be free there, or the disk is used: containers often have
	// only 64 MiB.
	enoughMemory = 1 << 30
)

// newStore returns a new folder of the test, in memory if there is room: on a
// disk, the removal of a store takes longer than everything else in a bubble.
func newStore(t testing.TB) string {
	t.Helper()
	var fs unix.Statfs_t
	if err := unix.Statfs(sharedMemory, &fs); err != nil || fs.Type != unix.TMPFS_MAGIC || fs.Bavail*uint64(fs.Bsize) < enoughMemory {
		return t.TempDir()
	}
	dir, err := os.MkdirTemp(sharedMemory, fmt.Sprintf("%s%d-", storePrefix, os.Getpid())) //nolint:usetesting // a test's own folder is on a disk
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Errorf("remove the store: %v", err)
		}
	})
	return dir
}

// storePrefix begins the name of a store; the process that it belongs to follows.
const storePrefix = "eventstest-"

// sweepStores removes what tests left in memory that were killed or timed out:
// stores of processes that are gone. Those of other containers, whose processes
// cannot be seen, are safe for an hour.
func sweepStores() {
	entries, err := os.ReadDir(sharedMemory)
	if err != nil {
		return
	}
	for _, e := range entries {
		rest, ours := strings.CutPrefix(e.Name(), storePrefix)
		pid, _, _ := strings.Cut(rest, "-")
		info, err := e.Info()
		if !ours || err != nil || time.Since(info.ModTime()) < time.Hour {
			continue
		}
		if n, err := strconv.Atoi(pid); err == nil && unix.Kill(n, 0) == unix.ESRCH {
			_ = os.RemoveAll(filepath.Join(sharedMemory, e.Name())) // the next process tries again
		}
	}
}
