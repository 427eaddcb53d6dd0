package keeper

import (
	"context"
	"net"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/cockroachdb/errors"
)

const (
	// tick is the unit in which a helper's silence is measured: in the ticks that
	// this process lives through, so that its own standstill is none of it.
	tick = 250 * time.Millisecond
	// tellEvery is after how many ticks the lease is told at the latest.
	tellEvery = 4
	// maxSilence is how many ticks a helper may be silent: 2 s.
	maxSilence = 8
	// sendLimit bounds the sending of one message.
	sendLimit = 2 * time.Second
	// sendQueue is how many messages may wait for the socket; then whoever has
	// another one waits.
	sendQueue = 64
)

// link is the connection to one helper.
type link struct {
	cmd  *exec.Cmd
	conn *net.UnixConn
	out  chan *outgoing
	// dead is closed when the connection is over; exited, when the process is.
	dead, exited chan struct{}
	heard        atomic.Uint64 // the last lease message that was answered
	ids          atomic.Uint64
	helpers      sync.WaitGroup

	mu       sync.Mutex // guards why, asked and children; dead closes under it
	why      error
	asked    map[uint64]chan<- spawned // spawns that wait for their answer
	children map[uint64]*Child
}

// spawned is what came of a spawn.
type spawned struct {
	child *Child
	err   error
}

// outgoing is a frame on its way to the helper. Sent holds the result.
type outgoing struct {
	frame []byte
	files []int
	sent  chan error
}

// startHelper starts one. Its environment is empty: it needs nothing, and
// others may read it.
func startHelper(lock *os.File, folder string) (*link, error) {
	path, err := self()
	if err != nil {
		return nil, err
	}
	ours, theirs, err := socketPair()
	if err != nil {
		return nil, err
	}
	defer theirs.Close()
	conn, err := connection(ours)
	if err != nil {
		return nil, err
	}
	cmd := &exec.Cmd{
		Path: path, Args: []string{helperName, folder}, Env: []string{"GOMAXPROCS=2"},
		Stderr: os.Stderr, ExtraFiles: []*os.File{theirs},
		SysProcAttr: &syscall.SysProcAttr{Setsid: true},
	}
	if lock != nil {
		cmd.ExtraFiles = append(cmd.ExtraFiles, lock)
	}
	if err := cmd.Start(); err != nil {
		_ = conn.Close() // it was not used
		return nil, errors.Wrap(err, "start the keeper")
	}
	l := &link{
		cmd: cmd, conn: conn, out: make(chan *outgoing, sendQueue),
		dead: make(chan struct{}), exited: make(chan struct{}),
		asked: make(map[uint64]chan<- spawned), children: make(map[uint64]*Child),
	}
	l.helpers.Go(l.read)
	l.helpers.Go(l.write)
	go func() {
		err := cmd.Wait()
		l.die(errors.Wrap(err, "it ended"))
		close(l.exited)
	}()
	return l, nil
}

// die says that the connection is over; the first reason counts.
func (l *link) die(why error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !closed(l.dead) {
		l.why = why
		close(l.dead)
	}
}

// serve tells the helper the lease and watches it, until it is dead or the
// context ends. It returns why it died.
func (l *link) serve(ctx context.Context, k *Keeper) error {
	t := time.NewTicker(tick)
	defer t.Stop()
	var told, answered uint64
	silence, sinceTold := 0, 0
	tell := func() {
		m := &message{kind: tellLease, id: told + 1, value: int64(k.lease())}
		select {
		case l.out <- m.outgoing():
			told, sinceTold = told+1, 0
		default: // it does not read; what waits is late enough
		}
	}
	tell()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-l.dead:
			l.mu.Lock()
			defer l.mu.Unlock()
			return l.why
		case <-k.renewed:
			tell()
			continue
		case <-t.C:
		}
		heard := l.heard.Load()
		if silence++; heard == told || heard != answered {
			silence = 0
		}
		answered = heard
		if silence >= maxSilence {
			l.die(errors.Newf("it did not answer for %s", maxSilence*tick))
			continue
		}
		if sinceTold++; sinceTold >= tellEvery {
			tell()
		}
	}
}

// bury ends the helper and all that it left.
func (l *link) bury(folder string) error {
	orderly := !closed(l.dead) && l.heard.Load() > 0
	l.die(errors.WithStack(ErrGone))
	_ = l.conn.Close() // so the helper kills all that there is
	limit := time.Duration(0)
	if orderly {
		limit = closeLimit
	}
	t := time.NewTimer(limit)
	defer t.Stop()
	select {
	case <-l.exited:
	case <-t.C:
		_ = l.cmd.Process.Kill() // it may have ended
		<-l.exited
	}
	l.helpers.Wait()
	left := l.disown()
	for _, c := range left {
		c.hasExited(Exit{Signal: syscall.SIGKILL, Lost: true})
	}
	err := killOrphans(folder)
	for _, c := range left {
		c.hasEnded()
	}
	return err
}

// disown returns the children that have not ended.
func (l *link) disown() []*Child {
	l.mu.Lock()
	defer l.mu.Unlock()
	var left []*Child
	for _, c := range l.children {
		left = append(left, c)
	}
	clear(l.children)
	return left
}

func (l *link) write() {
	for {
		select {
		case o := <-l.out:
			_ = l.conn.SetWriteDeadline(time.Now().Add(sendLimit))
			err := writeFrame(l.conn, o.frame, o.files)
			o.sent <- err
			if err != nil {
				l.die(errors.Wrap(err, "write to it"))
				return
			}
		case <-l.dead:
			return
		}
	}
}

// outgoing returns a small message's frame.
func (m *message) outgoing() *outgoing {
	frame, _ := m.encode() // only programs can be too large
	return &outgoing{frame: frame, sent: make(chan error, 1)}
}

// send hands a frame to the writer and returns when it is written, so that its
// descriptors may be closed.
func (l *link) send(o *outgoing) error {
	select {
	case l.out <- o:
	case <-l.dead:
		return errors.WithStack(ErrGone)
	}
	select {
	case err := <-o.sent:
		return errors.Mark(err, ErrGone)
	case <-l.dead:
		l.helpers.Wait() // the writer is done with the descriptors
		return errors.WithStack(ErrGone)
	}
}

func (l *link) read() {
	for in := (&frames{conn: l.conn}); ; {
		m, _, err := in.next()
		if err != nil {
			l.die(errors.Wrap(err, "read from it"))
			return
		}
		l.take(m)
	}
}

// take takes what the helper says.
func (l *link) take(m *message) {
	switch m.kind {
	case heardLease:
		l.heard.Store(m.id)
	case hasSpawned:
		l.born(m.id, newChild(int(m.value), &remote{l, m.id}))
	case hasRefused:
		err := error(syscall.Errno(m.value))
		if m.lapsed {
			err = ErrLapsed
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		l.answer(m.id, spawned{err: err})
	case hasExited:
		if c := l.child(m.id); c != nil {
			c.hasExited(exitOf(syscall.WaitStatus(m.value), m.lapsed))
		}
	case hasEnded:
		if c := l.child(m.id); c != nil {
			c.hasEnded()
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.children, m.id)
	default:
		// unreachable unless the helper sends what only the worker may.
	}
}

func (l *link) child(id uint64) *Child {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.children[id]
}

// born gives a child to whoever asked for it. One that nobody waits for any more
// is ended.
func (l *link) born(id uint64, c *Child) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.children[id] = c
	if !l.answer(id, spawned{child: c}) {
		go c.End(0)
	}
}

// answer answers a spawn, unless nobody waits for that any more.
func (l *link) answer(id uint64, a spawned) bool {
	to, ok := l.asked[id]
	if ok {
		delete(l.asked, id)
		to <- a // it has room for one
	}
	return ok
}

// spawn asks for a program, and waits until the context ends.
func (l *link) spawn(ctx context.Context, m *message, p *Program) (*Child, error) {
	id, answer := l.ids.Add(1), make(chan spawned, 1)
	m.id = id
	frame, err := m.encode()
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	l.asked[id] = answer
	l.mu.Unlock()
	var files []int
	for _, f := range p.streams() {
		files = append(files, int(f.Fd())) // and so it is in blocking mode, as programs expect it
	}
	err = l.send(&outgoing{frame: frame, files: files, sent: make(chan error, 1)})
	runtime.KeepAlive(p)
	if err != nil {
		return nil, err
	}
	select {
	case a := <-answer:
		return a.child, a.err
	case <-l.dead:
		return nil, errors.WithStack(ErrGone)
	case <-ctx.Done():
		if a := l.unask(id, answer); a.child != nil {
			a.child.End(0)
		}
		return nil, ctx.Err()
	}
}

// unask gives up waiting for an answer, and returns it if it has come.
func (l *link) unask(id uint64, answer <-chan spawned) spawned {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.asked, id)
	select {
	case a := <-answer:
		return a
	default:
		return spawned{}
	}
}

// remote is how a helper's child is reached.
type remote struct {
	link *link
	id   uint64
}

func (r *remote) signal(_ *Child, s syscall.Signal) { r.tell(askSignal, int64(s)) }

func (r *remote) end(_ *Child, grace time.Duration) { r.tell(askEnd, int64(grace)) }

// tell does not wait for the message to be written. If the helper is gone, so
// is the child.
func (r *remote) tell(k kind, value int64) {
	select {
	case r.link.out <- (&message{kind: k, id: r.id, value: value}).outgoing():
	case <-r.link.dead:
	}
}
