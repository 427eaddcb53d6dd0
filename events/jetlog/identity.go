package jetlog

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"

	"filippo.io/age"
	"github.com/cockroachdb/errors"
)

// Identity is the key that decrypts a fleet's secrets. It never leaves the
// process, and no format prints it.
type Identity struct{ x *age.X25519Identity }

// Recipient returns the public key that belongs to the identity, as age writes
// it: age1….
func (i *Identity) Recipient() string { return i.x.Recipient().String() }

// String names the identity by its recipient.
func (i *Identity) String() string { return "identity of " + i.Recipient() }

// GoString is String, for %#v.
func (i *Identity) GoString() string { return i.String() }

// LoadIdentity reads an identity file, in the format of age, with one X25519 key
// (AGE-SECRET-KEY-1…). A file that others than its owner may read or write is
// refused. The error for an absent file is an [fs.ErrNotExist]; none holds a line
// of the file.
func LoadIdentity(path string) (*Identity, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, errors.Wrap(err, "identity for secrets")
	}
	if info.Mode().Perm()&0o077 != 0 {
		return nil, errors.Newf("identity for secrets, %s: others may read it (mode %04o): `chmod 600` it", path, info.Mode().Perm())
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, errors.Wrap(err, "identity for secrets")
	}
	// The parser's error may repeat a line of the file.
	ids, err := age.ParseIdentities(bytes.NewReader(data))
	if err == nil && len(ids) == 1 {
		if x, ok := ids[0].(*age.X25519Identity); ok {
			return &Identity{x}, nil
		}
	}
	return nil, errors.Newf("identity for secrets, %s: the file does not hold one key AGE-SECRET-KEY-1…", path)
}

// LoadOrCreateIdentity reads an identity file, or makes a new identity and
// writes it there, for its owner only, with the folders above it. Of several
// processes that do so at the same time one makes it and all have the same. A
// file that is there and cannot be used is an error, as for [LoadIdentity]: it is
// never replaced.
func LoadOrCreateIdentity(path string) (*Identity, error) {
	i, err := LoadIdentity(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return i, err
	}
	x, err := age.GenerateX25519Identity()
	if err != nil {
		return nil, errors.Wrap(err, "make an identity for secrets") // unreachable unless there is no randomness
	}
	if err := createIdentity(path, x); err != nil {
		return nil, errors.Wrapf(err, "write identity for secrets, %s", path)
	}
	return LoadIdentity(path)
}

// createIdentity writes an identity file, unless there is one.
func createIdentity(path string, x *age.X25519Identity) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	tmp, err := writeTemp(path, []byte("# toolfleet: keep this file secret; it decrypts the fleet's secrets\n"+
		"# public key: "+x.Recipient().String()+"\n"+x.String()+"\n"))
	if err != nil {
		return err
	}
	defer os.Remove(tmp)
	// A link, unlike a rename, never replaces a file.
	if err := os.Link(tmp, path); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return syncDir(filepath.Dir(path))
}
