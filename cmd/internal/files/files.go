// Package files reads the servers that configuration files list, for commands
// that declare them, and finds the files of programs that have some.
package files

import (
	"fmt"
	"os"
	"slices"

	"github.com/cockroachdb/errors"

	"github.com/toolfleet/toolfleet/controller/discovery"
	"github.com/toolfleet/toolfleet/events"
)

// Servers are the servers of one source, and what is to be said about it.
type Servers struct {
	Entries []discovery.Entry
	// Rejected are the entries that cannot be accepted. Their servers stay what
	// they are.
	Rejected []discovery.Rejected
	// Source is where all of them come from.
	Source events.Source
	// Notes are about the source, one a line.
	Notes []string
}

// Read reads configuration files. An entry that cannot be accepted is left out,
// with a note; so is one whose id an earlier file has. A file that cannot be read
// as a whole is the error.
func Read(paths ...string) ([]Servers, error) {
	var all []Servers
	for _, path := range paths {
		s, err := read(path)
		if err != nil {
			return nil, err
		}
		for _, before := range all {
			s.Entries = slices.DeleteFunc(s.Entries, func(e discovery.Entry) bool {
				if !before.Has(e.ID) {
					return false
				}
				s.Notes = append(s.Notes, fmt.Sprintf("%s:%d: left out: server %q is in %s already", path, e.Line, e.Name, before.Source.Path))
				return true
			})
		}
		all = append(all, s)
	}
	return all, nil
}

func read(path string) (Servers, error) {
	f, err := discovery.ReadFile(path)
	if err != nil {
		return Servers{}, explain(err)
	}
	s := Servers{
		Entries: f.Entries, Rejected: f.Rejected,
		Source: events.Source{Provider: discovery.Provider, Path: f.Path},
	}
	for i := range f.Rejected {
		r := &f.Rejected[i]
		s.Notes = append(s.Notes, fmt.Sprintf("%s:%d: left out: %v", path, r.Line, r))
	}
	for _, w := range f.Warnings {
		s.Notes = append(s.Notes, fmt.Sprintf("%s:%d: %s", path, w.Line, w.Message))
	}
	if len(s.Entries) == 0 {
		s.Notes = append(s.Notes, path+" has no server that can run")
	}
	return s, nil
}

// explain shows the line that an error is about to whoever reads the file.
func explain(err error) error {
	var syntax *discovery.SyntaxError
	if errors.As(err, &syntax) && syntax.Text != "" {
		return errors.WithHintf(err, "%d | %s", syntax.Line, syntax.Text)
	}
	return err
}

// ExampleID is the id of the example server.
const ExampleID events.ServerID = "example"

// Example is the example server: this program once more, as a child.
func Example() (Servers, error) {
	program, err := os.Executable()
	if err != nil {
		return Servers{}, errors.Wrap(err, "find this program, which is the example server")
	}
	source := events.Source{Provider: "example", Name: "Example"}
	return Servers{Source: source, Entries: []discovery.Entry{{
		ID: ExampleID,
		Definition: events.Definition{
			Command: program, Args: []string{"example-server"}, Source: &source,
		},
	}}}, nil
}

// Has says whether the source names that server.
func (s *Servers) Has(id events.ServerID) bool {
	return slices.ContainsFunc(s.Rejected, func(r discovery.Rejected) bool { return r.ID == id }) ||
		slices.ContainsFunc(s.Entries, func(e discovery.Entry) bool { return e.ID == id })
}

// DeclaredBefore says whether a definition came from the same source.
func (s *Servers) DeclaredBefore(d *events.Definition) bool {
	return d.Source != nil && d.Source.Provider == s.Source.Provider && d.Source.Path == s.Source.Path
}
