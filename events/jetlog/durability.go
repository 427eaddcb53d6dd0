package jetlog

import "github.com/cockroachdb/errors"

// Durability says when an embedded server writes to disk what it has
// acknowledged. A crash of the process loses nothing either way; a crash of the
// host may lose what was not on disk.
type Durability int

const (
	// Interval writes every 200 ms, at no measurable cost. It is the default.
	Interval Durability = iota
	// Always writes before each acknowledgement: some hundred events a second.
	Always
)

var durabilityNames = [...]string{Interval: "interval", Always: "always"}

// String returns "interval" or "always".
func (d Durability) String() string {
	if d >= 0 && int(d) < len(durabilityNames) {
		return durabilityNames[d]
	}
	return "unknown"
}

// MarshalText returns "interval" or "always".
func (d Durability) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText accepts "interval" and "always"; everything else is an error.
func (d *Durability) UnmarshalText(text []byte) error {
	for i, name := range durabilityNames {
		if string(text) == name {
			*d = Durability(i)
			return nil
		}
	}
	return errors.Newf("durability %q: use interval or always", text)
}
