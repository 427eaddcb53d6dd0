package local

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/cockroachdb/errors"

	"github.com/toolfleet/toolfleet/cmd/internal/show"
	"github.com/toolfleet/toolfleet/controller/client"
	"github.com/toolfleet/toolfleet/controller/discovery"
	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/projections/kvview"
)

// Servers are servers to declare, and what is to be said about where they come
// from.
type Servers struct {
	entries []discovery.Entry
	// kept are ids that the source names, but that are not declared: their
	// servers stay what they are.
	kept []events.ServerID
	// source is where all of them come from.
	source events.Source
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
	s := Servers{entries: f.Entries, source: events.Source{Provider: discovery.Provider, Path: f.Path}}
	for _, r := range f.Rejected {
		s.kept = append(s.kept, r.ID)
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
	source := events.Source{Provider: "example", Name: "Example"}
	return Servers{source: source, entries: []discovery.Entry{{
		ID: ExampleID,
		Definition: events.Definition{
			Command: program, Args: []string{"example-server"}, Source: &source,
		},
	}}}, nil
}

// has says whether the source names that server.
func (s *Servers) has(id events.ServerID) bool {
	return slices.Contains(s.kept, id) ||
		slices.ContainsFunc(s.entries, func(e discovery.Entry) bool { return e.ID == id })
}

// declaredBefore says whether a definition came from the same source.
func (s *Servers) declaredBefore(d *events.Definition) bool {
	return d.Source != nil && d.Source.Provider == s.source.Provider && d.Source.Path == s.source.Path
}

// names returns the servers' ids for people.
func (s *Servers) names() string {
	ids := make([]string, 0, len(s.entries))
	for _, e := range s.entries {
		ids = append(ids, string(e.ID))
	}
	return strings.Join(ids, ", ")
}

func (f *fleet) client(secrets client.Secrets) *client.Client {
	return client.New(f.controller.Conn(), f.Fleet, &client.Options{Secrets: secrets})
}

// withdraw withdraws what an earlier start declared from the same source, and
// the source has no longer; it says what else the fleet has.
func (f *fleet) withdraw(ctx context.Context, r *kvview.Reader) (last events.Seq, err error) {
	out := show.Terminal(f.Out)
	for _, e := range r.Servers() {
		s := &e.Value
		switch {
		case !s.Exists() || f.Servers.has(s.ID):
		case f.Servers.declaredBefore(s.Definition):
			answer, err := f.client(nil).Withdraw(ctx, s.ID, &client.RequestOptions{Reason: "it is not in the file any more"})
			if err != nil {
				return 0, err
			}
			last = max(last, answer.Seq)
			fmt.Fprintf(out, "server %s is not in the file any more: withdrawn\n", s.ID)
		default:
			fmt.Fprintf(out, "server %s goes on from an earlier start\n", s.ID)
		}
	}
	return last, nil
}

// declare declares the servers and returns the last event that this caused. A
// server that is refused is told of and does not keep the others.
func (f *fleet) declare(ctx context.Context) (last events.Seq, err error) {
	secrets, err := f.controller.Secrets(ctx)
	if err != nil {
		return 0, err
	}
	c := f.client(secrets)
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
