package mcptest

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// Record is a file in which processes note that they start and stop.
type Record struct {
	t    testing.TB
	path string
}

// NewRecord returns a record that fails the test at its end if one of its
// processes still runs.
func NewRecord(t testing.TB) *Record {
	t.Helper()
	r := &Record{t: t, path: filepath.Join(t.TempDir(), "record")}
	t.Cleanup(r.NoneLeft)
	return r
}

// Path is for [Script.Record].
func (r *Record) Path() string { return r.path }

// Lines returns what was noted: "start <pid>", "stop <pid> <why>", "ping", "list
// again" for a list of tools after the first, what tools note, and requests about
// resources and prompts.
func (r *Record) Lines() []string {
	r.t.Helper()
	text, err := os.ReadFile(r.path)
	if err != nil && !os.IsNotExist(err) {
		r.t.Fatal(err)
	}
	return strings.FieldsFunc(string(text), func(c rune) bool { return c == '\n' })
}

// Has says whether a line begins with that.
func (r *Record) Has(prefix string) bool {
	r.t.Helper()
	for _, line := range r.Lines() {
		if strings.HasPrefix(line, prefix) {
			return true
		}
	}
	return false
}

// Started returns the processes that were started, in order.
func (r *Record) Started() []int {
	r.t.Helper()
	var pids []int
	for _, line := range r.Lines() {
		if text, ok := strings.CutPrefix(line, "start "); ok {
			pid, err := strconv.Atoi(text)
			if err != nil {
				r.t.Fatal(err)
			}
			pids = append(pids, pid)
		}
	}
	return pids
}

// Running returns the processes that still exist.
func (r *Record) Running() []int {
	r.t.Helper()
	var pids []int
	for _, pid := range r.Started() {
		if syscall.Kill(pid, 0) == nil && !zombie(pid) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// zombie says whether a process has ended and waits for the system to reap it,
// where the system tells.
func zombie(pid int) bool {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return false
	}
	_, state, _ := strings.Cut(string(stat), ") ")
	return strings.HasPrefix(state, "Z")
}

// NoneLeft fails the test if a process still runs.
func (r *Record) NoneLeft() {
	r.t.Helper()
	left := r.Running()
	if len(left) > 0 {
		r.t.Errorf("processes %v still run", left)
	}
	for _, pid := range left {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
}

// note adds a line, if there is a record.
func (s *Script) note(format string, args ...any) {
	if s.Record == "" {
		return
	}
	f, err := os.OpenFile(s.Record, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return // the test has ended and taken its folder along
	}
	defer f.Close()
	fmt.Fprintf(f, format+"\n", args...)
}
