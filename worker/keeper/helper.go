package keeper

import (
	"fmt"
	"net"
	"os"
	"os/signal"
	"runtime/debug"
	"strconv"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// helperName is what the helper calls itself.
	helperName = "toolfleet-keeper"
	// socketFD is the helper's end of the socket. After it comes the lock.
	socketFD = 3
	// sweepPause lies between two looks at what has to end.
	sweepPause = 10 * time.Millisecond
	// leasePoll is how often the lease is looked at: its clock goes on while the
	// host sleeps, which timers do not.
	leasePoll = 250 * time.Millisecond
	// helperGC has the helper, whose live memory is tiny, collect garbage early.
	helperGC = 20
)

// A program that was started to be the helper never comes to its main. So every
// program that can start one can be one, a test as well, and needs nothing for
// that; others pay a comparison.
func init() {
	if len(os.Args) > 0 && os.Args[0] == helperName {
		os.Exit(beHelper()) //nolint:forbidigo // this process has no main
	}
}

// helper is the process that owns the children.
type helper struct {
	conn *net.UnixConn

	mu   sync.Mutex // guards ward; held over kill and wait4, which do not block
	ward *ward

	news chan struct{} // there is something to send
	poke chan struct{} // there may be something to end
}

func beHelper() (status int) {
	debug.SetGCPercent(helperGC)
	fail := func(err error) int {
		fmt.Fprintln(os.Stderr, helperName+":", err)
		return 1
	}
	if err := closeOnExec(); err != nil {
		return fail(err)
	}
	conn, err := connection(os.NewFile(socketFD, "worker"))
	if err != nil {
		return fail(err)
	}
	if err := becomeSubreaper(); err != nil {
		return fail(err)
	}
	h := &helper{conn: conn, ward: newWard(), news: make(chan struct{}, 1), poke: make(chan struct{}, 1)}
	// Whoever stops a whole group or control group means the worker, which stops
	// its children in order. A handler, unlike SIG_IGN, is not inherited.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	exits := make(chan os.Signal, 1)
	signal.Notify(exits, syscall.SIGCHLD)
	go h.reap(exits)
	go h.write()
	go h.read()
	h.tend()
	return 0
}

// closeOnExec keeps what the helper was started with from its children.
func closeOnExec() error {
	open, err := os.ReadDir("/dev/fd")
	if err != nil {
		return err
	}
	for _, e := range open {
		if fd, err := strconv.Atoi(e.Name()); err == nil && fd >= socketFD {
			unix.CloseOnExec(fd)
		}
	}
	return nil
}

func wake(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default: // it is awake
	}
}

// with changes the ward.
func (h *helper) with(change func(*ward, time.Duration)) {
	now := bootClock()
	h.mu.Lock()
	change(h.ward, now)
	h.mu.Unlock()
	wake(h.news)
	wake(h.poke)
}

// read obeys the worker until it is gone.
func (h *helper) read() {
	for in := (&frames{conn: h.conn}); ; {
		m, files, err := in.next()
		if err != nil {
			h.with((*ward).close)
			return
		}
		h.obey(m, files)
	}
}

func (h *helper) obey(m *message, files []int) {
	switch m.kind {
	case tellLease:
		h.with(func(w *ward, now time.Duration) { w.lease(m.id, time.Duration(m.value), now) })
	case askSpawn:
		may := false
		h.with(func(w *ward, now time.Duration) { may = w.begin(m.id, time.Duration(m.value), now) })
		if !may {
			closeAll(files)
			return
		}
		go h.spawn(m, files) // a program on a slow disk must not delay the others
	case askSignal:
		h.with(func(w *ward, _ time.Duration) {
			// Unreaped, so that the number is nobody else's.
			if k, ok := w.children[m.id]; ok && !k.reaped {
				_ = syscall.Kill(-k.pid, syscall.Signal(m.value))
			}
		})
	case askEnd:
		h.with(func(w *ward, now time.Duration) { w.finish(m.id, time.Duration(m.value), now) })
	default:
		// unreachable unless the worker sends what only the helper may.
	}
}

func closeAll(files []int) {
	for _, fd := range files {
		_ = unix.Close(fd)
	}
}

func (h *helper) spawn(m *message, files []int) {
	attr := &syscall.ProcAttr{
		Dir: m.dir, Env: append(m.env, Marker+"="+m.mark),
		Sys: &syscall.SysProcAttr{Setpgid: true},
	}
	for _, fd := range files {
		attr.Files = append(attr.Files, uintptr(fd))
	}
	pid, err := syscall.ForkExec(m.path, m.args, attr)
	closeAll(files)
	h.with(func(w *ward, now time.Duration) {
		if err != nil {
			w.refused(m.id, int64(errno(err)))
			return
		}
		w.spawned(m.id, pid, m.mark, now)
	})
}

func errno(err error) syscall.Errno {
	if e, ok := err.(syscall.Errno); ok { //nolint:errorlint // ForkExec returns it as it is
		return e
	}
	return syscall.EINVAL // arguments that hold a zero byte
}

// reap takes the exit of every child, born or adopted.
func (h *helper) reap(exits <-chan os.Signal) {
	for range exits {
		h.with(func(w *ward, _ time.Duration) { reapAll(w) })
	}
}

// reapAll takes all exits that there are.
func reapAll(w *ward) {
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, syscall.WNOHANG, nil)
		if err == syscall.EINTR {
			continue
		}
		if err != nil || pid <= 0 {
			return
		}
		w.reaped(pid, int64(status))
	}
}

// write sends what there is to send. While the worker stands still, so does it.
func (h *helper) write() {
	for range h.news {
		h.mu.Lock()
		out := h.ward.out
		h.ward.out = nil
		h.mu.Unlock()
		for i := range out {
			frame, err := out[i].encode()
			if err != nil || writeFrame(h.conn, frame, nil) != nil {
				return // read sees that the worker is gone
			}
		}
	}
}

// tend watches the lease and ends what has to end, until the worker is gone and
// nothing is left.
func (h *helper) tend() {
	for {
		wait, over := h.step()
		if over {
			return
		}
		t := time.NewTimer(wait)
		select {
		case <-h.poke:
		case <-t.C:
		}
		t.Stop()
	}
}

// step looks once, and returns when to look again.
func (h *helper) step() (wait time.Duration, over bool) {
	now := bootClock()
	h.mu.Lock()
	work, before, left := h.ward.look(now), h.ward.tally, h.ward.end-now
	over = h.ward.empty()
	h.mu.Unlock()
	if over || !work {
		if left <= 0 {
			left = leasePoll
		}
		return min(left, leasePoll), over
	}
	all, err := processes()
	if err != nil {
		return sweepPause, false
	}
	tops := adopted(all, os.Getpid())
	marks := h.marks(tops)

	h.mu.Lock()
	reapAll(h.ward) // so that the ward knows who ended while the list was made
	r := h.ward.sweep(h.ward.owners(all, tops, marks), before, bootClock())
	for s, pids := range map[syscall.Signal][]int{syscall.SIGSTOP: r.stop, syscall.SIGTERM: r.term, syscall.SIGKILL: r.kill} {
		for _, pid := range pids {
			_ = syscall.Kill(pid, s) // it may be gone
		}
	}
	h.mu.Unlock()
	wake(h.news)
	if len(r.stop) > 0 {
		return 0, false
	}
	return sweepPause, false
}

// marks reads the markers of those who are no children that were started here.
func (h *helper) marks(tops []int) map[int]string {
	h.mu.Lock()
	var orphans []int
	for _, pid := range tops {
		if _, ok := h.ward.running[pid]; !ok {
			orphans = append(orphans, pid)
		}
	}
	h.mu.Unlock()
	marks := make(map[int]string)
	for _, pid := range orphans {
		if mark, ok := markOf(pid); ok {
			marks[pid] = mark
		}
	}
	return marks
}
