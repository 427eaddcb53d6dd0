package invariants

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/cockroachdb/errors"
)

// RecordVariable names, in a server's environment, the file that [Guard] writes
// to: one for each server, to whose name the instance is added.
const RecordVariable = "TOOLFLEET_TEST_RECORD"

// instanceVariable is what a worker's keeper names its children by; it ends with
// "/<instance>/<epoch>.<attempt>".
const instanceVariable = "TOOLFLEET_INSTANCE"

// Guard is called at the beginning of a server's main. It notes in the file of
// [RecordVariable] that the process started, under which epoch, and has it hold a
// lock on the file for as long as it lives, however it ends; one that finds the
// lock held notes that as well. Without the variable it does nothing.
func Guard() error {
	path := os.Getenv(RecordVariable)
	if path == "" {
		return nil
	}
	epoch := "0"
	if name := strings.Split(os.Getenv(instanceVariable), "/"); len(name) > 1 {
		path += "." + name[len(name)-2]
		epoch, _, _ = strings.Cut(name[len(name)-1], ".")
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
	_, err = syscall.Write(fd, fmt.Appendf(nil, "%s %d %s\n", line, os.Getpid(), epoch))
	return errors.Wrap(err, path)
}

// Record is the file of one server. Its instances have files of their own beside
// it.
type Record string

// Starts returns how many processes were started.
func (r Record) Starts() (int, error) {
	files, err := r.files()
	n := 0
	for _, lines := range files {
		n += len(lines)
	}
	return n, err
}

// files returns the lines of each instance.
func (r Record) files() (map[string][]string, error) {
	names, err := filepath.Glob(string(r) + ".*")
	if err != nil {
		return nil, err
	}
	files := make(map[string][]string)
	for _, name := range append(names, string(r)) {
		data, err := os.ReadFile(name)
		if err != nil && !os.IsNotExist(err) {
			return nil, err
		}
		if lines := strings.FieldsFunc(string(data), func(c rune) bool { return c == '\n' }); len(lines) > 0 {
			files[name] = lines
		}
	}
	return files, nil
}

// Check is invariant 2: no process of an instance was started while another one
// lived, and none under the epoch of a former owner after one of a later.
func (r Record) Check() error {
	files, err := r.files()
	if err != nil {
		return err
	}
	if len(files) == 0 {
		return errors.Newf("%s: no process was started", r)
	}
	var wrong []string
	for name, lines := range files {
		last := 0
		for i, line := range lines {
			words := strings.Fields(line)
			epoch, err := strconv.Atoi(words[len(words)-1])
			if err != nil {
				return errors.Wrap(err, name)
			}
			if words[0] == "overlap" {
				wrong = append(wrong, fmt.Sprintf("%s: process %s started beside another one, as number %d", name, words[1], i+1))
			}
			if epoch < last {
				wrong = append(wrong, fmt.Sprintf("%s: process %s started under epoch %d, after one of epoch %d", name, words[1], epoch, last))
			}
			last = max(last, epoch)
		}
	}
	return complain("2, never two live connections of one instance", wrong)
}
