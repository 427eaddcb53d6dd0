package attach

import (
	"bytes"
	"fmt"
	"os"
)

// StartOf returns when a process started, in ticks since the boot, as text that
// no later process of that id has; "" if there is none.
func StartOf(pid int) string {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return ""
	}
	// The name, in parentheses, may hold anything; the 20th field after it is the
	// start.
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	const start = 19
	if len(fields) <= start {
		return ""
	}
	return string(fields[start])
}
