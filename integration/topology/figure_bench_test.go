//go:build topology && bench

package topology

import (
	"fmt"
	"testing"
	"time"
)

// sideBySide has a test run alone.
func sideBySide(*testing.T) {}

// figure prints a time that was measured with its bound, and fails the test on a
// miss.
func figure(t *testing.T, what string, got, bound time.Duration) {
	t.Helper()
	word := "ok    "
	if got > bound {
		word = "MISSED"
		t.Fail()
	}
	fmt.Printf("%s %s: %.2f s, at most %.2f s\n", word, what, got.Seconds(), bound.Seconds())
}
