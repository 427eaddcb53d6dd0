package show

import (
	"io"
	"strconv"
	"strings"

	"github.com/cockroachdb/errors"

	"github.com/toolfleet/toolfleet/projections"
	"github.com/toolfleet/toolfleet/projections/kvview"
)

// ReadServers returns the servers that a fleet has, and those that it had and
// that still run, in the order of their ids.
func ReadServers(r *kvview.Reader) []projections.Status {
	var list []projections.Status
	for _, e := range r.Servers() {
		if n, ok := r.Status(e.Value.ID); ok && n.State != projections.Withdrawn {
			list = append(list, n)
		}
	}
	return list
}

// ServersJSON writes servers as a JSON array of [projections.Status].
func ServersJSON(w io.Writer, servers []projections.Status) error {
	if servers == nil {
		servers = []projections.Status{}
	}
	return writeList(w, servers)
}

// Servers writes servers as a table for people.
func Servers(w io.Writer, servers []projections.Status) error {
	if len(servers) == 0 {
		_, err := io.WriteString(w, "the fleet has no servers\n")
		return errors.Wrap(err, "write the output")
	}
	rows := [][]string{{"SERVER", "STATE", "TOOLS", "WORKER", "RESTARTS", "FAILURE"}}
	for i := range servers {
		rows = append(rows, serverRow(&servers[i]))
	}
	return writeTable(w, rows)
}

func serverRow(s *projections.Status) []string {
	return []string{
		string(s.ID), string(s.State), strconv.Itoa(s.Tools), string(s.Worker), strconv.Itoa(s.Restarts), failureOf(s),
	}
}

// failureOf returns why a server does not work as it should, or nothing.
func failureOf(s *projections.Status) string {
	f := s.Failure
	if f == nil {
		return ""
	}
	return cut(strings.TrimSuffix(string(f.Code)+": "+f.Message, ": "), failureWidth)
}

// ServerLine returns a server's state as one line for people.
func ServerLine(s *projections.Status) string {
	line := pad(string(s.ID), 20) + "  " + pad(string(s.State), 13)
	if s.State.Working() {
		line += "  " + strconv.Itoa(s.Tools) + " tools"
	}
	if why := failureOf(s); why != "" {
		line += "  " + why
	}
	return Clean(strings.TrimRight(line, " "))
}

// failureWidth is how much of a failure fits a table.
const failureWidth = 80
