package events

import (
	"strings"

	"github.com/cockroachdb/errors"
)

// Labels say what a worker's host is like, so that placements can ask for it.
const (
	// MaxLabelName bounds the name of a label, and MaxLabelValue its value, in
	// bytes: they stand in tables and in reasons.
	MaxLabelName  = 63
	MaxLabelValue = 253 // that of a host's full name
	// MaxLabels is how many labels a worker has at most.
	MaxLabels = 64
)

// ErrInvalidLabel marks the errors of [CheckLabel].
var ErrInvalidLabel = errors.New("invalid label")

// CheckLabel returns nil for a label of a worker: its name is 1 to [MaxLabelName]
// ASCII letters, digits, '-', '_', '.' and '/', its value at most [MaxLabelValue]
// of these and '+', ':' and '@', or nothing. Everything else is an error marked
// [ErrInvalidLabel].
func CheckLabel(name, value string) error {
	switch {
	case name == "":
		return errors.Mark(errors.Newf("a label has no name: write it as name=value"), ErrInvalidLabel)
	case len(name) > MaxLabelName:
		return errors.Mark(errors.Newf("the name of a label has %d bytes: at most %d are allowed", len(name), MaxLabelName), ErrInvalidLabel)
	case !isLabel(name, "./"):
		return errors.Mark(errors.Newf("label %q: a name has ASCII letters, digits, '-', '_', '.' and '/' only", name), ErrInvalidLabel)
	case len(value) > MaxLabelValue:
		return errors.Mark(errors.Newf("label %s: the value has %d bytes: at most %d are allowed", name, len(value), MaxLabelValue), ErrInvalidLabel)
	case !isLabel(value, "./+:@"):
		return errors.Mark(errors.Newf("label %s: a value has ASCII letters, digits and '-_./+:@' only", name), ErrInvalidLabel)
	}
	return nil
}

// isLabel says whether all of s are token characters or among those.
func isLabel(s, others string) bool {
	for i := range len(s) {
		if !isToken(s[i:i+1]) && !strings.Contains(others, s[i:i+1]) {
			return false
		}
	}
	return true
}
