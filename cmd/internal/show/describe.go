package show

import (
	"cmp"
	"fmt"
	"io"
	"strings"

	"github.com/cockroachdb/errors"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/projections"
	"github.com/toolfleet/toolfleet/projections/shape"
)

// Description is all there is to know of a server, and the JSON shape of that.
type Description struct {
	Status     any        `json:"status"`
	Definition Definition `json:"definition"`
	// Tools are the names of the server's own.
	Tools []string `json:"tools"`
	// Events are the last ones about the server.
	Events []any `json:"events"`

	status projections.Status
	events []events.Record
}

// NewDescription returns the description of a server that the fleet has.
func NewDescription(n projections.Status, s *projections.Server, tools []string, last []events.Record) (*Description, error) {
	d := &Description{Status: Servers.Object(&n), Definition: NewDefinition(s), Tools: tools, Events: []any{}, status: n, events: last}
	for i := range last {
		e, err := shape.NewEvent(&last[i])
		if err != nil {
			return nil, err
		}
		d.Events = append(d.Events, &e)
	}
	return d, nil
}

// Write writes the description.
func (d *Description) Write(w io.Writer, f *Format) error {
	if f.Data() {
		return f.Write(w, d)
	}
	p := &prose{}
	d.server(p)
	d.definition(p)
	d.instances(p)
	if len(d.Tools) > 0 {
		p.heading(Count(len(d.Tools), "tool"))
		p.line(strings.Join(d.Tools, ", "))
	}
	return p.write(w, d.events)
}

// prose is text in sections, each line of which is cleaned.
type prose struct{ b strings.Builder }

func (p *prose) heading(text string) {
	if p.b.Len() > 0 {
		p.b.WriteString("\n")
	}
	p.b.WriteString(Clean(text) + "\n")
}

func (p *prose) line(text string) { p.b.WriteString("  " + strings.TrimRight(Clean(text), " ") + "\n") }

// pair writes a name with its value, unless that is empty.
func (p *prose) pair(name, value string) {
	if value != "" {
		p.line(fmt.Sprintf("%-12s%s", name, value))
	}
}

// write writes the text, and the last events below it.
func (p *prose) write(w io.Writer, last []events.Record) error {
	if len(last) > 0 {
		p.heading("last events")
	}
	if _, err := io.WriteString(w, p.b.String()); err != nil {
		return errors.Wrap(err, "write the output")
	}
	for i := range last {
		if err := eventLine(w, &last[i]); err != nil {
			return err
		}
	}
	return nil
}

func (d *Description) server(p *prose) {
	s := &d.status
	p.heading("server " + string(s.ID))
	p.pair("state", fmt.Sprintf("%s (%s), should be %s", s.State, s.Status, s.Want))
	if !s.Enabled {
		p.pair("", "disabled: toolfleet enable "+string(s.ID))
	}
	p.pair("tools", fmt.Sprintf("%d %s", s.Tools, s.ToolsState))
	p.pair("restarts", fmt.Sprintf("%d after failures", s.Restarts))
	p.pair("changed", strings.TrimSpace(moment(s.Changed)+" by "+cmp.Or(s.Actor, "nobody")+" "+quotedWords(s.Reason)))
	p.pair("waits", s.Waiting)
	p.pair("source", sourceOf(s))
	if s.Updating {
		p.pair("update", "neither settled nor rolled back yet")
	}
	if r := s.Rollback; r != nil {
		p.pair("rolled back", r.Failure.Error())
	}
	if s.Rejection != nil {
		for _, x := range s.Rejection.Reasons {
			p.pair("rejected", x.Message)
		}
	}
	d.failure(p, s.Failure)
}

func quotedWords(s string) string {
	if s == "" {
		return ""
	}
	return fmt.Sprintf("%q", s)
}

// failure says what failed, with what is known of it.
func (d *Description) failure(p *prose, f *projections.Fault) {
	if f == nil {
		return
	}
	p.pair("failure", f.Error())
	if f.Exit != nil {
		p.pair("", fmt.Sprintf("exit status %d", *f.Exit))
	}
	if f.Signal != "" {
		p.pair("", "signal "+f.Signal)
	}
	if e, ok := events.Explain(f.Code); ok {
		p.pair("", e.WayOut)
	}
	if f.StderrTail == "" {
		return
	}
	p.pair("stderr", "its end:")
	for line := range strings.Lines(strings.TrimSpace(f.StderrTail)) {
		p.pair("", "| "+strings.TrimRight(line, "\n"))
	}
}

func (d *Description) definition(p *prose) {
	p.heading("definition " + short(d.Definition.Digest))
	data, err := json.Marshal(d.Definition.Definition, json.Deterministic(true), jsontext.WithIndent("  "))
	if err != nil {
		return // unreachable: it was read
	}
	for line := range strings.Lines(string(data)) {
		p.b.WriteString("  " + Clean(strings.TrimRight(line, "\n")) + "\n")
	}
}

func (d *Description) instances(p *prose) {
	for i := range d.status.Instances {
		n := &d.status.Instances[i]
		p.heading("instance " + string(n.Instance))
		p.pair("state", fmt.Sprintf("%s since %s", n.State, moment(n.Since)))
		p.pair("worker", fmt.Sprintf("%s, epoch %d", n.Worker, n.Epoch))
		p.pair("process", number(n.PID))
		p.pair("url", n.URL)
		p.pair("protocol", n.Protocol)
		p.pair("attempts", number(n.Attempts))
		p.pair("waits for", n.Hint)
		if n.Next != nil {
			p.pair("next try", moment(n.Next.At))
		}
		if n.Failure == nil && n.LastFailure != nil {
			p.pair("last failure", moment(n.LastFailure.Time)+": "+n.LastFailure.Error())
		}
	}
}
