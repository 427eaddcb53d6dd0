package files

import (
	"cmp"
	"context"
	"fmt"
	"regexp"
	"slices"

	"github.com/go-json-experiment/json"

	"github.com/toolfleet/toolfleet/controller/client"
	"github.com/toolfleet/toolfleet/controller/discovery"
	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/projections"
	"github.com/toolfleet/toolfleet/projections/story"
)

// Step is what a source asks for about one server.
type Step struct {
	ID events.ServerID
	// Entry is to be declared; nil for a server that is to be withdrawn.
	Entry *discovery.Entry
	// New says that the fleet has no such server; of others Changed names the
	// members that differ. Values of secrets are not compared.
	New     bool
	Changed []string
	// Err says why the entry cannot be declared.
	Err error
}

// Plan compares sources with what a fleet has: every entry is declared, and a
// server that was declared from one of the sources, and that none names any more,
// is withdrawn.
func Plan(sources []Servers, fleet []*projections.Server) []Step {
	has := make(map[events.ServerID]*projections.Server)
	for _, s := range fleet {
		if s.Exists() {
			has[s.ID] = s
		}
	}
	var steps []Step
	for i := range sources {
		for j := range sources[i].Entries {
			e := &sources[i].Entries[j]
			step := Step{ID: e.ID, Entry: e, New: has[e.ID] == nil}
			if !step.New {
				step.Changed, step.Err = changed(e.ID, has[e.ID].Definition, &e.Definition)
			}
			steps = append(steps, step)
		}
	}
	for _, s := range fleet {
		if s.Exists() && Withdrawn(sources, s) {
			steps = append(steps, Step{ID: s.ID})
		}
	}
	return steps
}

// Withdrawn says whether a server came from one of the sources, and none names
// it any more.
func Withdrawn(sources []Servers, s *projections.Server) bool {
	return slices.ContainsFunc(sources, func(x Servers) bool { return x.DeclaredBefore(s.Definition) }) &&
		!slices.ContainsFunc(sources, func(x Servers) bool { return x.Has(s.ID) })
}

// Remarks says, one a line, what a plan does to servers that somebody may not
// expect: it takes them over from where they were declared, or leaves them what
// they are because their entry cannot be accepted.
func Remarks(sources []Servers, fleet []*projections.Server) []string {
	var lines []string
	for _, s := range fleet {
		if !s.Exists() {
			continue
		}
		for i := range sources {
			if line := sources[i].remark(s); line != "" {
				lines = append(lines, line)
			}
		}
	}
	return lines
}

func (s *Servers) remark(n *projections.Server) string {
	switch {
	case slices.ContainsFunc(s.Entries, func(e discovery.Entry) bool { return e.ID == n.ID }):
		if s.DeclaredBefore(n.Definition) {
			return ""
		}
		from := "without a file"
		if d := n.Definition.Source; d != nil {
			from = "from " + cmp.Or(d.Path, d.Provider)
		}
		return fmt.Sprintf("server %s was declared %s; it becomes one of %s", n.ID, from, s.Source.Path)
	case !s.Has(n.ID):
		return ""
	case n.Wanted() == events.Running:
		return fmt.Sprintf("server %s keeps running as it was declared before", n.ID)
	default:
		return fmt.Sprintf("server %s stays as it was declared before, and is not to run", n.ID)
	}
}

// changed returns the members in which a definition would differ from the one in
// force.
func changed(id events.ServerID, from, to *events.Definition) ([]string, error) {
	moved, _, err := client.MoveSecrets(context.Background(), id, to, pretended{})
	if err != nil {
		return nil, err
	}
	return story.ChangedMembers(bare(from), bare(moved)), nil
}

// pretended is a store of secrets that stores nothing.
type pretended struct{}

func (pretended) Put(_ context.Context, server events.ServerID, key, _ string) (string, error) {
	return "${secret:" + string(server) + "/" + key + "#1}", nil
}

var version = regexp.MustCompile(`#[0-9]+\}`)

// bare returns a definition without what does not count: the versions of its
// secrets, and the line that it was found in.
func bare(d *events.Definition) *events.Definition {
	data, err := json.Marshal(d)
	if err != nil {
		return d // unreachable unless it is no valid definition
	}
	var n events.Definition
	if err := json.Unmarshal(version.ReplaceAll(data, []byte("#1}")), &n); err != nil {
		return d // unreachable: it was just written
	}
	if n.Source != nil {
		n.Source.Line = 0
	}
	return &n
}
