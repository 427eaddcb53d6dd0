package attach

import (
	"os"
	"path/filepath"
	"time"

	"github.com/cockroachdb/errors"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/events/jetlog"
)

// Folder is the folder that holds what a user's toolfleet processes of one
// fleet keep on this host.
type Folder string

// StateFolder returns the fleet's folder, $XDG_STATE_HOME/toolfleet/<fleet> or
// ~/.local/state/toolfleet/<fleet>. It need not exist.
func StateFolder(fleet events.FleetID) (Folder, error) {
	state := os.Getenv("XDG_STATE_HOME")
	if !filepath.IsAbs(state) { // a relative one is to be ignored, says the XDG specification
		home, err := os.UserHomeDir()
		if err != nil {
			return "", errors.WithHint(errors.Wrap(err, "find the state folder"), "set XDG_STATE_HOME to an absolute path")
		}
		state = filepath.Join(home, ".local", "state")
	}
	return Folder(filepath.Join(state, "toolfleet", string(fleet))), nil
}

// Running is the record of a running toolfleet up.
type Running struct {
	// URL of its NATS server, with the token.
	URL string `json:"url"`
	// Addresses are its URLs without the token, and TokenFile holds that.
	Addresses []string `json:"addresses"`
	TokenFile string   `json:"tokenFile"`
	// HTTP is the URL that it serves HTTP on, and HTTPTokenFile holds who may; empty
	// where it serves none.
	HTTP          string `json:"http,omitzero"`
	HTTPTokenFile string `json:"httpTokenFile,omitzero"`
	// Durability of what it acknowledges.
	Durability string    `json:"durability"`
	PID        int       `json:"pid"`
	Since      time.Time `json:"since"`
	// Started is when the process did ([StartOf]), so that it can be told from a
	// later one with its id; empty where that is not known.
	Started string `json:"started,omitempty"`
	// Notes are what it had to say of its servers when it started, one a line.
	Notes []string `json:"notes,omitempty"`
}

// Process returns the process that wrote the record, if it still runs. Signals to
// it reach no other.
func (r *Running) Process() (*os.Process, error) {
	p, err := os.FindProcess(r.PID) // holds on to the process, where the system can
	if err == nil && r.Started != "" && r.Started != StartOf(r.PID) {
		err = errors.CombineErrors(os.ErrProcessDone, p.Release())
	}
	return p, errors.Wrapf(err, "process %d", r.PID)
}

// Lock takes the folder of a fleet, which a toolfleet up holds for as long as it
// runs: while one does the error says so.
func (f Folder) Lock(fleet events.FleetID) (*jetlog.Folder, error) {
	lock, err := jetlog.LockFolder(string(f))
	if !errors.Is(err, jetlog.ErrFolderLocked) {
		return lock, err
	}
	err = errors.Newf("fleet %s runs already", fleet)
	if r, e := f.Running(); e == nil {
		err = errors.Newf("fleet %s runs already, as process %d", fleet, r.PID)
	}
	return nil, errors.WithHint(errors.Mark(err, jetlog.ErrFolderLocked),
		"stop it with toolfleet down, or run another one beside it: --fleet NAME")
}

func (f Folder) record() string { return filepath.Join(string(f), "up.json") }

// Record writes down that a toolfleet up runs, replacing what was there. The
// record appears whole or not at all.
func (f Folder) Record(r Running) error {
	data, err := json.Marshal(&r, jsontext.Multiline(true))
	if err != nil {
		return errors.Wrap(err, "record the running fleet") // unreachable unless Running has other fields
	}
	temporary, err := os.CreateTemp(string(f), "up-*.json")
	if err != nil {
		return errors.Wrap(err, "record the running fleet")
	}
	defer os.Remove(temporary.Name())
	_, err = temporary.Write(append(data, '\n'))
	if err := errors.Join(err, temporary.Close()); err != nil {
		return errors.Wrap(err, "record the running fleet")
	}
	return errors.Wrap(os.Rename(temporary.Name(), f.record()), "record the running fleet")
}

// Forget removes the record.
func (f Folder) Forget() error {
	if err := os.Remove(f.record()); !errors.Is(err, os.ErrNotExist) {
		return errors.Wrap(err, "remove the record of the running fleet")
	}
	return nil
}

// Running returns the record; without one the error is [os.ErrNotExist]. The
// process may have died since.
func (f Folder) Running() (Running, error) {
	var r Running
	data, err := os.ReadFile(f.record())
	if err != nil {
		return r, errors.Wrap(err, "read the record of the running fleet")
	}
	return r, errors.Wrapf(json.Unmarshal(data, &r), "read %s", f.record())
}
