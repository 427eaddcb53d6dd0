package guard

import "sync"

// Shares divide something that there is only so much of, such as places or bytes,
// among principals, so that none of them can take all.
type Shares struct {
	all, each int64

	mu    sync.Mutex // guards what follows
	sum   int64
	taken map[string]int64 // by principal; none is 0
}

// NewShares returns shares of all, of which each principal has at most so much.
func NewShares(all, each int64) *Shares {
	return &Shares{all: all, each: each, taken: make(map[string]int64)}
}

// Take takes n for a principal; false, and nothing is taken, if that is more than
// there is, or than it may have. The caller gives it back.
func (s *Shares) Take(principal string, n int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n > s.all-s.sum || n > s.each-s.taken[principal] {
		return false
	}
	s.change(principal, n)
	return true
}

// Give gives back what was taken.
func (s *Shares) Give(principal string, n int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.change(principal, -n)
}

func (s *Shares) change(principal string, n int64) {
	s.sum += n
	s.taken[principal] += n
	if s.taken[principal] == 0 {
		delete(s.taken, principal)
	}
}

// Taken returns how much is taken.
func (s *Shares) Taken() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sum
}
