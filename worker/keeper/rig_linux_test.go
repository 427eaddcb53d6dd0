package keeper

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/toolfleet/toolfleet/events/jetlog"
)

// hangLimit is how long a test waits for something before it fails; it decides
// nothing else.
const hangLimit = 60 * time.Second

// workerVariable makes the test binary a worker in the state folder that it
// names.
const workerVariable = "KEEPER_TEST_WORKER"

func TestMain(m *testing.M) {
	if folder := os.Getenv(workerVariable); folder != "" {
		beWorker(folder)
		return
	}
	os.Exit(m.Run())
}

// beWorker obeys lines of standard input until it ends:
//
//	lease MILLISECONDS   tells a new end of the lease
//	spawn NAME SCRIPT    starts a shell
//	sweep FOLDER         sweeps what is marked with a folder's id
//	busy FOLDER          does so again and again while it starts other programs
//
// and says what happens: spawned, refused, exited, ended, with the name.
func beWorker(dir string) {
	folder, err := jetlog.LockFolder(dir)
	if err != nil {
		panic(err)
	}
	k := New(&Options{Folder: folder.ID(), Lock: folder.File()})
	ctx, stop := context.WithCancel(context.Background())
	over := make(chan error)
	go func() { over <- k.Run(ctx) }()
	fmt.Println("folder", folder.ID())
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		verb, rest, _ := strings.Cut(in.Text(), " ")
		name, script, _ := strings.Cut(rest, " ")
		switch verb {
		case "lease":
			ms, err := strconv.Atoi(rest)
			if err != nil {
				panic(err)
			}
			k.Renewed(bootClock() + time.Duration(ms)*time.Millisecond)
		case "spawn":
			c, err := k.Spawn(ctx, shell(name, script, nil, nil, nil))
			if err != nil {
				fmt.Println("refused", name, err)
				continue
			}
			fmt.Println("spawned", name, c.PID())
			go func() {
				<-c.Exited()
				fmt.Printf("exited %s %+v\n", name, c.Exit())
				<-c.Ended()
				fmt.Println("ended", name)
			}()
		case "sweep":
			killed, err := Sweep(rest)
			fmt.Println("swept", killed, err)
		case "busy":
			fmt.Println("lost", startWhileSweeping(rest))
		}
	}
	stop()
	if err := <-over; err != nil {
		panic(err)
	}
}

// startWhileSweeping starts programs that are not marked, and returns how many
// did not end in peace, or that the sweep counted.
func startWhileSweeping(folder string) (lost int) {
	over := make(chan int)
	go func() {
		failed := 0
		for range 300 {
			if (&exec.Cmd{Path: "/bin/true", Env: []string{}}).Run() != nil {
				failed++
			}
		}
		over <- failed
	}()
	for {
		select {
		case failed := <-over:
			return lost + failed
		default:
			killed, err := Sweep(folder)
			if lost += killed; err != nil {
				panic(err)
			}
		}
	}
}

var null = func() *os.File {
	f, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		panic(err)
	}
	return f
}()

// shell returns a program; streams that are nil lead nowhere.
func shell(name, script string, stdin, stdout, stderr *os.File) *Program {
	p := &Program{
		Name: name, Path: "/bin/sh", Args: []string{"sh", "-c", script}, Env: []string{"PATH=" + os.Getenv("PATH")},
		Stdin: stdin, Stdout: stdout, Stderr: stderr,
	}
	for _, f := range []**os.File{&p.Stdin, &p.Stdout, &p.Stderr} {
		if *f == nil {
			*f = null
		}
	}
	return p
}

// otherWorker is a worker in another process.
type otherWorker struct {
	t      *testing.T
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	lines  chan string
	dir    string
	folder string
}

func newOtherWorker(t *testing.T) *otherWorker {
	t.Helper()
	w := &otherWorker{t: t, lines: make(chan string, 1000), dir: t.TempDir()}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	w.cmd = exec.Command(self)
	w.cmd.Env = append(os.Environ(), workerVariable+"="+w.dir)
	w.cmd.Stderr = os.Stderr
	if w.stdin, err = w.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	stdout, err := w.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := w.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(w.lines)
		for in := bufio.NewScanner(stdout); in.Scan(); {
			w.lines <- in.Text()
		}
	}()
	t.Cleanup(func() {
		_ = w.cmd.Process.Kill()
		_ = w.cmd.Wait()
	})
	w.folder = w.see("folder ")
	w.say("lease 3600000")
	return w
}

func (w *otherWorker) say(format string, args ...any) {
	w.t.Helper()
	if _, err := fmt.Fprintf(w.stdin, format+"\n", args...); err != nil {
		w.t.Fatal(err)
	}
}

// see waits for a line and returns what follows its beginning.
func (w *otherWorker) see(beginning string) string {
	w.t.Helper()
	limit := time.After(hangLimit)
	for {
		select {
		case line, ok := <-w.lines:
			if !ok {
				w.t.Fatalf("the worker ended before it said %q", beginning)
			}
			if rest, ok := strings.CutPrefix(line, beginning); ok {
				return rest
			}
			w.t.Logf("worker: %s", line)
		case <-limit:
			w.t.Fatalf("the worker did not say %q", beginning)
		}
	}
}

// keeper waits for the worker's helper and returns it.
func (w *otherWorker) keeper() int {
	w.t.Helper()
	var pid int
	eventually(w.t, "a keeper", hangLimit, func() bool {
		for _, p := range list(w.t) {
			if p.parent == w.cmd.Process.Pid && !p.ended && strings.HasPrefix(commandLine(p.pid), helperName) {
				pid = p.pid
			}
		}
		return pid != 0
	})
	return pid
}

func (w *otherWorker) signal(s syscall.Signal) {
	w.t.Helper()
	if err := w.cmd.Process.Signal(s); err != nil {
		w.t.Fatal(err)
	}
}

func send(t *testing.T, pid int, s syscall.Signal) {
	t.Helper()
	if err := syscall.Kill(pid, s); err != nil {
		t.Fatalf("signal %s to %d: %v", s, pid, err)
	}
	if s == syscall.SIGSTOP {
		t.Cleanup(func() { _ = syscall.Kill(pid, syscall.SIGCONT) }) // or it would be there for ever
	}
}

func list(t *testing.T) []process {
	t.Helper()
	all, err := processes()
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func commandLine(pid int) string {
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "cmdline"))
	if err != nil {
		return "" // it is gone
	}
	return strings.ReplaceAll(string(text), "\x00", " ")
}

// family is a set of processes that sleep for a time that nobody else sleeps
// for, by which they are found whatever they did.
type family struct {
	t   *testing.T
	nap string
}

func newFamily(t *testing.T) family {
	f := family{t, strconv.Itoa(100000000 + rand.IntN(900000000))}
	t.Cleanup(func() {
		for _, pid := range f.alive() {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	})
	return f
}

func (f family) alive() []int {
	f.t.Helper()
	var pids []int
	for _, p := range list(f.t) {
		if !p.ended && strings.HasPrefix(commandLine(p.pid), "sleep "+f.nap) {
			pids = append(pids, p.pid)
		}
	}
	return pids
}

// zombies returns those that wait to be reaped: their command line is gone, so
// they are found by their parents.
func zombies(t *testing.T, parent int) []int {
	t.Helper()
	var pids []int
	for _, p := range list(t) {
		if p.ended && p.parent == parent {
			pids = append(pids, p.pid)
		}
	}
	return pids
}

// script fills in the nap.
func (f family) script(s string) string { return strings.ReplaceAll(s, "NAP", "sleep "+f.nap) }

// grown waits until so many are alive.
func (f family) grown(n int) {
	f.t.Helper()
	eventually(f.t, strconv.Itoa(n)+" processes", hangLimit, func() bool { return len(f.alive()) == n })
}

// gone waits until none is alive.
func (f family) gone(within time.Duration) {
	f.t.Helper()
	began := time.Now()
	eventually(f.t, "the end of all processes", within, func() bool { return len(f.alive()) == 0 })
	f.t.Logf("all gone after %s", time.Since(began).Round(time.Millisecond))
}

// eventually asks until the answer is yes; other processes give no other sign.
func eventually(t *testing.T, what string, limit time.Duration, ask func() bool) {
	t.Helper()
	for end := time.Now().Add(limit); !ask(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited %s for %s", limit, what)
		}
	}
}

func wait(t *testing.T, c <-chan struct{}, what string) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(hangLimit):
		t.Fatalf("waited %s for %s", hangLimit, what)
	}
}

// brood is what escapes those who only know their child: how many processes of
// the family each script makes.
var brood = []struct {
	name, script string
	sleepers     int
}{
	{"children", `NAP & NAP & wait`, 2},
	{"deaf", `trap '' TERM HUP INT; NAP & NAP; NAP`, 2},
	{"sessions", `setsid NAP & setsid sh -c 'NAP & NAP; :' & wait`, 3},
	{"double-fork", `(setsid sh -c '(NAP &) ; (setsid NAP &); exec NAP' &); exec NAP`, 4},
	{"unmarked", `(env -i PATH="$PATH" setsid sh -c '(NAP &); NAP; :' &); NAP; :`, 3},
	{"orphans", `sh -c 'NAP & setsid NAP &'; exit 3`, 2},
}

// spawnBrood starts them all.
func (w *otherWorker) spawnBrood(f family) {
	w.t.Helper()
	n := 0
	for _, b := range brood {
		w.say("spawn %s %s", b.name, f.script(b.script))
		w.see("spawned " + b.name)
		n += b.sleepers
	}
	f.grown(n)
}
