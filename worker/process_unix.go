//go:build unix

package worker

import (
	"os/exec"
	"syscall"

	"github.com/cockroachdb/errors"
	"golang.org/x/sys/unix"
)

const (
	terminate = syscall.SIGTERM
	kill      = syscall.SIGKILL
)

// ownGroup makes the child the first of a process group, which signals reach as
// a whole.
func ownGroup(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// signal sends a signal to the group. That nobody is left is no error.
func (p *process) signal(s syscall.Signal) { _ = syscall.Kill(-p.cmd.Process.Pid, s) }

// groupGone says whether no process of the group is left but zombies. Where
// orphans become our children (as process 1 of a container), it reaps them; the
// first process is left to os/exec.
func (p *process) groupGone() bool {
	group := p.cmd.Process.Pid
	for closed(p.exited) {
		if pid, err := syscall.Wait4(-group, nil, syscall.WNOHANG, nil); pid <= 0 || err != nil {
			break
		}
	}
	return errors.Is(syscall.Kill(-group, 0), syscall.ESRCH) || onlyZombies(group)
}

// outcome returns the exit status of a process that ended by itself, or the
// name of the signal that ended it. It must have exited.
func (p *process) outcome() (status *int, signal string) {
	ws, ok := p.cmd.ProcessState.Sys().(syscall.WaitStatus)
	if ok && ws.Signaled() {
		return nil, unix.SignalName(ws.Signal())
	}
	code := p.cmd.ProcessState.ExitCode()
	return &code, ""
}
