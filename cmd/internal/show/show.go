// Package show writes what the verbs of the command line print: tables for
// people, JSON for programs.
//
// The JSON shapes are a contract: members are added, never renamed, retyped or
// left out. Lists are arrays sorted by id or name; events are one object a
// line. Nothing else is written beside them.
//
// Tables may change. Control and formatting characters in text that comes from
// servers are replaced there, so that it cannot steer a terminal.
package show

import (
	"io"
	"strings"
	"text/tabwriter"
	"unicode"
	"unicode/utf8"

	"github.com/cockroachdb/errors"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// writeJSON writes a value and a line feed; the members of maps are in the
// order of their names.
func writeJSON(w io.Writer, v any, opts ...json.Options) error {
	data, err := json.Marshal(v, append(opts, json.Deterministic(true))...)
	if err != nil {
		return errors.Wrap(err, "write JSON")
	}
	_, err = w.Write(append(data, '\n'))
	return errors.Wrap(err, "write the output")
}

// writeList writes a value for people to read as well.
func writeList(w io.Writer, v any) error {
	return writeJSON(w, v, jsontext.WithIndent("  "))
}

// writeTable writes rows in columns; the first row is the heading.
func writeTable(w io.Writer, rows [][]string) error {
	var table strings.Builder
	t := tabwriter.NewWriter(&table, 0, 0, 3, ' ', 0)
	for _, row := range rows {
		for i, cell := range row {
			row[i] = Clean(cell)
		}
		_, _ = io.WriteString(t, strings.Join(row, "\t")+"\n") // a Builder takes everything
	}
	_ = t.Flush()
	var trimmed strings.Builder
	for line := range strings.Lines(table.String()) {
		trimmed.WriteString(strings.TrimRight(line, " \n") + "\n")
	}
	_, err := io.WriteString(w, trimmed.String())
	return errors.Wrap(err, "write the output")
}

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
