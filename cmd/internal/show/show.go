// Package show writes what the verbs of the command line print: tables for
// people, JSON and YAML for programs.
//
// The JSON shapes are a contract: members are added, never renamed, retyped or
// left out. Lists are arrays sorted by id or name, of which one is asked for is
// an object; events, and changes that are watched, are one object a line. YAML
// has the same members. Nothing else is written beside them.
//
// Tables may change. Colours are for terminals, and not where NO_COLOR is set.
// Control and formatting characters in text that comes from
// servers are replaced there, so that it cannot steer a terminal.
package show

import (
	"io"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/cockroachdb/errors"
)

// Clean returns s on one line with nothing in it that a terminal acts on.
func Clean(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' || r == '\r' {
			return ' '
		}
		return harmless(r)
	}, s)
}

// harmless returns r, or what stands for a character that a terminal acts on.
func harmless(r rune) rune {
	if r == utf8.RuneError || unicode.IsControl(r) || unicode.Is(unicode.Cf, r) {
		return utf8.RuneError
	}
	return r
}

// cut returns the beginning of s, at most that many characters.
func cut(s string, most int) string {
	if utf8.RuneCountInString(s) <= most {
		return s
	}
	return string([]rune(s)[:most-1]) + "…"
}

// Terminal returns a writer that takes out of what goes to w all that a terminal
// acts on, except line feeds and tabs.
func Terminal(w io.Writer) io.Writer { return terminal{w} }

type terminal struct{ w io.Writer }

func (t terminal) Write(p []byte) (int, error) {
	text := strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' {
			return r
		}
		return harmless(r)
	}, strings.ReplaceAll(string(p), "\r\n", "\n"))
	if _, err := io.WriteString(t.w, text); err != nil {
		return 0, errors.Wrap(err, "write the output")
	}
	return len(p), nil
}
