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
	// killLimit is how long killed processes may take to disappear.
	killLimit = 5 * time.Second
	// huntPause lies between two looks at what was killed.
	huntPause = 10 * time.Millisecond
)

// Sweep kills every process that is marked as a descendant of an earlier worker
// of the state folder with that id, and returns how many there were. Whoever
// calls it holds the folder's lock. This process and its ancestors are left out:
// a worker may have been started by a server of its predecessor.
func Sweep(folder string) (killed int, err error) {
	return hunt(func(all []process) []int { return marked(all, folder) })
}

// marked returns the living processes with a folder's mark.
func marked(all []process, folder string) []int {
	line := lineage(all, os.Getpid())
	var found []int
	for _, p := range all {
		if p.ended || line[p.pid] {
			continue
		}
		if mark, ok := markOf(p.pid); ok && strings.HasPrefix(mark, folder+"/") {
			found = append(found, p.pid)
		}
	}
	return found
}

// killOrphans kills what a helper left that is gone: the processes that this one
// inherited, with their descendants, and whatever has the folder's mark.
// Inherited are children in another session than this process's own: the helper
// was in one of its own, sessions cannot be changed for an existing one, and
// other children of this process are in its own.
func killOrphans(folder string) error {
	session, err := unix.Getsid(0)
	if err != nil {
		return errors.Wrap(err, "own session")
	}
	_, err = hunt(func(all []process) []int {
		var tops []int
		for _, p := range all {
			if p.parent != os.Getpid() || p.session == 0 || p.session == session {
				continue
			}
			if p.ended {
				_, _ = syscall.Wait4(p.pid, nil, syscall.WNOHANG, nil) // it is reaped, or was
				continue
			}
			tops = append(tops, p.pid)
		}
		found := marked(all, folder)
		for _, p := range descendants(all, tops) {
			if !p.ended && !slices.Contains(found, p.pid) {
				found = append(found, p.pid)
			}
		}
		return found
	})
	return err
}

// hunt kills what find returns of the system's processes until that is nothing,
// and returns how many it saw.
func hunt(find func([]process) []int) (killed int, err error) {
	var f freezer
	seen := make(map[int]bool)
	for began := time.Now(); ; {
		all, err := processes()
		if err != nil {
			return len(seen), err
		}
		found := find(all)
		if len(found) == 0 {
			return len(seen), nil
		}
		if time.Since(began) > killLimit {
			return len(seen), errors.Newf("processes %v were killed and are still there: end them by hand", found)
		}
		for _, pid := range found {
			seen[pid] = true
		}
		var r round
		f.kill(found, &r)
		for _, pid := range r.stop {
			_ = syscall.Kill(pid, syscall.SIGSTOP) // it may be gone
		}
		for _, pid := range r.kill {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		if len(r.kill) > 0 {
			<-time.After(huntPause)
		}
	}
}
