package jetlog_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/errors"

	"github.com/toolfleet/toolfleet/events/jetlog"
)

func TestFolderKeepsItsID(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "state")
	f, err := jetlog.LockFolder(dir)
	if err != nil {
		t.Fatal(err)
	}
	id := f.ID()
	if len(id) != 32 || f.Dir() != dir {
		t.Errorf("folder %s has id %q", f.Dir(), id)
	}
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the folder's mode is %v, %v", info.Mode(), err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := jetlog.LockFolder(dir)
	if err != nil {
		t.Fatal(err)
	}
	if !f.Made() || again.Made() {
		t.Errorf("the id was made at first use: %v, and at the second: %v", f.Made(), again.Made())
	}
	t.Cleanup(func() { closeFolder(t, again) })
	if again.ID() != id {
		t.Errorf("the id was %s and is %s", id, again.ID())
	}
	other, err := jetlog.LockFolder(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeFolder(t, other) })
	if other.ID() == id {
		t.Error("two folders have the same id")
	}
}

func TestFolderIsLocked(t *testing.T) {
	dir := t.TempDir()
	f, err := jetlog.LockFolder(dir)
	if err != nil {
		t.Fatal(err)
	}
	_, err = jetlog.LockFolder(dir)
	if !errors.Is(err, jetlog.ErrFolderLocked) {
		t.Fatalf("a locked folder: %v", err)
	}
	for _, word := range []string{dir, fmt.Sprintf("process %d ", os.Getpid())} {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("the error does not name %q: %v", word, err)
		}
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	f, err = jetlog.LockFolder(dir)
	if err != nil {
		t.Fatalf("a free folder: %v", err)
	}
	closeFolder(t, f)
}

// A child that was given the lock keeps the folder when its parent is gone.
func TestFolderIsSharedWithAChild(t *testing.T) {
	dir := t.TempDir()
	f, err := jetlog.LockFolder(dir)
	if err != nil {
		t.Fatal(err)
	}
	child := exec.Command("cat") // until its stdin ends
	child.ExtraFiles = []*os.File{f.File()}
	stdin, err := child.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stranger := exec.Command("cat") // is not given it
	strangerIn, err := stranger.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []*exec.Cmd{child, stranger} {
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
	}
	defer func() { strangerIn.Close(); _ = stranger.Wait() }()
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := jetlog.LockFolder(dir); !errors.Is(err, jetlog.ErrFolderLocked) {
		t.Errorf("while the child has it: %v", err)
	}
	stdin.Close()
	if err := child.Wait(); err != nil {
		t.Fatal(err)
	}
	f, err = jetlog.LockFolder(dir)
	if err != nil {
		t.Fatalf("when both are gone: %v", err)
	}
	closeFolder(t, f)
}

func TestFolderErrors(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := jetlog.LockFolder(filepath.Join(file, "state")); err == nil || !strings.Contains(err.Error(), file) {
		t.Errorf("below a file: %v", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "folder-id"), []byte("no id\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second finds it unlocked
		if _, err := jetlog.LockFolder(dir); err == nil || errors.Is(err, jetlog.ErrFolderLocked) || !strings.Contains(err.Error(), "folder-id") {
			t.Errorf("with a file that holds no id: %v", err)
		}
	}
}

func TestBootClockGoesOn(t *testing.T) {
	before, began := jetlog.BootClock(), time.Now()
	<-time.After(10 * time.Millisecond)
	after, passed := jetlog.BootClock(), time.Since(began)
	if d := after - before; d < 10*time.Millisecond || d > passed+time.Second {
		t.Errorf("%s passed on the boot-time clock, %s on Go's", d, passed)
	}
	if before <= 0 {
		t.Errorf("the boot-time clock is at %s", before)
	}
}

func closeFolder(t *testing.T, f interface{ Close() error }) {
	t.Helper()
	if err := f.Close(); err != nil {
		t.Error(err)
	}
}
