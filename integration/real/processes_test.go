//go:build real

package real

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/cockroachdb/errors"

	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/integration/invariants"
)

// markOf is what the processes of a server are found by.
func (f *fleet) markOf(id events.ServerID) string { return f.mark + "-" + string(id) }

// own returns the processes of toolfleet itself: up, its keeper, and verbs.
func (f *fleet) own() (pids []int) {
	f.t.Helper()
	programs, err := filepath.Glob("/proc/[0-9]*/exe")
	if err != nil {
		f.t.Fatal(err)
	}
	for _, name := range programs {
		program, err := os.Readlink(name)
		if err != nil || strings.TrimSuffix(program, " (deleted)") != f.binary {
			continue // gone, or not ours
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(name)))
		if err != nil {
			f.t.Fatal(err)
		}
		pids = append(pids, pid)
	}
	return pids
}

// processes returns all processes of the fleet.
func (f *fleet) processes() []int {
	f.t.Helper()
	pids := f.own()
	for _, s := range f.servers {
		of, err := invariants.Processes(f.markOf(s.ID))
		if err != nil {
			f.t.Fatal(err)
		}
		pids = append(pids, of...)
	}
	return pids
}

// noneLeft says which processes of the fleet there are.
func (f *fleet) noneLeft() (err error) {
	f.t.Helper()
	if own := f.own(); len(own) > 0 {
		err = errors.Newf("toolfleet runs as %v", own)
	}
	for _, s := range f.servers {
		err = errors.Join(err, invariants.NoneLeft(f.markOf(s.ID)))
	}
	return err
}

// processesOf returns the processes of a server.
func (f *fleet) processesOf(id events.ServerID) []int {
	f.t.Helper()
	pids, err := invariants.Processes(f.markOf(id))
	if err != nil {
		f.t.Fatal(err)
	}
	return pids
}
