package show

import (
	"cmp"
	"strconv"
	"strings"
	"time"

	"github.com/toolfleet/toolfleet/projections"
	"github.com/toolfleet/toolfleet/projections/kvview"
	"github.com/toolfleet/toolfleet/projections/shape"
)

// ReadServers returns the servers that a fleet has, and those that it had and
// that still run, in the order of their ids.
func ReadServers(r *kvview.Reader) []projections.Status {
	var list []projections.Status
	waiting := Waiting(r)
	for _, e := range r.Servers() {
		if n, ok := r.Status(e.Value.ID); ok && n.State != projections.Withdrawn {
			n.Waiting = waiting[n.ID]
			list = append(list, n)
		}
	}
	return list
}

// Servers is the view of servers.
var Servers = &View[projections.Status]{
	Name:   func(s *projections.Status) string { return string(s.ID) },
	Member: "id",
	Object: func(s *projections.Status) any { return shape.NewServer(s) },
	None:   "the fleet has no servers",
	Columns: []Column[projections.Status]{
		{Heading: "SERVER", Cell: func(s *projections.Status) string { return string(s.ID) }},
		{
			Heading: "STATE",
			Cell:    func(s *projections.Status) string { return string(s.State) },
			Paint:   func(s *projections.Status) paint { return ofState(s.State) },
		},
		{Heading: "STATUS", Wide: true, Cell: func(s *projections.Status) string { return string(s.Status) }},
		{Heading: "WANT", Wide: true, Cell: func(s *projections.Status) string { return string(s.Want) }},
		{Heading: "TOOLS", Cell: func(s *projections.Status) string { return strconv.Itoa(s.Tools) }},
		{Heading: "WORKER", Cell: func(s *projections.Status) string { return string(s.Worker) }},
		{Heading: "EPOCH", Wide: true, Cell: func(s *projections.Status) string { return number(int(s.Epoch)) }},
		{Heading: "PROCESS", Wide: true, Cell: func(s *projections.Status) string { return cmp.Or(s.URL, number(s.PID)) }},
		{Heading: "PROTOCOL", Wide: true, Cell: func(s *projections.Status) string { return s.Protocol }},
		{Heading: "RESTARTS", Cell: func(s *projections.Status) string { return strconv.Itoa(s.Restarts) }},
		{Heading: "CHANGED", Wide: true, Cell: func(s *projections.Status) string { return moment(s.Changed) }},
		{Heading: "SOURCE", Wide: true, Cell: func(s *projections.Status) string { return sourceOf(s) }},
		{Heading: "WAITING", Wide: true, Cell: func(s *projections.Status) string { return s.Waiting }},
		{Heading: "FAILURE", Cell: troubleOf},
	},
}

// troubleOf returns why a server does not work as it should, or why it waits, or
// nothing.
func troubleOf(s *projections.Status) string {
	if f := failureOf(s); f != "" || s.Waiting == "" || s.State.Working() {
		return f
	}
	return cut("waits: "+s.Waiting, failureWidth)
}

// failureOf returns why a server does not work as it should, or nothing.
func failureOf(s *projections.Status) string {
	f := s.Failure
	if f == nil {
		return ""
	}
	return cut(strings.TrimSuffix(string(f.Code)+": "+f.Message, ": "), failureWidth)
}

func sourceOf(s *projections.Status) string {
	if s.Source == nil {
		return ""
	}
	return cmp.Or(s.Source.Path, s.Source.Provider)
}

// number returns n, or nothing for 0.
func number(n int) string {
	if n == 0 {
		return ""
	}
	return strconv.Itoa(n)
}

// moment returns a time for people, or nothing for none.
func moment(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.Local().Format(time.DateTime)
}

// ServerLine returns a server's state as one line for people.
func ServerLine(s *projections.Status) string {
	line := pad(string(s.ID), 20) + "  " + pad(string(s.State), 13)
	if s.State.Working() {
		line += "  " + Count(s.Tools, "tool")
	}
	if why := troubleOf(s); why != "" {
		line += "  " + why
	}
	return Clean(strings.TrimRight(line, " "))
}

// failureWidth is how much of a failure fits a table.
const failureWidth = 80
