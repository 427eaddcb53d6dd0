package keeper

import (
	"os"

	"github.com/cockroachdb/errors"
)

// self returns the file of the running program.
func self() (string, error) {
	path, err := os.Executable()
	return path, errors.Wrap(err, "find the own program")
}
