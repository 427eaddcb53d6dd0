// Package position reads positions in a history as people write them: a sequence
// ("1234"), a time ("2026-01-02T15:04:05Z", RFC 3339), or an age ("15m", "36h",
// "2d").
package position

import (
	"strconv"
	"strings"
	"time"

	"github.com/toolfleet/toolfleet/cmd/internal/exit"
	"github.com/toolfleet/toolfleet/events"
)

// Position is a sequence, or else a time. The zero Position is the beginning.
type Position struct {
	Seq  events.Seq
	Time time.Time
}

// Form says how positions are written, for help texts.
const Form = "a sequence, a time (RFC 3339) or an age such as 15m or 2d"

// Parse reads a position. Ages count back from now.
func Parse(s string, now time.Time) (Position, error) {
	if n, err := strconv.ParseUint(s, 10, 64); err == nil {
		return Position{Seq: events.Seq(n)}, nil
	}
	if t, err := time.Parse(time.RFC3339, s); err == nil {
		return Position{Time: t}, nil
	}
	if age, ok := parseAge(s); ok && age >= 0 {
		return Position{Time: now.Add(-age)}, nil
	}
	return Position{}, exit.Usagef("%q is no position: use %s", s, Form)
}

func parseAge(s string) (time.Duration, bool) {
	if days, ok := strings.CutSuffix(s, "d"); ok {
		const most = 100 * 365
		n, err := strconv.ParseUint(days, 10, 32)
		return time.Duration(n) * 24 * time.Hour, err == nil && n <= most
	}
	age, err := time.ParseDuration(s)
	return age, err == nil
}

// First returns the first sequence, from 1 to last, of an event stored at the
// time or later, or last+1 if there is none. At returns when an event was stored,
// which never decreases.
func First(last events.Seq, t time.Time, at func(events.Seq) (time.Time, error)) (events.Seq, error) {
	low, high := events.Seq(1), last+1
	for low < high {
		middle := low + (high-low)/2
		stored, err := at(middle)
		if err != nil {
			return 0, err
		}
		if stored.Before(t) {
			low = middle + 1
		} else {
			high = middle
		}
	}
	return low, nil
}
