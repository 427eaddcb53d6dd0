package keeper

import (
	"os"

	"github.com/cockroachdb/errors"
	"golang.org/x/sys/unix"
)

// The states of a process, from sys/proc.h.
const stateZombie = 5

// becomeSubreaper does nothing: there are no subreapers here.
func becomeSubreaper() error { return nil }

// adopted returns the helper's children, and the orphans that are marked:
// the system's first process adopts everybody's.
func adopted(all []process, self int) []int {
	tops := children(all, self)
	for _, pid := range children(all, 1) {
		if _, marked := markOf(pid); marked {
			tops = append(tops, pid)
		}
	}
	return tops
}

// processesBut lists this user's processes, except those with some numbers.
// Sessions are not known here.
func processesBut(known map[int]bool) ([]process, error) {
	list, err := unix.SysctlKinfoProcSlice("kern.proc.uid", os.Geteuid())
	if err != nil {
		return nil, errors.Wrap(err, "list processes")
	}
	all := make([]process, 0, len(list))
	for i := range list {
		p := &list[i]
		if known[int(p.Proc.P_pid)] {
			continue
		}
		all = append(all, process{
			pid: int(p.Proc.P_pid), parent: int(p.Eproc.Ppid), group: int(p.Eproc.Pgid),
			start: p.Proc.P_starttime.Nano(), ended: p.Proc.P_stat == stateZombie,
		})
	}
	return all, nil
}

// markOf returns a process's marker, if it has one. What the system shows is
// its number of arguments, arguments and environment; a marker that is an
// argument would do no harm.
func markOf(pid int) (mark string, ok bool) {
	args, err := unix.SysctlRaw("kern.procargs2", pid)
	if err != nil {
		return "", false
	}
	return markIn(string(args))
}
