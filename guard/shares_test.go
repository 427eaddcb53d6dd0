package guard_test

import (
	"testing"

	"github.com/toolfleet/toolfleet/guard"
)

// No principal takes the part of the others, and all together not more than there
// is; what is given back can be taken again.
func TestShares(t *testing.T) {
	s := guard.NewShares(10, 6)
	for _, tt := range []struct {
		who  string
		n    int64
		want bool
	}{
		{"me", 4, true},
		{"me", 3, false},
		{"me", 2, true},
		{"me", 1, false},
		{"you", 5, false},
		{"you", 4, true},
		{"they", 1, false},
	} {
		if got := s.Take(tt.who, tt.n); got != tt.want {
			t.Errorf("%d for %s: %v", tt.n, tt.who, got)
		}
	}
	if n := s.Taken(); n != 10 {
		t.Errorf("%d are taken", n)
	}
	s.Give("me", 6)
	s.Give("you", 4)
	if n := s.Taken(); n != 0 || !s.Take("you", 6) {
		t.Errorf("%d are left", n)
	}
}
