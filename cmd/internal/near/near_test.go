package near

import (
	"slices"
	"testing"
)

func TestNames(t *testing.T) {
	names := []string{"example__text_stats", "example__add_tool", "git__log", "git__logs", "git__lag", "git__lug"}
	for written, want := range map[string][]string{
		"example__text_stat": {"example__text_stats"},
		"text_stats":         {"example__text_stats"},
		"GIT__LOG":           {"git__log", "git__lag", "git__logs"},
		"nothing_like_it":    nil,
		"":                   nil,
	} {
		if got := Names(written, names); !slices.Equal(got, want) {
			t.Errorf("%q: got %v, want %v", written, got, want)
		}
	}
}

func TestDistance(t *testing.T) {
	for _, tt := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"abc", "", 3}, {"", "ab", 2}, {"kitten", "sitting", 3}, {"ab", "ba", 1}, {"tow", "two", 1}} {
		if got := distance(tt.a, tt.b); got != tt.want {
			t.Errorf("%q to %q: %d, want %d", tt.a, tt.b, got, tt.want)
		}
	}
}
