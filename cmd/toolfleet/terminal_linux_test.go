package main_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// terminal returns the two ends of a pseudo-terminal of 60 columns.
func terminal(t *testing.T) (screen, tty *os.File) {
	t.Helper()
	screen, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = screen.Close() }) // the test may have done so
	if err := unix.IoctlSetPointerInt(int(screen.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(int(screen.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	if tty, err = os.OpenFile("/dev/pts/"+strconv.Itoa(n), os.O_RDWR|unix.O_NOCTTY, 0); err != nil {
		t.Fatal(err)
	}
	if err := unix.IoctlSetWinsize(int(tty.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: 60}); err != nil {
		t.Fatal(err)
	}
	return screen, tty
}

// onTerminal runs toolfleet up on a terminal until a text was drawn there, then
// interrupts it, and returns all that was drawn.
func onTerminal(t *testing.T, until string, env ...string) string {
	t.Helper()
	screen, tty := terminal(t)
	dir := t.TempDir()
	cmd := exec.Command(filepath.Join(bin, "toolfleet"), "up", "--example")
	cmd.Env = append(append(os.Environ(), "XDG_STATE_HOME="+dir, "TERM=xterm", "TOOLFLEET_HTTP=off"), env...)
	cmd.Stdout, cmd.Stderr = tty, tty
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_ = tty.Close() // it has its own
	late := time.AfterFunc(within, func() { _ = cmd.Process.Kill() })
	defer late.Stop()
	var drawn strings.Builder
	interrupted := false
	for buffer := make([]byte, 4096); ; {
		n, err := screen.Read(buffer)
		drawn.Write(buffer[:n])
		if !interrupted && strings.Contains(drawn.String(), until) {
			interrupted = true
			if err := cmd.Process.Signal(os.Interrupt); err != nil {
				t.Fatal(err)
			}
		}
		if err != nil { // a terminal that nobody has open any more has no end, but an error
			break
		}
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("up on a terminal: %v\n%s", err, drawn.String())
	}
	return drawn.String()
}

// On a terminal the servers are one table that is drawn again while they start,
// with colours unless somebody does not want them.
func TestUpOnATerminal(t *testing.T) {
	t.Parallel()
	drawn := onTerminal(t, "\x1b[32mready\x1b[0m")
	for _, want := range []string{"SERVER    STATE", "\x1b[2A\x1b[J", "\x1b[33m", "stopping everything", "everything is stopped"} {
		if !strings.Contains(drawn, want) {
			t.Errorf("%q was not drawn:\n%q", want, drawn)
		}
	}
	for line := range strings.SplitSeq(drawn, "\r\n") {
		if strings.HasPrefix(line, "example ") && len(line) > 60+len("\x1b[32m\x1b[0m") {
			t.Errorf("wider than the terminal: %q", line)
		}
	}
	plain := onTerminal(t, "ready", "NO_COLOR=1")
	if strings.Contains(plain, "\x1b[3") || !strings.Contains(plain, "\x1b[2A\x1b[J") {
		t.Errorf("NO_COLOR drew %q", plain)
	}
	if dumb := onTerminal(t, "ready", "TERM=dumb"); strings.Contains(dumb, "\x1b") {
		t.Errorf("a terminal that can do nothing got %q", dumb)
	}
}
