package show

import (
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/cockroachdb/errors"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/toolfleet/toolfleet/projections/story"
)

// Answer writes why something is as it is.
func Answer(w io.Writer, f *Format, a *story.Answer) error {
	if f.Data() {
		return f.Write(w, a)
	}
	p := &prose{}
	p.heading(a.Summary)
	for i := range a.Because {
		s := &a.Because[i]
		line := pad(strconv.FormatUint(uint64(s.Seq), 10), 6) + "  " + s.Time.UTC().Format(time.DateTime) + "  " + s.Text
		if s.Actor != "" {
			line += ", by " + s.Actor
		}
		p.line(strings.TrimSpace(line + " " + quotedWords(s.Reason)))
	}
	if a.Help != "" {
		p.line("what helps: " + a.Help)
	}
	_, err := io.WriteString(w, p.b.String())
	return errors.Wrap(err, "write the output")
}

// difference is one row of a difference between two moments.
type difference struct {
	kind, name, change, member, from, to string
}

// Difference writes what is different between two moments; nothing, if nothing is.
func Difference(w io.Writer, f *Format, d *story.Difference) error {
	if f.Data() {
		return f.Write(w, d)
	}
	return differences.Write(w, NewFormat(), rowsOf(d))
}

// None says whether nothing is different.
func None(d *story.Difference) bool { return len(d.Servers)+len(d.Tools)+len(d.Workers) == 0 }

var differences = &View[difference]{
	Name: func(d *difference) string { return d.name },
	Columns: []Column[difference]{
		{Heading: "WHAT", Cell: func(d *difference) string { return d.kind }},
		{Heading: "NAME", Cell: func(d *difference) string { return d.name }},
		{Heading: "CHANGE", Cell: func(d *difference) string { return d.change }, Paint: func(d *difference) paint {
			switch story.Change(d.change) {
			case story.Added:
				return green
			case story.Removed:
				return red
			default:
				return yellow
			}
		}},
		{Heading: "MEMBER", Cell: func(d *difference) string { return d.member }},
		{Heading: "FROM", Cell: func(d *difference) string { return cut(d.from, valueWidth) }},
		{Heading: "TO", Cell: func(d *difference) string { return cut(d.to, valueWidth) }},
	},
}

// valueWidth is how much of a value fits a table.
const valueWidth = 40

func rowsOf(d *story.Difference) (rows []difference) {
	for i := range d.Servers {
		c := &d.Servers[i]
		rows = append(rows, memberRows("server", string(c.ID), c.Change, c.Fields)...)
		if c.Restarts != 0 {
			rows = append(rows, difference{"server", string(c.ID), string(c.Change), "restarts", "", "+" + strconv.Itoa(c.Restarts)})
		}
	}
	for i := range d.Tools {
		c := &d.Tools[i]
		name := c.Name
		if c.Change == story.Unreadable {
			name = "tools of " + string(c.Server)
		}
		rows = append(rows, difference{kind: "tool", name: name, change: string(c.Change)})
	}
	for i := range d.Workers {
		c := &d.Workers[i]
		rows = append(rows, memberRows("worker", string(c.ID), c.Change, c.Fields)...)
		if c.Joins > 0 {
			rows = append(rows, difference{"worker", string(c.ID), string(c.Change), "starts", "", "+" + strconv.Itoa(c.Joins)})
		}
	}
	return rows
}

// memberRows returns a row for each member that changed; one for what is there or
// not as a whole.
func memberRows(kind, name string, c story.Change, fields []story.FieldChange) (rows []difference) {
	if c != story.Changed {
		return []difference{{kind: kind, name: name, change: string(c)}}
	}
	for _, f := range fields {
		rows = append(rows, difference{kind, name, string(c), f.Name, plain(f.From), plain(f.To)})
	}
	return rows
}

// plain returns a JSON value for people: text without its quotes, and nothing for
// null.
func plain(v jsontext.Value) string {
	if v.Kind() == '"' {
		text, err := jsontext.AppendUnquote(nil, v)
		if err == nil {
			return string(text)
		}
	}
	return strings.TrimPrefix(string(v), "null")
}
