// Package position reads positions in a history as people write them: a sequence
// ("1234"), a time ("2026-01-02T15:04:05Z", RFC 3339), or an age ("15m", "36h",
// "2d"). A time without a zone ("2026-01-02 15:04:05", also without seconds or a
// time of day) is local, as those that tables show.
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
	for _, form := range []string{time.DateTime, "2006-01-02T15:04:05", "2006-01-02 15:04", time.DateOnly} {
		if t, err := time.ParseInLocation(form, s, now.Location()); err == nil {
			return Position{Time: t}, nil
		}
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

// Stored returns when an event was stored, which never decreases from one
// sequence to the next.
type Stored func(events.Seq) (time.Time, error)

// First returns the first sequence, from 1 to last, of an event stored at the
// time or later, or last+1 if there is none.
func First(last events.Seq, t time.Time, at Stored) (events.Seq, error) {
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

// Moment returns the sequence of the last event at a position: the one that it
// names, or the last that was stored at the time or earlier. Outside of the
// history, which has the events from 1 to last, there is none: a sequence after
// the last, a time after now, and what is before the first event are errors that
// name the range.
func Moment(last events.Seq, p Position, now time.Time, at Stored) (events.Seq, error) {
	if last == 0 {
		return 0, exit.Usagef("the history has no events yet, and so no past")
	}
	ranged := func(why string) error {
		first, err := at(1)
		if err != nil {
			return err
		}
		end, err := at(last)
		if err != nil {
			return err
		}
		return exit.Usagef("%s: the history goes from event 1 (%s) to %d (%s)", why, when(first), last, when(end))
	}
	switch {
	case p.Time.IsZero() && p.Seq > last:
		return 0, ranged("event " + strconv.FormatUint(uint64(p.Seq), 10) + " is in the future")
	case p.Time.IsZero() && p.Seq == 0:
		return 0, ranged("there is nothing before the first event")
	case p.Time.IsZero():
		return p.Seq, nil
	case p.Time.After(now):
		return 0, ranged(when(p.Time) + " is in the future")
	}
	next, err := First(last, p.Time.Add(1), at)
	if err != nil {
		return 0, err
	}
	if next == 1 {
		return 0, ranged(when(p.Time) + " is before the first event")
	}
	return next - 1, nil
}

func when(t time.Time) string { return t.Local().Format(time.RFC3339) }
