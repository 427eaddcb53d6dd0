package discovery

import (
	"bytes"
	"fmt"
	"sort"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/cockroachdb/errors"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/tailscale/hujson"
)

// SyntaxError is the error of a file that is not JSON with comments and
// trailing commas.
type SyntaxError struct {
	Path string
	// Line and Column, in bytes, of the first offence, from 1.
	Line, Column int
	// Text is that line, at most 200 bytes of it. It may hold a secret: show it
	// to whoever may read the file, and store it nowhere. It is not part of
	// Error's text for that reason.
	Text string
	// Message says what is wrong; it quotes at most one character.
	Message string
}

func (e *SyntaxError) Error() string {
	return fmt.Sprintf("%s: line %d, column %d: %s", e.Path, e.Line, e.Column, e.Message)
}

// ShapeError is the error of a file that is JSON, but lists no servers in a
// shape that is known.
type ShapeError struct {
	Path    string
	Message string
	// Keys are the names at the top of the file, at most 20.
	Keys []string
}

func (e *ShapeError) Error() string {
	s := e.Path + ": " + e.Message
	if len(e.Keys) > 0 {
		s += " (it has: " + strings.Join(e.Keys, ", ") + ")"
	}
	return s
}

const (
	wrapperKey = "mcpServers"
	maxText    = 200
	maxKeys    = 20
	// maxDepth bounds the nesting: the parser recurses, and no definition goes
	// deeper than a handful.
	maxDepth = 200
)

// document is a parsed file and the way from offsets to lines.
type document struct {
	path string
	root hujson.Value
	// newlines are the offsets of the line feeds.
	newlines []int
}

func parseDocument(data []byte, path string) (*document, error) {
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	if len(bytes.TrimSpace(data)) == 0 {
		return nil, errors.WithHint(errors.WithStack(&ShapeError{Path: path, Message: "the file is empty"}),
			`put servers into it, or at least: {"`+wrapperKey+`": {}}`)
	}
	// A comment on the last line needs its end.
	data = append(bytes.Clone(data), '\n')
	d := &document{path: path}
	for i, c := range data {
		if c == '\n' {
			d.newlines = append(d.newlines, i)
		}
	}
	if at := tooDeep(data); at >= 0 {
		line := d.lineAt(at)
		return nil, syntaxError(data, path, line, at-d.startOf(line)+1, "nested too deeply")
	}
	root, err := hujson.Parse(data)
	if err != nil {
		var line, column int
		// unreachable unless the parser's errors change their form: line 1,
		// column 1 then.
		if n, _ := fmt.Sscanf(err.Error(), "hujson: line %d, column %d:", &line, &column); n != 2 {
			line, column = 1, 1
		}
		return nil, syntaxError(data, path, line, column, syntaxMessage(err))
	}
	d.root = root
	return d, nil
}

func syntaxError(data []byte, path string, line, column int, message string) error {
	text := ""
	if lines := bytes.SplitN(data, []byte("\n"), line+1); line <= len(lines) {
		text = strings.TrimRight(string(lines[line-1]), "\r")
	}
	return errors.WithStack(&SyntaxError{Path: path, Line: line, Column: column, Text: cut(text), Message: message})
}

// syntaxMessage is the parser's, without the value that it may quote.
func syntaxMessage(err error) string {
	s := err.Error()
	if inner := errors.UnwrapOnce(err); inner != nil {
		s = inner.Error()
	}
	if before, _, ok := strings.Cut(s, "invalid literal:"); ok {
		return before + "invalid value: is it a text without quotes?"
	}
	return s
}

func cut(s string) string {
	if len(s) <= maxText {
		return s
	}
	n := maxText
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + "…"
}

// tooDeep returns the offset at which the nesting passes maxDepth, or -1.
func tooDeep(data []byte) int {
	depth := 0
	for i := 0; i < len(data); i++ {
		switch data[i] {
		case '{', '[':
			if depth++; depth > maxDepth {
				return i
			}
		case '}', ']':
			depth--
		case '"':
			i = endOfString(data, i)
		case '/':
			i = endOfComment(data, i)
		}
	}
	return -1
}

func endOfString(data []byte, i int) int {
	for i++; i < len(data) && data[i] != '"'; i++ {
		if data[i] == '\\' {
			i++
		}
	}
	return i
}

func endOfComment(data []byte, i int) int {
	end := ""
	switch {
	case bytes.HasPrefix(data[i:], []byte("//")):
		end = "\n"
	case bytes.HasPrefix(data[i:], []byte("/*")):
		end = "*/"
	default:
		return i
	}
	n := bytes.Index(data[i+2:], []byte(end))
	if n < 0 {
		return len(data)
	}
	return i + 2 + n + len(end) - 1
}

// servers returns the entries of all mcpServers members, or of a bare map.
func (d *document) servers() (entries []hujson.ObjectMember, wrapped bool, err error) {
	top, ok := d.root.Value.(*hujson.Object)
	if !ok {
		return nil, false, d.shapeError("the file is no JSON object")
	}
	for _, m := range top.Members {
		if name, _ := text(m.Name); name != wrapperKey {
			continue
		}
		wrapped = true
		switch v := m.Value.Value.(type) {
		case *hujson.Object:
			entries = append(entries, v.Members...)
		default:
			if v.Kind() != 'n' {
				return nil, true, d.shapeError(wrapperKey + " is " + kindName(v.Kind()) + ", not an object of servers by name")
			}
		}
	}
	if wrapped {
		return entries, true, nil
	}
	for _, m := range top.Members {
		if isComment(m) {
			continue
		}
		if !isServer(m.Value) {
			return nil, false, d.shapeError(`no "` + wrapperKey + `" in the file`)
		}
		entries = append(entries, m)
	}
	return entries, false, nil
}

func (d *document) shapeError(message string) error {
	e := &ShapeError{Path: d.path, Message: message}
	if top, ok := d.root.Value.(*hujson.Object); ok {
		for _, m := range top.Members[:min(len(top.Members), maxKeys)] {
			name, _ := text(m.Name)
			e.Keys = append(e.Keys, quote(name))
		}
	}
	return errors.WithStack(e)
}

// isServer says whether a value at the top of a file can only be a server.
func isServer(v hujson.Value) bool {
	o, ok := v.Value.(*hujson.Object)
	if !ok {
		return false
	}
	for _, m := range o.Members {
		if name, _ := text(m.Name); name == "command" || name == "url" {
			return true
		}
	}
	return false
}

// isComment says whether a member is a remark in the place of a server.
func isComment(m hujson.ObjectMember) bool {
	name, _ := text(m.Name)
	switch name {
	case "$schema", "comment", "_comment", "//", "description":
		return m.Value.Value.Kind() == '"'
	}
	return false
}

func (d *document) line(v hujson.Value) int { return d.lineAt(v.StartOffset) }

func (d *document) lineAt(offset int) int { return 1 + sort.SearchInts(d.newlines, offset) }

func (d *document) startOf(line int) int {
	if line == 1 {
		return 0
	}
	return d.newlines[line-2] + 1
}

// text returns the value of a JSON string, or false for anything else and for
// strings that are not valid Unicode.
func text(v hujson.Value) (string, bool) {
	lit, ok := v.Value.(hujson.Literal)
	if !ok || lit.Kind() != '"' {
		return "", false
	}
	s, err := jsontext.AppendUnquote(nil, lit)
	return string(s), err == nil
}

// plain returns a value as standard JSON.
func plain(v hujson.Value) jsontext.Value {
	c := v.Clone()
	c.Minimize()
	return jsontext.Value(c.Pack())
}

func kindName(k hujson.Kind) string {
	switch k {
	case 'n':
		return "null"
	case 'f', 't':
		return "a boolean"
	case '"':
		return "a string"
	case '0':
		return "a number"
	case '[':
		return "an array"
	default:
		return "an object"
	}
}

func quote(s string) string { return strconv.Quote(cut(s)) }

func itoa(n int) string { return strconv.Itoa(n) }
