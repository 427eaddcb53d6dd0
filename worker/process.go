package worker

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/cockroachdb/errors"
	"golang.org/x/sys/unix"

	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/worker/keeper"
)

// The steps of stopping a process. The grace period is shared between waiting
// for the end of stdin to be enough, and waiting for TERM to be.
const (
	eofShare = 0.4
	// orphanGrace is what the descendants of a process have that is gone, before
	// and after TERM: nobody will tell them anything any more.
	orphanGrace = 200 * time.Millisecond
	// killLimit is how long a killed process may take to disappear.
	killLimit = 5 * time.Second
)

// process is a child and our ends of its pipes.
type process struct {
	*keeper.Child

	stdin  *os.File
	stdout *os.File
	stderr *os.File
}

// spawn starts a child. Its error is an [events.Failure].
func spawn(ctx context.Context, by Spawner, r *resolved, environ []string, name string) (*process, error) {
	if r.cwd != "" {
		if info, err := os.Stat(r.cwd); err != nil || !info.IsDir() {
			return nil, events.NewFailure(events.CwdNotFound, events.PhaseSpawn, "cwd "+r.cwd+" is no directory on this worker")
		}
	}
	path, err := lookPath(r, environ)
	if err != nil {
		return nil, err
	}
	program := &keeper.Program{
		Name: name, Path: path, Args: append([]string{r.command}, r.args...), Env: environ, Dir: r.cwd,
	}
	p := &process{}
	err = p.pipes(program)
	if err == nil {
		p.Child, err = by.Spawn(ctx, program)
	}
	for _, f := range []*os.File{program.Stdin, program.Stdout, program.Stderr} {
		if f != nil {
			_ = f.Close()
		}
	}
	if err != nil {
		p.closePipes()
		return nil, spawnFailure(ctx, err)
	}
	return p, nil
}

// spawnFailure says why there is no process.
func spawnFailure(ctx context.Context, err error) error {
	code := events.SpawnFailed
	switch {
	case errors.Is(err, keeper.ErrLapsed):
		code = events.LeaseLost
	case ctx.Err() != nil:
		code = events.ConnectTimeout
	}
	return events.NewFailure(code, events.PhaseSpawn, withoutPath(err).Error())
}

// pipes makes the child's streams, and our ends of them.
func (p *process) pipes(theirs *keeper.Program) (err error) {
	if theirs.Stdin, p.stdin, err = os.Pipe(); err != nil {
		return err
	}
	if p.stdout, theirs.Stdout, err = os.Pipe(); err != nil {
		return err
	}
	p.stderr, theirs.Stderr, err = os.Pipe()
	return err
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
	// A PATH of the definition is in environ as well: it hides the worker's.
	whose := "the worker's PATH"
	if _, own := r.env["PATH"]; own {
		whose = "the definition's PATH"
	}
	var search string
	for _, v := range environ {
		if dirs, ok := strings.CutPrefix(v, "PATH="); ok {
			search = dirs
		}
	}
	folders := filepath.SplitList(search)
	for _, dir := range folders {
		// A relative directory would make the program depend on where the
		// worker was started.
		if path := filepath.Join(dir, r.command); filepath.IsAbs(dir) && executable(path) {
			return path, nil
		}
	}
	return notFound("on " + whose + " (looked in " + strconv.Itoa(len(folders)) + " folders)")
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

// stop ends the process and its descendants: end of stdin, then TERM, then KILL.
// Closing hard skips to KILL. It returns how the process ended, and false if
// something is left after all that.
func (p *process) stop(hard <-chan struct{}, grace time.Duration) (how string, gone bool) {
	_ = p.stdin.Close()
	how = "closed"
	eof := time.Duration(float64(grace) * eofShare)
	if !await(p.Exited(), hard, eof) {
		if !closed(hard) {
			how = "terminated"
			p.Signal(syscall.SIGTERM)
		}
		if !await(p.Exited(), hard, grace-eof) {
			how = "killed"
			p.End(0)
			return how, await(p.Ended(), nil, killLimit)
		}
	}
	p.End(orphanGrace)
	if !await(p.Ended(), hard, 2*orphanGrace) {
		p.End(0)
	}
	return how, await(p.Ended(), nil, killLimit)
}

// ending says how a process ended that has exited.
func (p *process) ending() ending {
	x := p.Exit()
	switch {
	case x.Lapsed:
		return newEnding(events.LeaseLost, "the worker's lease ended")
	case x.Lost:
		end := newEnding(events.Killed, "ended with its keeper, which died")
		end.signal = unix.SignalName(x.Signal)
		return end
	case x.Signal != 0:
		end := newEnding(events.Killed, "ended by "+unix.SignalName(x.Signal))
		end.signal = unix.SignalName(x.Signal)
		return end
	}
	end := newEnding(events.Exited, "exited with status "+strconv.Itoa(x.Status))
	end.exit = &x.Status
	return end
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
