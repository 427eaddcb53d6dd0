package keeper

import "strings"

// Marker is the name of the variable that tells whose a process is.
const Marker = "TOOLFLEET_INSTANCE"

// process is what the system's list says of one.
type process struct {
	pid, parent, group, session int
	// start is when it began, in units of the system's.
	start int64
	// ended says that it waits to be reaped.
	ended bool
}

// identity tells a process from a later one with the same number.
type identity struct {
	pid   int
	start int64
}

func (p *process) identity() identity { return identity{p.pid, p.start} }

// processes lists the system's processes, or this user's.
func processes() ([]process, error) { return processesBut(nil) }

// descendants returns the processes below some of others, with them.
func descendants(all []process, tops []int) []process {
	below := make(map[int][]process)
	byPID := make(map[int]process, len(all))
	for _, p := range all {
		below[p.parent] = append(below[p.parent], p)
		byPID[p.pid] = p
	}
	var found []process
	seen := make(map[int]bool)
	var next []process
	for _, pid := range tops {
		if p, ok := byPID[pid]; ok {
			next = append(next, p)
		}
	}
	for len(next) > 0 {
		p := next[len(next)-1]
		next = next[:len(next)-1]
		// A list is not taken in one instant: it may hold a circle.
		if seen[p.pid] {
			continue
		}
		seen[p.pid] = true
		found = append(found, p)
		next = append(next, below[p.pid]...)
	}
	return found
}

// children returns the ids of a process's children.
func children(all []process, parent int) []int {
	var pids []int
	for _, p := range all {
		if p.parent == parent {
			pids = append(pids, p.pid)
		}
	}
	return pids
}

// lineage returns a process and its ancestors.
func lineage(all []process, pid int) map[int]bool {
	parents := make(map[int]int, len(all))
	for _, p := range all {
		parents[p.pid] = p.parent
	}
	line := make(map[int]bool)
	for ; pid > 0 && !line[pid]; pid = parents[pid] {
		line[pid] = true
	}
	return line
}

// markIn returns the value of the marker in an environment as the system shows
// it, with a zero byte after each variable.
func markIn(environ string) (mark string, ok bool) {
	const lead = Marker + "="
	rest, first := strings.CutPrefix(environ, lead)
	if !first {
		if _, rest, ok = strings.Cut(environ, "\x00"+lead); !ok {
			return "", false
		}
	}
	mark, _, ok = strings.Cut(rest, "\x00")
	return mark, ok
}
