package eventstest

import (
	"sync"
	"testing"
)

// OncePerTest returns a function that makes something once for each test, and
// then returns it again: what the calls of open of one check in [Conformance]
// share.
func OncePerTest[T any](make func(t *testing.T) T) func(t *testing.T) T {
	var mu sync.Mutex
	of := map[*testing.T]T{}
	return func(t *testing.T) T {
		t.Helper()
		mu.Lock()
		defer mu.Unlock()
		if x, ok := of[t]; ok {
			return x
		}
		x := make(t)
		of[t] = x
		t.Cleanup(func() {
			mu.Lock()
			defer mu.Unlock()
			delete(of, t)
		})
		return x
	}
}
