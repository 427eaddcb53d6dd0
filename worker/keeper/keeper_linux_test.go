package keeper

import (
	"context"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/errors"
	"github.com/google/go-cmp/cmp"
)

// newKeeper runs a keeper in this process until the test ends.
func newKeeper(t *testing.T) *Keeper {
	t.Helper()
	k := New(&Options{Folder: "f" + strconv.FormatUint(rand.Uint64(), 36)})
	k.Renewed(bootClock() + time.Hour)
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	over := make(chan error, 1)
	go func() { over <- k.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-over; err != nil {
			t.Error(err)
		}
	})
	return k
}

// spawn starts a shell and returns what it writes to stdout and stderr.
func spawn(t *testing.T, k interface {
	Spawn(context.Context, *Program) (*Child, error)
}, name, script string,
) (*Child, *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	t.Cleanup(func() { r.Close() })
	c, err := k.Spawn(t.Context(), shell(name, script, nil, w, w))
	if err != nil {
		t.Fatal(err)
	}
	return c, r
}

func readAll(t *testing.T, r io.Reader) string {
	t.Helper()
	text, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func environ(t *testing.T, pid int) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "environ"))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// Nothing is open in a child but its streams, and they block as programs expect
// it; its environment is what was asked for, and the marker.
func TestAChildHasItsStreamsOnly(t *testing.T) {
	leak, err := os.Open("/") // a descriptor that is inherited by whoever does not look
	if err != nil {
		t.Fatal(err)
	}
	defer leak.Close()
	clear, err := syscall.Dup(int(leak.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = syscall.Close(clear) }()
	k := newKeeper(t)
	_, out := spawn(t, k, "a/b/0/1.1", `for f in /proc/$$/fd/*; do [ -e "$f" ] && printf '%s ' "${f##*/}"; done; grep flags: /proc/$$/fdinfo/1; env; pwd`)
	text := readAll(t, out)
	lines := strings.Split(text, "\n")
	if fds := strings.Fields(lines[0]); len(fds) != 5 || !slices.Equal(fds[:3], []string{"0", "1", "2"}) {
		t.Errorf("open descriptors: %s", lines[0])
	} else if flags, err := strconv.ParseInt(fds[4], 8, 64); err != nil || flags&syscall.O_NONBLOCK != 0 {
		t.Errorf("stdout has flags %s", fds[4])
	}
	cwd, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{Marker + "=" + k.o.Folder + "/a/b/0/1.1", "PWD=" + cwd, "PATH=" + os.Getenv("PATH"), cwd} {
		if !slices.Contains(lines, want) {
			t.Errorf("%q is missing in\n%s", want, text)
		}
	}
	for _, line := range lines[1:] {
		if name, _, ok := strings.Cut(line, "="); ok && !slices.Contains([]string{Marker, "PATH", "PWD", "OLDPWD", "_", "SHLVL"}, name) {
			t.Errorf("%s is in the environment", name)
		}
	}
}

// How children end is told, whatever way they do.
func TestExits(t *testing.T) {
	k := newKeeper(t)
	for script, want := range map[string]Exit{
		"exit 0":        {},
		"exit 7":        {Status: 7},
		"kill -TERM $$": {Signal: syscall.SIGTERM},
		"kill -KILL $$": {Signal: syscall.SIGKILL},
	} {
		for name, s := range map[string]interface {
			Spawn(context.Context, *Program) (*Child, error)
		}{"keeper": k, "direct": Direct{}} {
			c, _ := spawn(t, s, "exits", script)
			wait(t, c.Exited(), "the exit")
			if d := cmp.Diff(want, c.Exit()); d != "" {
				t.Errorf("%s by %s (-want +got):\n%s", script, name, d)
			}
			c.End(0)
			wait(t, c.Ended(), "the end")
		}
	}
}

// The system's refusals are the same as without a helper.
func TestRefusals(t *testing.T) {
	k := newKeeper(t)
	garbage := filepath.Join(t.TempDir(), "garbage")
	if err := os.WriteFile(garbage, []byte{0x7f, 'E', 'L', 'F', 0}, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		change func(*Program)
		want   error
	}{
		{func(p *Program) { p.Path = "/no/such/file" }, syscall.ENOENT},
		{func(p *Program) { p.Path = garbage }, syscall.ENOEXEC},
		{func(p *Program) { p.Dir = "/no/such/folder" }, syscall.ENOENT},
		{func(p *Program) { p.Args = append(p.Args, "a\x00b") }, syscall.EINVAL},
		{func(p *Program) { p.Args = append(p.Args, strings.Repeat("a", 1<<20)) }, syscall.E2BIG},
	} {
		p := shell("refused", "exit 0", nil, nil, nil)
		tc.change(p)
		if _, err := k.Spawn(t.Context(), p); !errors.Is(err, tc.want) {
			t.Errorf("%v, want %v", err, tc.want)
		}
	}
	p := shell("refused", "exit 0", nil, nil, nil)
	p.Args = append(p.Args, strings.Repeat("a", maxFrame))
	if _, err := k.Spawn(t.Context(), p); err == nil || !strings.Contains(err.Error(), "limit") {
		t.Errorf("a program that is too large: %v", err)
	}
	k.Renewed(bootClock())
	eventually(t, "the lease to be over", hangLimit, func() bool {
		_, err := k.Spawn(t.Context(), shell("refused", "exit 0", nil, nil, nil))
		return errors.Is(err, ErrLapsed)
	})
}

// R33: the end of one child is the end of all its descendants, and of nobody
// else's.
func TestEndReachesEveryDescendant(t *testing.T) {
	k := newKeeper(t)
	for _, b := range brood {
		t.Run(b.name, func(t *testing.T) {
			f, g := newFamily(t), newFamily(t)
			other, _ := spawn(t, k, b.name+"/other", g.script(b.script))
			c, _ := spawn(t, k, b.name, f.script(b.script))
			f.grown(b.sleepers)
			g.grown(b.sleepers)
			c.End(0)
			wait(t, c.Ended(), "the end")
			if left := f.alive(); len(left) > 0 && b.name != "unmarked" {
				t.Errorf("%v are left", left)
			}
			if len(g.alive()) != b.sleepers {
				t.Errorf("%d of %d are left of another child", len(g.alive()), b.sleepers)
			}
			other.End(0)
			wait(t, other.Ended(), "the end of the other")
			f.gone(within) // what nobody could be named for goes with the last child
			g.gone(within)
		})
	}
}

// End is patient: TERM comes after one grace, and KILL after another.
func TestEndInPeace(t *testing.T) {
	for name, s := range map[string]interface {
		Spawn(context.Context, *Program) (*Child, error)
	}{"keeper": newKeeper(t), "direct": Direct{}} {
		t.Run(name, func(t *testing.T) {
			const grace = 300 * time.Millisecond
			dir := t.TempDir()
			c, _ := spawn(t, s, "polite", `sh -c 'trap "echo bye >`+dir+`/said; exit" TERM; echo >`+dir+`/ready; while :; do sleep 0.01; done' & exit 0`)
			eventually(t, "the trap", hangLimit, func() bool { _, err := os.Stat(dir + "/ready"); return err == nil })
			began := time.Now()
			c.End(grace)
			wait(t, c.Ended(), "the end")
			if d := time.Since(began); d < grace {
				t.Errorf("ended after %s", d)
			}
			if _, err := os.Stat(dir + "/said"); err != nil {
				t.Error("it was not asked in peace")
			}
			f := newFamily(t)
			c, _ = spawn(t, s, "deaf", f.script(`sh -c 'trap "" TERM; NAP & wait; NAP' & exit 0`))
			f.grown(1)
			began = time.Now()
			c.End(grace)
			wait(t, c.Ended(), "the end")
			if d := time.Since(began); d < 2*grace || len(f.alive()) > 0 {
				t.Errorf("ended after %s; left: %v", d, f.alive())
			}
			c, _ = spawn(t, s, "hurried", f.script(`sh -c 'NAP & wait' & exit 0`))
			f.grown(1)
			c.End(time.Hour)
			c.End(0)
			wait(t, c.Ended(), "the end")
		})
	}
}

// case J4, J9: fifty at once lose nothing, and leave nothing, not even what waits
// to be reaped.
func TestManyAtOnce(t *testing.T) {
	files, routines := filesOf(t, os.Getpid()), runtime.NumGoroutine()
	t.Run("at once", func(t *testing.T) {
		k := newKeeper(t)
		c, _ := spawn(t, k, "first", "exit 0")
		c.End(0)
		wait(t, c.Ended(), "the end")
		helper := k.current.cmd.Process.Pid
		theirs := filesOf(t, helper)
		var all sync.WaitGroup
		for i := range 50 {
			all.Go(func() {
				want := strconv.Itoa(i)
				r, w, err := os.Pipe()
				if err != nil {
					t.Error(err)
					return
				}
				defer r.Close()
				c, err := k.Spawn(t.Context(), shell(want, "echo "+want+"; (setsid sleep 1000 &); exit "+want, nil, w, null))
				w.Close()
				if err != nil {
					t.Error(err)
					return
				}
				buf := make([]byte, 10)
				if n, err := r.Read(buf); string(buf[:n]) != want+"\n" {
					t.Errorf("child %s wrote %q, %v", want, buf[:n], err)
				}
				wait(t, c.Exited(), "the exit")
				if c.Exit().Status != i {
					t.Errorf("child %d exited %+v", i, c.Exit())
				}
				c.End(0)
				wait(t, c.Ended(), "the end")
				if rest, err := io.ReadAll(r); len(rest) > 0 || err != nil { // nobody has the other end
					t.Errorf("%q, %v", rest, err)
				}
			})
		}
		all.Wait()
		// Those that nobody waits for any more when they are there.
		for range 50 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(rand.IntN(3000))*time.Microsecond)
			if c, err := k.Spawn(ctx, shell("late", "sleep 1000", nil, nil, nil)); err == nil {
				c.End(0)
			}
			cancel()
		}
		eventually(t, "the children to be gone", hangLimit, func() bool { return len(children(list(t), helper)) == 0 })
		eventually(t, "the keeper's files to be closed", hangLimit, func() bool { return filesOf(t, helper) <= theirs })
	})
	eventually(t, "the files to be closed", hangLimit, func() bool { return filesOf(t, os.Getpid()) <= files })
	eventually(t, "the goroutines to end", hangLimit, func() bool { return runtime.NumGoroutine() <= routines })
}

func filesOf(t *testing.T, pid int) int {
	t.Helper()
	open, err := os.ReadDir("/proc/" + strconv.Itoa(pid) + "/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(open)
}

// Without a keeper nothing is started, and nobody waits for ever.
func TestNoKeeper(t *testing.T) {
	k := New(&Options{Folder: "f"})
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if _, err := k.Spawn(ctx, shell("a", "exit 0", nil, nil, nil)); !errors.Is(err, ErrGone) {
		t.Errorf("before it runs: %v", err)
	}
	stopped, stop := context.WithCancel(t.Context())
	stop()
	if err := k.Run(stopped); err != nil {
		t.Error(err)
	}
	if _, err := k.Spawn(t.Context(), shell("a", "exit 0", nil, nil, nil)); !errors.Is(err, ErrGone) {
		t.Errorf("after it ran: %v", err)
	}
}

// A helper that cannot be started is an error, not a reason to try for ever.
func TestNoHelper(t *testing.T) {
	files := filesOf(t, os.Getpid())
	if err := New(&Options{Folder: "no\x00argument"}).Run(t.Context()); err == nil {
		t.Error("it runs")
	}
	if n := filesOf(t, os.Getpid()); n > files {
		t.Errorf("%d files are open, %d were before", n, files)
	}
}
