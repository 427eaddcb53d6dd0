package jetlog

import (
	"crypto/rand"
	"encoding/hex"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/cockroachdb/errors"
	"golang.org/x/sys/unix"
)

// ErrFolderLocked marks the error for a state folder, or a store of embedded NATS,
// that somebody has already.
var ErrFolderLocked = errors.New("folder is locked")

const (
	lockName     = "lock"
	folderIDName = "folder-id"
	folderIDSize = 16 // bytes of randomness
)

// Folder is a process's state folder, which no other process has at the same
// time. The lock belongs to one open file description: it is free only when
// every process that [Folder.File] was handed to has closed it or is gone.
type Folder struct {
	dir, id string
	made    bool
	lock    *os.File
}

// LockFolder takes the state folder at dir. A folder that is absent is created
// for its owner only, and gets an id that it keeps for ever. While somebody has
// it, this process included, the error is marked [ErrFolderLocked] and names the
// process.
func LockFolder(dir string) (*Folder, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, errors.Wrapf(err, "state folder %s", dir)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, errors.Wrapf(err, "create state folder %s", dir)
	}
	lock, err := lockFile(filepath.Join(dir, lockName))
	if err != nil {
		return nil, errors.Wrapf(err, "state folder %s", dir)
	}
	f := &Folder{dir: dir, lock: lock}
	if f.id, f.made, err = folderID(dir); err != nil {
		lock.Close()
		return nil, err
	}
	return f, nil
}

// ID returns the folder's random id, in hex. Whoever holds the folder may take
// over the leases that name it.
func (f *Folder) ID() string { return f.id }

// Made says that the folder got its id just now: nothing can have been left behind
// under it.
func (f *Folder) Made() bool { return f.made }

// Dir returns the folder's absolute path.
func (f *Folder) Dir() string { return f.dir }

// File returns the open lock, for a child process that shall share it. It is
// close-on-exec and must not be closed.
func (f *Folder) File() *os.File { return f.lock }

// Close gives the folder back, as far as this process is concerned.
func (f *Folder) Close() error {
	return errors.Wrapf(f.lock.Close(), "unlock state folder %s", f.dir)
}

// lockFile opens a file, created if need be, and locks it for this process.
func lockFile(name string) (*os.File, error) {
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, errors.Wrap(err, "open its lock")
	}
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if err == nil {
		// Only a help for whoever finds it locked.
		_ = f.Truncate(0)
		_, _ = f.WriteAt([]byte(strconv.Itoa(os.Getpid())), 0)
		return f, nil
	}
	defer f.Close()
	if !errors.Is(err, unix.EWOULDBLOCK) {
		return nil, errors.Wrapf(err, "lock %s", name)
	}
	owner := "another process"
	if pid, err := io.ReadAll(io.LimitReader(f, 20)); err == nil && len(pid) > 0 {
		owner = "process " + strings.TrimSpace(string(pid))
	}
	return nil, errors.Mark(errors.Newf("in use by %s or a child of it: stop that one, or choose another folder", owner),
		ErrFolderLocked)
}

// folderID returns the id of a locked folder, made at first use.
func folderID(dir string) (id string, made bool, err error) {
	name := filepath.Join(dir, folderIDName)
	data, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		id := randomHex(folderIDSize)
		return id, true, errors.Wrapf(writeFile(name, []byte(id+"\n")), "write %s", name)
	}
	if err != nil {
		return "", false, errors.Wrap(err, "read the state folder's id")
	}
	id = strings.TrimSpace(string(data))
	if b, err := hex.DecodeString(id); err != nil || len(b) != folderIDSize {
		return "", false, errors.Newf("%s holds no folder id: remove the file to give the folder a new one", name)
	}
	return id, false, nil
}

func randomHex(n int) string {
	b := make([]byte, n)
	_, _ = rand.Read(b) // never fails
	return hex.EncodeToString(b)
}

// writeFile writes a file for its owner only, so that after a crash there is
// either all of it or none.
func writeFile(name string, data []byte) error {
	tmp, err := writeTemp(name, data)
	if err != nil {
		return err
	}
	if err := os.Rename(tmp, name); err != nil {
		os.Remove(tmp)
		return err
	}
	return syncDir(filepath.Dir(name))
}

// writeTemp writes a file beside name and returns its path. It is on disk, and
// readable by its owner only.
func writeTemp(name string, data []byte) (path string, err error) {
	f, err := os.CreateTemp(filepath.Dir(name), "."+filepath.Base(name)+"-*") // 0600
	if err != nil {
		return "", err
	}
	defer func() {
		if err = errors.CombineErrors(err, f.Close()); err != nil {
			os.Remove(f.Name())
		}
	}()
	if _, err := f.Write(data); err != nil {
		return "", err
	}
	return f.Name(), f.Sync()
}

// syncDir makes the names in a folder last.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}
