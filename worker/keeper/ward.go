package keeper

import (
	"maps"
	"slices"
	"time"
)

// maxFreeze bounds how often it is looked for what was started meanwhile before
// what is frozen is killed.
const maxFreeze = 20

// ward is what the helper knows of its children and the lease. It is pure: times
// are those of the boot-time clock, and what is to be sent collects in out.
type ward struct {
	// end is the lease's; children die when it passes.
	end    time.Duration
	lapsed bool // it has passed, and they have been condemned
	// closing says that the worker is gone.
	closing bool

	children map[uint64]*kept
	running  map[int]*kept // by process id, until reaped
	tally
	// spawning counts spawns under way. Early are exits of processes whose spawn
	// is still under way.
	spawning int
	early    map[int]int64
	// known tells whose the living processes of the last look were. Stranger
	// says that it saw one of nobody's for the first time: a process that is
	// about to execute another program shows no marker for a moment.
	known    map[identity]uint64
	stranger bool
	// strays says that what belongs to no child is to be killed.
	strays bool
	frozen freezer // of strays

	out []message
}

// tally counts all there ever were: spawns, and ends of the helper's own and
// adopted children.
type tally struct{ begun, ends int }

// kept is a child of the helper.
type kept struct {
	id     uint64
	pid    int
	mark   string
	reaped bool
	lapsed bool

	// ending says that all that is left is to end: with TERM from term on, with
	// KILL from kill on.
	ending     bool
	term, kill time.Duration
	termed     bool
	frozen     freezer
}

// freezer is what was stopped in order to be killed.
type freezer struct {
	pids   map[int]bool
	rounds int
}

func newWard() *ward {
	return &ward{
		lapsed:   true, // there is no lease, and nothing yet to be condemned for that
		children: make(map[uint64]*kept), running: make(map[int]*kept), early: make(map[int]int64),
	}
}

func (w *ward) send(m message) { w.out = append(w.out, m) }

// lease takes the lease's end.
func (w *ward) lease(id uint64, end, now time.Duration) {
	if w.end = end; end > now {
		w.lapsed = false
	}
	w.send(message{kind: heardLease, id: id})
}

// begin says whether a child may be started now; if so, spawned or refused has to
// follow. The request tells the lease's end as well, so that it cannot overtake
// what it relies on.
func (w *ward) begin(id uint64, end, now time.Duration) bool {
	if end > w.end {
		w.end, w.lapsed = end, false
	}
	if w.closing || now >= w.end {
		w.send(message{kind: hasRefused, id: id, lapsed: true})
		return false
	}
	w.strays = false // the next ones may be the new child's; they go with the last one
	w.spawning++
	w.begun++
	return true
}

func (w *ward) refused(id uint64, errno int64) {
	w.spawnOver()
	w.send(message{kind: hasRefused, id: id, value: errno})
}

func (w *ward) spawned(id uint64, pid int, mark string, now time.Duration) {
	k := &kept{id: id, pid: pid, mark: mark}
	w.children[id], w.running[pid] = k, k
	w.send(message{kind: hasSpawned, id: id, value: int64(pid)})
	if status, exited := w.early[pid]; exited {
		w.reaped(pid, status)
	}
	w.spawnOver()
	if w.closing || w.lapsed {
		w.condemn(k, now)
	}
}

func (w *ward) spawnOver() {
	if w.spawning--; w.spawning == 0 {
		clear(w.early) // the rest were orphans
	}
}

// reaped takes the exit of a process that was the helper's child.
func (w *ward) reaped(pid int, status int64) {
	w.ends++
	k, ok := w.running[pid]
	switch {
	case ok:
		delete(w.running, pid)
		k.reaped = true
		w.send(message{kind: hasExited, id: k.id, value: status, lapsed: k.lapsed})
	case w.spawning > 0:
		w.early[pid] = status
	}
}

// finish has a child's remains ended, in peace first if there is grace. It may
// be told again with less.
func (w *ward) finish(id uint64, grace, now time.Duration) {
	k, ok := w.children[id]
	if !ok {
		return
	}
	term, kill := now+grace, now+2*grace
	if k.ending {
		term, kill = min(term, k.term), min(kill, k.kill)
	}
	k.ending, k.term, k.kill = true, term, kill
}

// condemn has a child ended at once.
func (w *ward) condemn(k *kept, now time.Duration) {
	w.finish(k.id, 0, now)
	k.lapsed = k.lapsed || w.lapsed && !k.reaped
}

// look condemns everything if the lease has ended, and says whether something
// has to be ended.
func (w *ward) look(now time.Duration) bool {
	if now >= w.end && !w.lapsed {
		w.lapsed = true
		w.condemnAll(now)
	}
	if w.strays || len(w.frozen.pids) > 0 {
		return true
	}
	for _, k := range w.children {
		if k.ending {
			return true
		}
	}
	return false
}

// close takes that the worker is gone.
func (w *ward) close(now time.Duration) {
	w.closing = true
	w.condemnAll(now)
}

func (w *ward) condemnAll(now time.Duration) {
	w.strays = true
	for _, k := range w.children {
		w.condemn(k, now)
	}
}

// empty says that nothing is left to be done for a worker that is gone.
func (w *ward) empty() bool {
	return w.closing && !w.strays && w.spawning == 0 && len(w.children) == 0
}

// round is what to do after a look at the system's processes.
type round struct {
	stop, term, kill []int
}

// sweep decides what to do about the living processes of each child; those of 0
// belong to none. Before is the ward's tally before the processes were listed:
// what was started since may be taken for a stray.
//
// That nothing was seen proves that nothing is there only if nothing ended since:
// while a process is not reaped it is in the list, but one that forked and was
// reaped in between is not in it, and neither may its child be.
func (w *ward) sweep(owned map[uint64][]int, before tally, now time.Duration) round {
	var r round
	sure := before.ends == w.ends && !w.stranger
	for _, id := range slices.Sorted(maps.Keys(w.children)) {
		if k := w.children[id]; k.ending {
			w.settle(k, owned[id], sure, now, &r)
		}
	}
	if len(w.children) == 0 {
		w.strays = w.strays || len(owned[0]) > 0
	}
	switch quiet := w.spawning == 0 && before.begun == w.begun; {
	case !w.strays || !quiet:
		w.frozen.finish(owned[0], &r)
	case len(owned[0]) > 0:
		w.frozen.kill(owned[0], &r)
	case sure:
		w.strays, w.frozen = false, freezer{}
	}
	return r
}

// settle goes on ending one child.
func (w *ward) settle(k *kept, left []int, sure bool, now time.Duration, r *round) {
	if len(left) == 0 && k.reaped {
		if sure {
			delete(w.children, k.id)
			w.send(message{kind: hasEnded, id: k.id})
		}
		return
	}
	switch {
	case now >= k.kill:
		k.frozen.kill(left, r)
	case now >= k.term && !k.termed:
		k.termed = true
		r.term = append(r.term, left...)
	}
}

// kill freezes what is new, and kills when nothing is.
func (f *freezer) kill(left []int, r *round) {
	if f.pids == nil {
		f.pids = make(map[int]bool)
	}
	fresh := 0
	for _, pid := range left {
		if !f.pids[pid] {
			f.pids[pid] = true
			r.stop = append(r.stop, pid)
			fresh++
		}
	}
	if f.rounds++; fresh > 0 && f.rounds < maxFreeze {
		return
	}
	r.kill = append(r.kill, left...)
	*f = freezer{}
}

// finish kills what is frozen, and nothing else: nothing is left stopped.
func (f *freezer) finish(left []int, r *round) {
	for _, pid := range left {
		if f.pids[pid] {
			r.kill = append(r.kill, pid)
		}
	}
	*f = freezer{}
}

// owners tells to which child each living process belongs, and remembers it; 0 is
// none. Tops are the helper's own children (and elsewhere adopted ones), marks the
// markers of those that are no child of the ward's.
func (w *ward) owners(all []process, tops []int, marks map[int]string) map[uint64][]int {
	byMark := make(map[string]uint64, len(w.children))
	for _, k := range w.children {
		byMark[k.mark] = k.id
	}
	byPID := make(map[int]process, len(all))
	for _, p := range all {
		byPID[p.pid] = p
	}
	owned, known := make(map[uint64][]int), make(map[identity]uint64)
	w.stranger = false
	for _, top := range tops {
		p := byPID[top]
		id, seen := w.known[p.identity()]
		if k, ok := w.running[top]; ok {
			id = k.id
		} else if w.children[id] == nil { // not known to be anyone's who is still there
			if id = byMark[marks[top]]; id == 0 {
				id = w.leader(p.group)
			}
			w.stranger = w.stranger || id == 0 && !seen && !p.ended
		}
		for _, p := range descendants(all, []int{top}) {
			if !p.ended {
				owned[id] = append(owned[id], p.pid)
				known[p.identity()] = id
			}
		}
	}
	w.known = known
	return owned
}

// leader returns the child whose group that is, or 0.
func (w *ward) leader(group int) uint64 {
	for _, k := range w.children {
		if k.pid == group {
			return k.id
		}
	}
	return 0
}
