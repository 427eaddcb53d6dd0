package invariants

import (
	"fmt"
	"os"
	"strings"
	"syscall"

	"github.com/cockroachdb/errors"
)

// RecordVariable names, in a server's environment, the file that [Guard] writes
// to: one for each instance.
const RecordVariable = "TOOLFLEET_TEST_RECORD"

// Guard is called at the beginning of a server's main. It notes in the file of
// [RecordVariable] that the process started, and has it hold a lock on the file
// for as long as it lives, however it ends; one that finds the lock held notes
// that as well. Without the variable it does nothing.
func Guard() error {
	path := os.Getenv(RecordVariable)
	if path == "" {
		return nil
	}
	// Not an os.File, which the collector would close. No child inherits it.
	fd, err := syscall.Open(path, syscall.O_CREAT|syscall.O_APPEND|syscall.O_RDWR|syscall.O_CLOEXEC, 0o600)
	if err != nil {
		return errors.Wrap(err, path)
	}
	line := "start"
	if err := syscall.Flock(fd, syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		line = "overlap"
	}
	_, err = syscall.Write(fd, fmt.Appendf(nil, "%s %d\n", line, os.Getpid()))
	return errors.Wrap(err, path)
}

// Record is the file of one instance.
type Record string

// Starts returns how many processes were started.
func (r Record) Starts() (int, error) {
	lines, err := r.lines()
	return len(lines), err
}

func (r Record) lines() ([]string, error) {
	data, err := os.ReadFile(string(r))
	if err != nil && !os.IsNotExist(err) {
		return nil, err
	}
	return strings.FieldsFunc(string(data), func(c rune) bool { return c == '\n' }), nil
}

// Check is invariant 2: no process of the instance was started while another one
// lived.
func (r Record) Check() error {
	lines, err := r.lines()
	if err != nil {
		return err
	}
	var wrong []string
	for i, line := range lines {
		if pid, ok := strings.CutPrefix(line, "overlap "); ok {
			wrong = append(wrong, fmt.Sprintf("%s: process %s started beside another one, as number %d", r, pid, i+1))
		}
	}
	if len(lines) == 0 {
		return errors.Newf("%s: no process was started", r)
	}
	return complain("2, never two live connections of one instance", wrong)
}
