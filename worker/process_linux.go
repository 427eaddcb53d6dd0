package worker

import (
	"bytes"
	"os"
	"strconv"
)

// onlyZombies says whether all that is left of a process group is waiting to be
// reaped, which its parent may never do.
func onlyZombies(group int) bool {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return false
	}
	for _, e := range entries {
		if _, err := strconv.Atoi(e.Name()); err != nil {
			continue
		}
		stat, err := os.ReadFile("/proc/" + e.Name() + "/stat")
		if err != nil {
			continue // it is gone
		}
		// pid (name) state parent group …; the name may hold anything.
		fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
		if len(fields) < 3 || string(fields[2]) != strconv.Itoa(group) {
			continue
		}
		if state := fields[0][0]; state != 'Z' && state != 'X' {
			return false
		}
	}
	return true
}
