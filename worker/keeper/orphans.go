package keeper

import (
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/cockroachdb/errors"
	"golang.org/x/sys/unix"
)

const (
	// killLimit is how long a killed process may take to disappear.
	killLimit = 5 * time.Second
	// huntPause lies between two looks at what was killed.
	huntPause = 10 * time.Millisecond
	// emptyLooks is how many looks in a row have to find nothing. One may have
	// missed a process that forked and exited while the list was made, and its
	// child.
	emptyLooks = 3
	// maxDoubts is how many looks may say that there were new processes, and
	// nothing else: less than half a second.
	maxDoubts = 20
)

// Sweep kills every process that is marked as a descendant of an earlier worker
// of the state folder with that id, and returns how many there were. Whoever
// calls it holds the folder's lock. This process and its ancestors are left out:
// a worker may have been started by a server of its predecessor. It goes on for
// as long as there is something new; what was killed and stays is an error.
func Sweep(folder string) (killed int, err error) {
	return hunt((&seeker{folder: folder}).seek)
}

// seeker looks for what has a folder's mark.
type seeker struct {
	folder string
	doubts int
}

// seek finds what is marked. A process that ended before its marker was read may
// have left another that is not in the list: so what is new is looked at, too, and
// at once, before it does the same. That there was any raises doubts; on a host
// where processes come all the time they are given up some time.
func (s *seeker) seek(all []process) (found []process, none bool, err error) {
	found = marked(all, s.folder)
	fresh, err := processesBut(numbers(all))
	if err != nil {
		return nil, false, err
	}
	found = append(found, marked(fresh, s.folder)...)
	switch {
	case len(found) > 0:
		s.doubts = 0
		return found, false, nil
	case len(fresh) > 0 && s.doubts < maxDoubts:
		s.doubts++
		return nil, false, nil
	default:
		return nil, true, nil
	}
}

func numbers(all []process) map[int]bool {
	pids := make(map[int]bool, len(all))
	for _, p := range all {
		pids[p.pid] = true
	}
	return pids
}

// marked returns the living processes with a folder's mark.
func marked(all []process, folder string) []process {
	line := lineage(all, os.Getpid())
	var found []process
	for _, p := range all {
		if p.ended || line[p.pid] {
			continue
		}
		if mark, ok := markOf(p.pid); ok && strings.HasPrefix(mark, folder+"/") {
			found = append(found, p)
		}
	}
	return found
}

// killOrphans kills what a helper left that is gone: the processes that this one
// inherited, with their descendants, and whatever has the folder's mark.
// Inherited are children in another session than this process's own: the helper
// was in one of its own, sessions cannot be changed for an existing one, and
// other children of this process are in its own. Nobody else reaps them, so each
// is in the list until it is reaped here: a look that sees none at all misses
// none.
func killOrphans(folder string) error {
	session, err := unix.Getsid(0)
	if err != nil {
		return errors.Wrap(err, "own session")
	}
	_, err = hunt(func(all []process) ([]process, bool, error) {
		var tops []int
		reaped := false
		for _, p := range all {
			if p.parent != os.Getpid() || p.session == 0 || p.session == session {
				continue
			}
			if p.ended {
				_, _ = syscall.Wait4(p.pid, nil, syscall.WNOHANG, nil) // it is reaped, or was
				reaped = true
				continue
			}
			tops = append(tops, p.pid)
		}
		found := marked(all, folder)
		for _, p := range descendants(all, tops) {
			if !p.ended && !slices.Contains(found, p) {
				found = append(found, p)
			}
		}
		return found, len(found) == 0 && !reaped, nil
	})
	return err
}
