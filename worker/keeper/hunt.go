package keeper

import (
	"slices"
	"syscall"
	"time"

	"github.com/cockroachdb/errors"
)

// chase is a hunt under way.
type chase struct {
	// find returns those of the system's processes that are to be killed, and
	// whether there was no sign of any.
	find   func([]process) (found []process, none bool, err error)
	frozen freezer
	// killed are all that were found, and since when they are known; stopped
	// those that were stopped and not yet killed. What was killed shows no marker
	// while it ends, and is no less killed for that.
	killed  map[identity]time.Time
	stopped map[identity]bool
}

// hunt kills what find returns of the system's processes until several looks in a
// row see no sign of any, and returns how many it killed.
func hunt(find func([]process) (found []process, none bool, err error)) (killed int, err error) {
	c := &chase{find: find, killed: make(map[identity]time.Time), stopped: make(map[identity]bool)}
	for empty := 0; empty < emptyLooks; {
		none, again, err := c.look()
		if err != nil {
			return len(c.killed), err
		}
		if empty++; !none {
			empty = 0
		}
		if !again && empty < emptyLooks {
			<-time.After(huntPause)
		}
	}
	return len(c.killed), nil
}

// look looks once; again says that something was stopped, so that what it started
// before is to be looked for at once.
//
// Meanwhile no child of this process is on its way from fork to exec (on Linux,
// where the lock is held until then): it would show this process's own marker.
func (c *chase) look() (none, again bool, err error) {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	all, err := processes()
	if err != nil {
		return false, false, err
	}
	found, none, err := c.find(all)
	if err != nil {
		return false, false, err
	}
	c.release(all, found)
	var r round
	if len(found) > 0 {
		c.frozen.kill(c.condemn(found), &r)
	}
	for _, p := range found {
		switch {
		case slices.Contains(r.kill, p.pid):
			_ = syscall.Kill(p.pid, syscall.SIGKILL) // it may be gone
			delete(c.stopped, p.identity())
		case slices.Contains(r.stop, p.pid) && syscall.Kill(p.pid, syscall.SIGSTOP) == nil:
			c.stopped[p.identity()] = true
		}
	}
	return none, len(r.stop) > 0, c.stuck(found)
}

// condemn notes what was found.
func (c *chase) condemn(found []process) (pids []int) {
	for _, p := range found {
		pids = append(pids, p.pid)
		if _, ok := c.killed[p.identity()]; !ok {
			c.killed[p.identity()] = time.Now()
		}
	}
	return pids
}

// release lets go on what was stopped and is found no more: it executed another
// program before it stopped, and that is not marked. What belongs to a folder is
// marked, by definition; this may be the helper of another worker, which has
// children of its own to end.
func (c *chase) release(all, found []process) {
	for _, p := range all {
		id := p.identity()
		if !c.stopped[id] || p.ended || slices.ContainsFunc(found, func(f process) bool { return f.identity() == id }) {
			continue
		}
		_ = syscall.Kill(p.pid, syscall.SIGCONT) // it may be gone
		delete(c.stopped, id)
		delete(c.killed, id)
		delete(c.frozen.pids, p.pid)
	}
}

// stuck returns an error if something is there long after it was killed. What
// forks and exits all the time is new each time, and never that.
func (c *chase) stuck(found []process) error {
	var pids []int
	for _, p := range found {
		if time.Since(c.killed[p.identity()]) > killLimit {
			pids = append(pids, p.pid)
		}
	}
	if len(pids) == 0 {
		return nil
	}
	return errors.Newf("processes %v were killed and are still there: end them by hand", pids)
}
