package keeper

import (
	"context"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"github.com/cockroachdb/errors"
)

// How often a group is looked at whose processes are not our children: nothing
// announces their end.
const (
	firstGroupPoll = 10 * time.Millisecond
	lastGroupPoll  = time.Second
)

// Direct starts children without a helper. They are ended with their process
// group: a descendant that left it is not found, and nobody ends them when this
// process dies.
type Direct struct{}

// Spawn starts a program.
func (Direct) Spawn(_ context.Context, p *Program) (*Child, error) {
	cmd := &exec.Cmd{
		Path: p.Path, Args: p.Args, Env: p.Env, Dir: p.Dir,
		Stdin: p.Stdin, Stdout: p.Stdout, Stderr: p.Stderr, // files, so that Wait waits for nobody else
		SysProcAttr: &syscall.SysProcAttr{Setpgid: true},
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	c := newChild(cmd.Process.Pid, &direct{hurry: make(chan struct{})})
	go func() {
		_ = cmd.Wait() // the outcome is in ProcessState
		status, _ := cmd.ProcessState.Sys().(syscall.WaitStatus)
		c.hasExited(exitOf(status, false))
	}()
	return c, nil
}

type direct struct {
	begin, hurryUp sync.Once
	hurry          chan struct{} // closed when there is no grace any more
}

func (d *direct) signal(c *Child, s syscall.Signal) { _ = syscall.Kill(-c.pid, s) } // nobody may be left

func (d *direct) end(c *Child, grace time.Duration) {
	if grace <= 0 {
		d.hurryUp.Do(func() { close(d.hurry) })
	}
	d.begin.Do(func() { go d.finish(c, grace) })
}

// finish ends the group. It goes on for as long as there is a process that cannot
// be killed.
func (d *direct) finish(c *Child, grace time.Duration) {
	defer c.hasEnded()
	for _, s := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		if groupEnded(c, d.hurry, grace) {
			return
		}
		if s == syscall.SIGKILL || !closed(d.hurry) {
			d.signal(c, s)
		}
	}
	for pause := firstGroupPoll; !groupGone(c); pause = min(2*pause, lastGroupPoll) {
		<-time.After(pause)
	}
}

// groupEnded waits until no process of the group is left.
func groupEnded(c *Child, hurry <-chan struct{}, limit time.Duration) bool {
	for end := time.Now().Add(limit); ; {
		if groupGone(c) {
			return true
		}
		if closed(hurry) || time.Now().After(end) {
			return false
		}
		t := time.NewTimer(firstGroupPoll)
		select {
		case <-hurry:
		case <-t.C:
		}
		t.Stop()
	}
}

// groupGone says whether no process of the group is left but zombies. Where
// orphans become our children, it reaps them; the first process is left to
// os/exec.
func groupGone(c *Child) bool {
	if !closed(c.exited) {
		return false
	}
	for {
		if pid, err := syscall.Wait4(-c.pid, nil, syscall.WNOHANG, nil); pid <= 0 || err != nil {
			break
		}
	}
	return errors.Is(syscall.Kill(-c.pid, 0), syscall.ESRCH) || onlyZombies(c.pid)
}

// onlyZombies says whether all that is left of a group is waiting to be reaped,
// which its parent may never do.
func onlyZombies(group int) bool {
	all, err := processes()
	if err != nil {
		return false
	}
	for _, p := range all {
		if p.group == group && !p.ended {
			return false
		}
	}
	return true
}
