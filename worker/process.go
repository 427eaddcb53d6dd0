package worker

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/cockroachdb/errors"

	"github.com/toolfleet/toolfleet/events"
)

// The steps of stopping a process. The grace period is shared between waiting
// for the end of stdin to be enough, and waiting for TERM to be.
const (
	eofShare = 0.4
	// orphanGrace is what the rest of a group has when its first process is
	// gone, before and after TERM: nobody will tell it anything any more.
	orphanGrace = 200 * time.Millisecond
	// killLimit is how long a killed process may take to disappear.
	killLimit = 5 * time.Second
	// groupPoll is how often a group is looked at whose processes are not our
	// children: nothing announces their end.
	groupPoll = 10 * time.Millisecond
)

// process is a child with its group and our ends of its pipes.
type process struct {
	cmd    *exec.Cmd
	stdin  *os.File
	stdout *os.File
	stderr *os.File
	// exited is closed when the child is; its group may go on.
	exited chan struct{}
}

// spawn starts a child in a group of its own. Its error is an [events.Failure].
func spawn(r *resolved, environ []string) (*process, error) {
	if r.cwd != "" {
		if info, err := os.Stat(r.cwd); err != nil || !info.IsDir() {
			return nil, events.NewFailure(events.CwdNotFound, events.PhaseSpawn, "cwd "+r.cwd+" is no directory on this worker")
		}
	}
	path, err := lookPath(r, environ)
	if err != nil {
		return nil, err
	}
	cmd := &exec.Cmd{Path: path, Args: append([]string{r.command}, r.args...), Env: environ, Dir: r.cwd}
	ownGroup(cmd)
	p := &process{cmd: cmd, exited: make(chan struct{})}
	theirs, err := p.pipes()
	if err == nil {
		err = cmd.Start()
	}
	for _, f := range theirs {
		_ = f.Close()
	}
	if err != nil {
		p.closePipes()
		return nil, events.NewFailure(events.SpawnFailed, events.PhaseSpawn, withoutPath(err).Error())
	}
	go func() {
		_ = cmd.Wait() // the outcome is in ProcessState
		close(p.exited)
	}()
	return p, nil
}

// pipes makes the child's streams and returns its ends of them. They are files,
// so waiting for the child does not wait for whoever inherited them.
func (p *process) pipes() (theirs []*os.File, err error) {
	pipe := func(ours, child **os.File, childReads bool) {
		if err != nil {
			return
		}
		var r, w *os.File
		if r, w, err = os.Pipe(); err != nil {
			return
		}
		if childReads {
			*ours, *child = w, r
		} else {
			*ours, *child = r, w
		}
		theirs = append(theirs, *child)
	}
	var stdin, stdout, stderr *os.File
	pipe(&p.stdin, &stdin, true)
	pipe(&p.stdout, &stdout, false)
	pipe(&p.stderr, &stderr, false)
	p.cmd.Stdin, p.cmd.Stdout, p.cmd.Stderr = stdin, stdout, stderr
	return theirs, err
}

func (p *process) closePipes() {
	for _, f := range []*os.File{p.stdin, p.stdout, p.stderr} {
		if f != nil {
			_ = f.Close()
		}
	}
}

// lookPath finds the command as the child's environment would: relative to its
// directory if it names one, else on its PATH.
func lookPath(r *resolved, environ []string) (string, error) {
	notFound := func(where string) (string, error) {
		message := "command " + r.command + " is no executable file " + where
		if strings.ContainsRune(r.command, ' ') && len(r.args) == 0 {
			message += "; arguments belong into args"
		}
		return "", events.NewFailure(events.CommandNotFound, events.PhaseSpawn, message)
	}
	if strings.ContainsRune(r.command, filepath.Separator) {
		path := r.command
		if !filepath.IsAbs(path) && r.cwd != "" {
			path = filepath.Join(r.cwd, path)
		}
		if path, err := filepath.Abs(path); err == nil && executable(path) {
			return path, nil
		}
		return notFound("on this worker")
	}
	var search string
	for _, v := range environ {
		if dirs, ok := strings.CutPrefix(v, "PATH="); ok {
			search = dirs
		}
	}
	for _, dir := range filepath.SplitList(search) {
		// A relative directory would make the program depend on where the
		// worker was started.
		if path := filepath.Join(dir, r.command); filepath.IsAbs(dir) && executable(path) {
			return path, nil
		}
	}
	return notFound("on PATH " + search)
}

func executable(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0
}

// withoutPath drops what *fs.PathError repeats: the path is known.
func withoutPath(err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}

// stop ends the process and its group: end of stdin, then TERM, then KILL to
// the group. Closing hard skips to KILL. It returns how it ended, and false if
// something is left after all that.
func (p *process) stop(hard <-chan struct{}, grace time.Duration) (how string, gone bool) {
	_ = p.stdin.Close()
	how = "closed"
	eof := time.Duration(float64(grace) * eofShare)
	if !await(p.exited, hard, eof) {
		if !closed(hard) {
			how = "terminated"
			p.signal(terminate)
		}
		if !await(p.exited, hard, grace-eof) {
			how = "killed"
			p.signal(kill)
			if !await(p.exited, nil, killLimit) {
				return how, false
			}
		}
	}
	if p.groupEnded(hard, orphanGrace) {
		return how, true
	}
	if !closed(hard) {
		p.signal(terminate)
	}
	if p.groupEnded(hard, orphanGrace) {
		return how, true
	}
	p.signal(kill)
	return how, p.groupEnded(nil, killLimit)
}

// groupEnded waits until no process of the group is left.
func (p *process) groupEnded(hard <-chan struct{}, limit time.Duration) bool {
	for end := time.Now().Add(limit); ; {
		if p.groupGone() {
			return true
		}
		if time.Now().After(end) || await(hard, nil, groupPoll) {
			return false
		}
	}
}

// await waits for done, until the limit or until hard is closed.
func await(done, hard <-chan struct{}, limit time.Duration) bool {
	t := time.NewTimer(limit)
	defer t.Stop()
	select {
	case <-done:
		return true
	case <-hard:
	case <-t.C:
	}
	return closed(done)
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
