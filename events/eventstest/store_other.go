//go:build !linux

package eventstest

import "testing"

// newStore returns a new folder of the test.
func newStore(t testing.TB) string {
	t.Helper()
	return t.TempDir()
}

func sweepStores() {}
