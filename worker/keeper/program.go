package keeper

import (
	"os"
	"sync"
	"syscall"
	"time"
)

// Program is what to start.
type Program struct {
	// Name is the rest of the [Marker] behind the folder's id. It names one
	// connection: no two children have the same at one time.
	Name string
	// Path of the file to execute, Args with the name that it is called by
	// first, the whole environment, and the folder to run in (default that of
	// the worker).
	Path string
	Args []string
	Env  []string
	Dir  string
	// The child's ends of its streams. They stay the caller's to close.
	Stdin, Stdout, Stderr *os.File
}

func (p *Program) streams() [streams]*os.File { return [streams]*os.File{p.Stdin, p.Stdout, p.Stderr} }

// Child is a process that was started as the first of a process group, with all
// that it starts. Its methods may be called at any time, and do not wait for it.
type Child struct {
	pid   int
	hands hands

	exited, ended chan struct{}
	mu            sync.Mutex // guards exit; exited and ended close under it
	exit          Exit
}

// hands is how a child is reached.
type hands interface {
	signal(c *Child, s syscall.Signal)
	end(c *Child, grace time.Duration)
}

// Exit is how a process ended.
type Exit struct {
	// Status it exited with, or the Signal that ended it, if that is not 0.
	Status int
	Signal syscall.Signal
	// Lapsed says that it was killed because the lease was over.
	Lapsed bool
	// Lost says that its helper died, and it was killed for that.
	Lost bool
}

func newChild(pid int, h hands) *Child {
	return &Child{pid: pid, hands: h, exited: make(chan struct{}), ended: make(chan struct{})}
}

// PID returns the number of the process.
func (c *Child) PID() int { return c.pid }

// Exited returns a channel that is closed when the process has ended and was
// reaped. What it started may go on.
func (c *Child) Exited() <-chan struct{} { return c.exited }

// Exit returns how the process ended. It must have.
func (c *Child) Exit() Exit {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.exit
}

// Signal sends a signal to the group of a process that has not exited.
func (c *Child) Signal(s syscall.Signal) { c.hands.signal(c, s) }

// End begins to end all that is left of the child: after one grace TERM, after
// another KILL. It may be called again with less.
func (c *Child) End(grace time.Duration) { c.hands.end(c, grace) }

// Ended returns a channel that is closed when End was called and nothing is
// left.
func (c *Child) Ended() <-chan struct{} { return c.ended }

func (c *Child) hasExited(x Exit) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !closed(c.exited) {
		c.exit = x
		close(c.exited)
	}
}

func (c *Child) hasEnded() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !closed(c.ended) {
		close(c.ended)
	}
}

func exitOf(status syscall.WaitStatus, lapsed bool) Exit {
	if status.Signaled() {
		return Exit{Signal: status.Signal(), Lapsed: lapsed}
	}
	return Exit{Status: status.ExitStatus()}
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
