package position_test

import (
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/errors"

	"github.com/toolfleet/toolfleet/cmd/internal/exit"
	"github.com/toolfleet/toolfleet/cmd/internal/position"
	"github.com/toolfleet/toolfleet/events"
)

func TestParse(t *testing.T) {
	now := time.Date(2026, 1, 2, 12, 0, 0, 0, time.FixedZone("", 3600))
	for text, want := range map[string]position.Position{
		"0":                    {},
		"17":                   {Seq: 17},
		"15m":                  {Time: now.Add(-15 * time.Minute)},
		"1h30m":                {Time: now.Add(-90 * time.Minute)},
		"2d":                   {Time: now.Add(-48 * time.Hour)},
		"2026-01-01T00:00:00Z": {Time: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)},
		"2026-01-01 01:02:03":  {Time: time.Date(2026, 1, 1, 1, 2, 3, 0, now.Location())},
		"2026-01-01T01:02:03":  {Time: time.Date(2026, 1, 1, 1, 2, 3, 0, now.Location())},
		"2026-01-01 01:02":     {Time: time.Date(2026, 1, 1, 1, 2, 0, 0, now.Location())},
		"2026-01-01":           {Time: time.Date(2026, 1, 1, 0, 0, 0, 0, now.Location())},
	} {
		got, err := position.Parse(text, now)
		if err != nil || got.Seq != want.Seq || !got.Time.Equal(want.Time) {
			t.Errorf("%s: got %v, %v; want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "-1", "-5m", "yesterday", "2026-13-01", "99999999d", "d", "18446744073709551616"} {
		if _, err := position.Parse(text, now); exit.Of(err) != exit.Usage || !strings.Contains(err.Error(), "RFC 3339") {
			t.Errorf("%q: got %v", text, err)
		}
	}
}

func TestFirst(t *testing.T) {
	stored := []int64{10, 20, 20, 30}
	at := func(s events.Seq) (time.Time, error) { return time.Unix(stored[s-1], 0), nil }
	for since, want := range map[int64]events.Seq{0: 1, 10: 1, 11: 2, 20: 2, 21: 4, 30: 4, 31: 5} {
		if got, err := position.First(4, time.Unix(since, 0), at); err != nil || got != want {
			t.Errorf("since %d: got %d, %v; want %d", since, got, err, want)
		}
	}
	if got, err := position.First(0, time.Unix(1, 0), at); err != nil || got != 1 {
		t.Errorf("of nothing: got %d, %v", got, err)
	}
	broken := errors.New("no")
	if _, err := position.First(4, time.Unix(1, 0), func(events.Seq) (time.Time, error) { return time.Time{}, broken }); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
}

// A position in the future, or before the first event, is an error that names the
// range.
func TestMoment(t *testing.T) {
	stored := []int64{10, 20, 20, 30}
	at := func(s events.Seq) (time.Time, error) { return time.Unix(stored[s-1], 0), nil }
	now := time.Unix(100, 0)
	moment := func(sec int64) position.Position { return position.Position{Time: time.Unix(sec, 0)} }
	for _, tt := range []struct {
		name string
		at   position.Position
		want events.Seq
		err  string
	}{
		{"a sequence", position.Position{Seq: 3}, 3, ""},
		{"the last", position.Position{Seq: 4}, 4, ""},
		{"one too many", position.Position{Seq: 5}, 0, "event 5 is in the future: the history goes from event 1 ("},
		{"none", position.Position{}, 0, "nothing before the first event: the history goes from event 1 ("},
		{"a time between", moment(15), 1, ""},
		{"the time of two", moment(20), 3, ""},
		{"just before", position.Position{Time: time.Unix(20, -1)}, 1, ""},
		{"the time of the last", moment(30), 4, ""},
		{"after the last, before now", moment(99), 4, ""},
		{"now", moment(100), 4, ""},
		{"the future", moment(101), 0, "is in the future: the history goes from event 1 ("},
		{"before the first", moment(9), 0, "is before the first event: the history goes from event 1 ("},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := position.Moment(4, tt.at, now, at)
			if tt.err == "" && err != nil || got != tt.want {
				t.Errorf("got %d, %v; want %d", got, err, tt.want)
			}
			if tt.err != "" && (exit.Of(err) != exit.Usage || !strings.Contains(err.Error(), tt.err) || !strings.Contains(err.Error(), ") to 4 (")) {
				t.Errorf("got %v, want %q", err, tt.err)
			}
		})
	}
	if _, err := position.Moment(0, moment(1), now, at); exit.Of(err) != exit.Usage || !strings.Contains(err.Error(), "no events") {
		t.Errorf("of nothing: got %v", err)
	}
	broken := errors.New("no")
	for _, p := range []position.Position{moment(1), {Seq: 9}} {
		if _, err := position.Moment(4, p, now, func(events.Seq) (time.Time, error) { return time.Time{}, broken }); !errors.Is(err, broken) {
			t.Errorf("got %v", err)
		}
	}
}
