package discovery

import (
	"io"
	"os"
	"path/filepath"

	"github.com/cockroachdb/errors"

	"github.com/toolfleet/toolfleet/events"
)

// File is a configuration file that was read whole.
type File struct {
	// Path is absolute.
	Path string
	// Digest of the bytes: it tells whether the file changed.
	Digest events.Digest
	Result
}

// ReadFile reads the configuration file at the path. Besides the errors of
// [Parse] it has those of the file system, which can be told apart with
// errors.Is and the errors of package io/fs.
func ReadFile(path string) (*File, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, errors.Wrapf(err, "read %s", path)
	}
	data, err := readAll(abs)
	if err != nil {
		return nil, errors.Wrapf(err, "read %s", abs)
	}
	result, err := Parse(data, abs)
	if err != nil {
		return nil, err
	}
	return &File{Path: abs, Digest: events.DigestOf(data), Result: *result}, nil
}

func readAll(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close() // it was only read
	data, err := io.ReadAll(io.LimitReader(f, MaxFileSize+1))
	if err == nil && len(data) > MaxFileSize {
		err = errors.Newf("larger than %d bytes", MaxFileSize)
	}
	return data, err
}
