package projections

import (
	"regexp"
	"testing"

	"pgregory.net/rapid"

	"github.com/toolfleet/toolfleet/events"
)

// R18
func TestNames(t *testing.T) {
	tests := []struct {
		scheme Scheme
		server events.ServerID
		tool   string
		want   string
	}{
		{Qualified, "github", "create_issue", "github__create_issue"},
		{Qualified, "a", "b__c", "a__b__c"},
		{Qualified, "a__b", "c", "a__b__c_hvetqbtwsql4ovbvl"},
		{Qualified, "a_", "b", "a___b_huadwni3y3shtifke"},
		{Qualified, "a", "_b", "a___b"},
		{Qualified, "fs", "read file", "fs__read_file_h7zlibxsedm2jq454"},
		{Qualified, "fs", "", "fs___h4t2clyoabxfvjqgd"},
		{Qualified, "fs", "überschrift", "fs___berschrift_hzgkfjvyyztpwhmo5"},
		{Prefixed, "github", "create_issue", "mcp_github_create_issue"},
		{Prefixed, "my_github", "create", "mcp_my_github_create_hcx3h7g4hwmnnapq2"},
	}
	for _, tt := range tests {
		if got := tt.scheme.Name(tt.server, tt.tool); got != tt.want {
			t.Errorf("%s and %q: %s, want %s", tt.server, tt.tool, got, tt.want)
		}
	}
}

var legalName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

// somePair draws ids and names that are near each other: short, long, and full
// of separators.
func somePair(t *rapid.T) (events.ServerID, string) {
	server := rapid.OneOf(
		rapid.StringMatching(`[a_]{1,4}`), rapid.StringMatching(`[A-Za-z0-9_-]{1,128}`),
	).Draw(t, "server")
	tool := rapid.OneOf(
		rapid.StringMatching(`[a_]{0,4}`), rapid.StringMatching(`[A-Za-z0-9_-]{1,80}`),
		rapid.StringMatching(`a_h[a-z2-7]{16}`), rapid.String(),
	).Draw(t, "tool")
	return events.ServerID(server), tool
}

// R18: legal, injective, and stable, over 10,000 pairs in one list.
func TestNamesAreLegalAndInjective(t *testing.T) {
	for _, scheme := range []Scheme{Qualified, Prefixed} {
		type pair struct {
			server events.ServerID
			tool   string
		}
		owners := make(map[string]pair)
		pairs := rapid.Custom(func(t *rapid.T) pair {
			server, tool := somePair(t)
			return pair{server, tool}
		})
		for n := range 10_000 {
			p := pairs.Example(n)
			name := scheme.Name(p.server, p.tool)
			if !legalName.MatchString(name) {
				t.Fatalf("%q is no legal name", name)
			}
			if scheme.Name(p.server, p.tool) != name {
				t.Fatalf("%+v has two names", p)
			}
			if o, taken := owners[name]; taken && o != p {
				t.Fatalf("%+v and %+v are both named %s", o, p, name)
			}
			owners[name] = p
		}
	}
}

// A tool that is named like another's name with its hash does not get it.
func TestNamesCannotBeForged(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		server, tool := somePair(t)
		for _, scheme := range []Scheme{Qualified, Prefixed} {
			name := scheme.Name(server, tool)
			for at := 1; at < len(name); at++ {
				forger, forged := events.ServerID(name[:at]), name[at:]
				for range 3 { // with the separator's characters cut from the front
					if (forger != server || forged != tool) && scheme.Name(forger, forged) == name {
						t.Fatalf("%s %q and %s %q are both named %s", server, tool, forger, forged, name)
					}
					if forged == "" {
						break
					}
					forged = forged[1:]
				}
			}
		}
	})
}
