// Package detach runs this program once more in the background, and ends what
// runs there.
package detach

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/cockroachdb/errors"
	"golang.org/x/sys/unix"

	"github.com/toolfleet/toolfleet/cmd/internal/attach"
	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/events/jetlog"
)

// look is how often a process in the background is looked at: nothing but its
// record tells when it is up, and its lock when it is gone.
const look = 50 * time.Millisecond

// LogName is the file in the state folder that what runs in the background
// writes to.
const LogName = "up.log"

// Start runs this program with those arguments in a session of its own, and
// returns the fleet's record once it is up. If it ends before, the error has the
// end of what it wrote. Nothing is touched of a fleet that runs already.
func Start(ctx context.Context, fleet events.FleetID, folder attach.Folder, args []string) (attach.Running, error) {
	var none attach.Running
	program, err := os.Executable()
	if err != nil {
		return none, errors.Wrap(err, "find this program, to run it in the background")
	}
	log, err := newLog(fleet, folder)
	if err != nil {
		return none, err
	}
	defer log.Close()
	child := exec.Command(program, args...)
	child.Stdout, child.Stderr = log, log
	child.SysProcAttr = &unix.SysProcAttr{Setsid: true}
	if err := child.Start(); err != nil {
		return none, errors.Wrap(err, "run in the background")
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = child.Wait() // it should not end at all
	}()
	for {
		select {
		case <-ended:
			return none, errors.WithHintf(errors.Newf("it ended before it was up:\n%s", tail(log)), "all it wrote is in %s", log.Name())
		case <-ctx.Done():
			_ = child.Process.Signal(unix.SIGTERM)
			<-ended
			return none, errors.Wrap(ctx.Err(), "wait until it is up; it is stopped")
		case <-time.After(look):
			if r, err := folder.Running(); err == nil && r.PID == child.Process.Pid {
				return r, nil
			}
		}
	}
}

// newLog returns an empty log. It is emptied only while nobody has the folder, and
// only ever appended to: whoever else is started at the same moment writes to it,
// too.
func newLog(fleet events.FleetID, folder attach.Folder) (_ *os.File, err error) {
	lock, err := folder.Lock(fleet)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.CombineErrors(err, lock.Close()) }()
	log, err := os.OpenFile(filepath.Join(string(folder), LogName), os.O_CREATE|os.O_RDWR|os.O_TRUNC|os.O_APPEND, 0o600)
	return log, errors.Wrap(err, "open the log of what runs in the background")
}

// tailSize is how much of a log is shown.
const tailSize = 2 << 10

func tail(log *os.File) string {
	end, err := log.Seek(0, 2)
	if err != nil {
		return ""
	}
	data := make([]byte, min(end, tailSize))
	n, _ := log.ReadAt(data, end-int64(len(data)))
	return strings.TrimSpace(string(data[:n]))
}

// ErrNotRunning says that there is nothing to end.
var ErrNotRunning = errors.New("no toolfleet up is running")

// Stop ends the toolfleet up of a fleet and waits until it is gone. The record of
// one that was killed is removed.
func Stop(ctx context.Context, fleet events.FleetID, folder attach.Folder) (attach.Running, error) {
	r, err := folder.Running()
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return r, err
	}
	recorded := err == nil
	switch gone, err := free(folder); {
	case err != nil:
		return r, err
	case gone && !recorded:
		return r, errors.Mark(errors.Newf("no toolfleet up is running for fleet %s", fleet), ErrNotRunning)
	case gone:
		return r, errors.CombineErrors(folder.Forget(),
			errors.Mark(errors.Newf("process %d of fleet %s is gone already: it left its record, which is removed", r.PID, fleet), ErrNotRunning))
	case !recorded:
		return r, errors.WithHint(errors.Newf("fleet %s is starting, or stopping", fleet), "try again in a moment")
	}
	// Whoever holds the lock need not have written the record: it may just begin.
	p, err := r.Process()
	if err == nil {
		err = p.Signal(unix.SIGTERM)
	}
	if errors.Is(err, os.ErrProcessDone) {
		return r, errors.WithHint(errors.Newf("fleet %s is starting, or stopping", fleet), "try again in a moment")
	}
	if err != nil {
		return r, errors.Wrapf(err, "stop process %d", r.PID)
	}
	for {
		if gone, err := free(folder); gone || err != nil {
			return r, err
		}
		select {
		case <-ctx.Done():
			return r, errors.WithHint(errors.Wrapf(ctx.Err(), "wait until process %d is gone", r.PID),
				fmt.Sprintf("look at it, or end it by force: kill -9 %d", r.PID))
		case <-time.After(look):
		}
	}
}

// free says whether nobody holds the folder.
func free(folder attach.Folder) (bool, error) {
	if _, err := os.Stat(string(folder)); errors.Is(err, fs.ErrNotExist) {
		return true, nil
	}
	lock, err := jetlog.LockFolder(string(folder))
	if errors.Is(err, jetlog.ErrFolderLocked) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return true, lock.Close()
}
