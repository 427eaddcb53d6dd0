package keeper

import (
	"io"
	"os"
	"strconv"
	"strings"
	"syscall"

	"github.com/cockroachdb/errors"
	"golang.org/x/sys/unix"
)

// maxEnviron bounds what is read of a process's environment, in bytes.
const maxEnviron = 2 << 20

// becomeSubreaper makes orphans among the process's descendants its children.
func becomeSubreaper() error {
	return errors.Wrap(unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0), "become a subreaper")
}

// adopted returns the processes that the helper keeps whatever they did: as a
// subreaper, those are its children.
func adopted(all []process, self int) []int { return children(all, self) }

// processesBut lists the system's processes, except those with some numbers.
func processesBut(known map[int]bool) ([]process, error) {
	proc, err := os.Open("/proc")
	if err != nil {
		return nil, errors.Wrap(err, "list processes")
	}
	defer proc.Close()
	names, err := proc.Readdirnames(-1)
	if err != nil {
		return nil, errors.Wrap(err, "list processes")
	}
	var all []process
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err != nil || known[pid] {
			continue
		}
		stat, err := os.ReadFile("/proc/" + name + "/stat")
		if errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
			continue // it is gone
		}
		if err != nil {
			return nil, errors.Wrap(err, "list processes") // what cannot be seen may be there
		}
		if p, ok := parseStat(string(stat)); ok {
			all = append(all, p)
		}
	}
	return all, nil
}

// Where the fields behind the name are in a process's stat.
const (
	statThreads = 17
	statStart   = 19
)

// parseStat reads "pid (name) state parent group session …"; the name may hold
// anything. A process whose first thread alone has ended is alive, although its
// state is a zombie's.
func parseStat(stat string) (p process, ok bool) {
	before, _, _ := strings.Cut(stat, " ")
	fields := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:])
	if len(fields) <= statStart {
		return p, false
	}
	threads, err := strconv.Atoi(fields[statThreads])
	if err != nil {
		return p, false
	}
	if p.start, err = strconv.ParseInt(fields[statStart], 10, 64); err != nil {
		return p, false
	}
	p.ended = fields[0] == "Z" && threads <= 1 || fields[0] == "X"
	for i, to := range []*int{&p.pid, &p.parent, &p.group, &p.session} {
		text := before
		if i > 0 {
			text = fields[i]
		}
		n, err := strconv.Atoi(text)
		if err != nil {
			return p, false
		}
		*to = n
	}
	return p, true
}

// markOf returns a process's marker, if it is this user's and has one. Nothing
// else of its environment is kept.
func markOf(pid int) (mark string, ok bool) {
	folder := "/proc/" + strconv.Itoa(pid)
	info, err := os.Stat(folder)
	if err != nil {
		return "", false
	}
	if s, ok := info.Sys().(*syscall.Stat_t); !ok || int(s.Uid) != os.Geteuid() {
		return "", false
	}
	f, err := os.Open(folder + "/environ")
	if err != nil {
		return "", false
	}
	defer f.Close()
	environ, err := io.ReadAll(io.LimitReader(f, maxEnviron))
	if err != nil {
		return "", false
	}
	return markIn(string(environ))
}
