package invariants

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
)

// MarkVariable is, in the environment of every server of a test, what its
// processes are found by.
const MarkVariable = "TOOLFLEET_TEST_MARK"

// Processes returns the processes with a mark, whoever their parent is. It reads
// /proc.
func Processes(mark string) ([]int, error) {
	self := os.Getpid()
	all, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return nil, err
	}
	var found []int
	for _, dir := range all {
		pid, err := strconv.Atoi(filepath.Base(dir))
		if err != nil || pid == self {
			continue
		}
		env, err := os.ReadFile(dir + "/environ")
		if err == nil && bytes.Contains(append([]byte{0}, env...), []byte("\x00"+MarkVariable+"="+mark+"\x00")) {
			found = append(found, pid)
		}
	}
	return found, nil
}

// NoneLeft is invariant 5: no process with the mark is left.
func NoneLeft(mark string) error {
	left, err := Processes(mark)
	if err != nil {
		return err
	}
	var wrong []string
	for _, pid := range left {
		command, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)) // it may be gone by now
		wrong = append(wrong, fmt.Sprintf("process %d: %q", pid, bytes.ReplaceAll(command, []byte{0}, []byte(" "))))
	}
	return complain("5, no process is left", wrong)
}
