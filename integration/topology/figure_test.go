//go:build topology && !bench

package topology

import (
	"testing"
	"time"
)

// sideBySide lets a test run beside the others: most of their time they wait.
func sideBySide(t *testing.T) { t.Parallel() }

// figure tells a time that was measured, and fails the test if it is far beyond
// its bound.
func figure(t *testing.T, what string, got, bound time.Duration) {
	t.Helper()
	t.Logf("%s: %v, at most %v", what, got.Round(time.Millisecond), bound)
	if got > slack*bound {
		t.Errorf("%s took %v, %d times %v", what, got, slack, bound)
	}
}
