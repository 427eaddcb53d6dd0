package show

import (
	"io"
	"strings"
	"unicode/utf8"

	"github.com/cockroachdb/errors"
	"github.com/go-json-experiment/json"
)

// View says how a list of things is shown, in every format.
type View[T any] struct {
	// Columns of the table.
	Columns []Column[T]
	// Name of a thing, and the member of its JSON object that holds it.
	Name   func(*T) string
	Member string
	// Object is a thing's JSON shape.
	Object func(*T) any
	// None is what people read on standard error instead of an empty table. See
	// [View.Nothing].
	None string
}

// Column is one column of a table.
type Column[T any] struct {
	Heading string
	Cell    func(*T) string
	// Wide columns are shown by the wide format only.
	Wide bool
	// Paint colours the cell. Default not.
	Paint func(*T) paint
}

// Nothing returns what people are told of a list that has nothing in it, or "".
func (v *View[T]) Nothing(f *Format, list []T) string {
	if len(list) > 0 || f.Data() {
		return ""
	}
	return v.None
}

// Write writes a list: a table, which is nothing for an empty list, names, or an
// array.
func (v *View[T]) Write(w io.Writer, f *Format, list []T) error {
	switch {
	case f.Data():
		all := make([]any, 0, len(list))
		for i := range list {
			all = append(all, v.Object(&list[i]))
		}
		return f.Write(w, all)
	case f.Is(Name):
		var b strings.Builder
		for i := range list {
			b.WriteString(Clean(v.Name(&list[i])) + "\n")
		}
		_, err := io.WriteString(w, b.String())
		return errors.Wrap(err, "write the output")
	case len(list) == 0:
		return nil
	default:
		_, err := io.WriteString(w, strings.Join(v.lines(f, list, paints(w)), "\n")+"\n")
		return errors.Wrap(err, "write the output")
	}
}

// WriteOne writes one thing: an object, or else like a list.
func (v *View[T]) WriteOne(w io.Writer, f *Format, thing *T) error {
	if f.Data() {
		return f.Write(w, v.Object(thing))
	}
	return v.Write(w, f, []T{*thing})
}

// gap lies between columns.
const gap = 3

// Lines returns the table as it would be written to w, its heading first.
func (v *View[T]) Lines(w io.Writer, list []T) []string {
	return v.lines(NewFormat(), list, paints(w))
}

// lines returns the table, its heading first.
func (v *View[T]) lines(f *Format, list []T, painted bool) []string {
	var columns []Column[T]
	for _, c := range v.Columns {
		if !c.Wide || f.Is(Wide) {
			columns = append(columns, c)
		}
	}
	rows := make([][]string, len(list)+1)
	widths := make([]int, len(columns))
	for j, c := range columns {
		rows[0] = append(rows[0], c.Heading)
		widths[j] = utf8.RuneCountInString(c.Heading)
		for i := range list {
			cell := Clean(c.Cell(&list[i]))
			rows[i+1] = append(rows[i+1], cell)
			widths[j] = max(widths[j], utf8.RuneCountInString(cell))
		}
	}
	lines := make([]string, 0, len(rows))
	for i, row := range rows {
		var b strings.Builder
		for j, cell := range row {
			space := strings.Repeat(" ", widths[j]+gap-utf8.RuneCountInString(cell))
			if p := columns[j].Paint; painted && i > 0 && p != nil && p(&list[i-1]) != noPaint {
				cell = string(p(&list[i-1])) + cell + unpaint
			}
			b.WriteString(cell + space)
		}
		lines = append(lines, strings.TrimRight(b.String(), " "))
	}
	return lines
}

// Changes writes a list whenever it changed, as far as it changed.
type Changes[T any] struct {
	view   *View[T]
	format *Format
	seen   map[string]string
	headed bool
}

// Changes returns a writer of a changing list.
func (v *View[T]) Changes(f *Format) *Changes[T] {
	return &Changes[T]{view: v, format: f, seen: make(map[string]string)}
}

// Write writes the things that are new, that changed, or that are gone since the
// last time. For programs each is one object on a line (or one document of
// YAML); one that is gone has the member "gone".
func (c *Changes[T]) Write(w io.Writer, list []T) error {
	var changed []T
	left := make(map[string]string, len(list))
	for i := range list {
		name := c.view.Name(&list[i])
		data, err := json.Marshal(c.view.Object(&list[i]), json.Deterministic(true))
		if err != nil {
			return errors.Wrapf(err, "compare %s", name)
		}
		if left[name] = string(data); c.seen[name] != left[name] {
			changed = append(changed, list[i])
		}
	}
	var gone []string
	for name := range c.seen {
		if _, there := left[name]; !there {
			gone = append(gone, name)
		}
	}
	c.seen = left
	if c.format.Data() {
		return c.objects(w, changed, gone)
	}
	return c.rows(w, list, changed, gone)
}

func (c *Changes[T]) objects(w io.Writer, changed []T, gone []string) error {
	var all []any
	for i := range changed {
		all = append(all, c.view.Object(&changed[i]))
	}
	for _, name := range gone {
		all = append(all, map[string]any{c.view.Member: name, "gone": true})
	}
	for _, v := range all {
		write := func() error { return writeJSON(w, v) }
		if c.format.Is(YAML) {
			if _, err := io.WriteString(w, "---\n"); err != nil {
				return errors.Wrap(err, "write the output")
			}
			write = func() error { return writeYAML(w, v) }
		}
		if err := write(); err != nil {
			return err
		}
	}
	return nil
}

// rows writes the changed rows in columns as wide as those of the whole list.
func (c *Changes[T]) rows(w io.Writer, list, changed []T, gone []string) error {
	if c.format.Is(Name) {
		return c.view.Write(w, c.format, changed)
	}
	of := make(map[string]bool, len(changed))
	for i := range changed {
		of[c.view.Name(&changed[i])] = true
	}
	var b strings.Builder
	for i, line := range c.view.lines(c.format, list, paints(w)) {
		if i == 0 && !c.headed || i > 0 && of[c.view.Name(&list[i-1])] {
			b.WriteString(line + "\n")
		}
	}
	c.headed = true
	for _, name := range gone {
		b.WriteString(Clean(name) + strings.Repeat(" ", gap) + "gone\n")
	}
	_, err := io.WriteString(w, b.String())
	return errors.Wrap(err, "write the output")
}
