package local

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/cockroachdb/errors"

	"github.com/toolfleet/toolfleet/cmd/internal/show"
	"github.com/toolfleet/toolfleet/controller/client"
	"github.com/toolfleet/toolfleet/controller/discovery"
	"github.com/toolfleet/toolfleet/events"
)

// Servers are servers to declare, and what is to be said about where they come
// from.
type Servers struct {
	entries []discovery.Entry
	// notes are about the file, one a line.
	notes []string
}

// FromFile reads a configuration file. An entry that cannot be accepted is left
// out, with a note.
func FromFile(path string) (Servers, error) {
	f, err := discovery.ReadFile(path)
	if err != nil {
		return Servers{}, err
	}
	s := Servers{entries: f.Entries}
	for _, r := range f.Rejected {
		s.notes = append(s.notes, fmt.Sprintf("%s:%d: left out: %v", path, r.Line, &r))
	}
	for _, w := range f.Warnings {
		s.notes = append(s.notes, fmt.Sprintf("%s:%d: %s", path, w.Line, w.Message))
	}
	if len(s.entries) == 0 {
		s.notes = append(s.notes, path+" has no server that can run")
	}
	return s, nil
}

// ExampleID is the id of the example server.
const ExampleID events.ServerID = "example"

// Example is the example server: this program once more, as a child.
func Example() (Servers, error) {
	program, err := os.Executable()
	if err != nil {
		return Servers{}, errors.Wrap(err, "find this program, which is the example server")
	}
	return Servers{entries: []discovery.Entry{{
		ID: ExampleID,
		Definition: events.Definition{
			Command: program, Args: []string{"example-server"},
			Source: &events.Source{Provider: "example", Name: "Example"},
		},
	}}}, nil
}

// names returns the servers' ids for people.
func (s *Servers) names() string {
	ids := make([]string, 0, len(s.entries))
	for _, e := range s.entries {
		ids = append(ids, string(e.ID))
	}
	return strings.Join(ids, ", ")
}

// declare declares the servers and returns the last event that this caused. A
// server that is refused is told of and does not keep the others.
func (f *fleet) declare(ctx context.Context) (last events.Seq, err error) {
	secrets, err := f.controller.Secrets(ctx)
	if err != nil {
		return 0, err
	}
	c := client.New(f.controller.Conn(), f.Fleet, &client.Options{Secrets: secrets})
	for _, e := range f.Servers.entries {
		answer, err := c.Declare(ctx, e.ID, &e.Definition, nil)
		switch {
		case err == nil:
			last = max(last, answer.Seq)
		case ctx.Err() != nil:
			return 0, err
		default:
			fmt.Fprintf(show.Terminal(f.Out), "server %s was refused: %v\n", e.ID, err)
		}
	}
	return last, nil
}
