package eventstest

import (
	"os"
	"testing"

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
	dir, err := os.MkdirTemp(sharedMemory, "eventstest-") //nolint:usetesting // a test's own folder is on a disk
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
