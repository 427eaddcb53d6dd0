package projections

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/toolfleet/toolfleet/events"
)

// ids reads "server.tool" pairs.
func ids(pairs ...string) (tools []ToolID) {
	for _, p := range pairs {
		server, tool, _ := strings.Cut(p, ".")
		tools = append(tools, ToolID{events.ServerID(server), tool})
	}
	return tools
}

// M14
func TestNamesOnCollision(t *testing.T) {
	for _, tt := range []struct {
		what        string
		tools, want []string
	}{
		{"one server each", []string{"a.search", "b.fetch"}, []string{"search", "fetch"}},
		{"two servers", []string{"a.search", "a.fetch", "b.search"}, []string{"a__search", "fetch", "b__search"}},
		{"in the other order", []string{"b.search", "a.search", "a.fetch"}, []string{"b__search", "a__search", "fetch"}},
		{"told twice", []string{"a.search", "a.search"}, []string{"search", "search"}},
		{
			"a tool that is called like another's qualified name",
			[]string{"a.x", "b.x", "c.a__x"},
			[]string{"a__x_hrodlz3iqfechny6l", "b__x", "a__x"},
		},
		{
			"several tools that are",
			[]string{"a.x", "b.x", "c.a__x", "d.a__x"},
			[]string{"a__x_hrodlz3iqfechny6l", "b__x", "c__a__x", "d__a__x"},
		},
		{
			"no model API takes them",
			[]string{"a.read file", "b.", "c." + strings.Repeat("x", 65)},
			[]string{"a__read_file_hhcdq6lhc4fuylgcb", "b___hdzl3sm5qu6bahyq5", "c__" + strings.Repeat("x", 43) + "_hisemglfa43kdt7p3"},
		},
		{
			"a tool that is called like one with a hash",
			[]string{"a.read file", "b.a__read_file_hhcdq6lhc4fuylgcb"},
			[]string{"a__read_file_hchbos4ye6rllhvn5", "b__a__read_file_hhcdq6lhc4fuylgcb_hnv65cdbgyfk34tx3"},
		},
	} {
		var got []string
		for _, n := range OnCollision.Names(ids(tt.tools...), nil) {
			got = append(got, n.Name)
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.what, diff)
		}
	}
}

// case M5: a name that the host keeps for itself is not given to a tool, and what
// it would have been is told.
func TestReservedNames(t *testing.T) {
	for _, tt := range []struct {
		scheme   Scheme
		tools    []string
		reserved []string
		want     []ToolName
	}{
		{OnCollision, []string{"a.browser", "b.x"}, []string{"browser"}, []ToolName{{"a__browser", "browser"}, {Name: "x"}}},
		{OnCollision, []string{"a.x", "b.x"}, []string{"x"}, []ToolName{{Name: "a__x"}, {Name: "b__x"}}},
		{OnCollision, []string{"a.x"}, []string{"x", "a__x"}, []ToolName{{"a__x_hrodlz3iqfechny6l", "x"}}},
		{Prefixed, []string{"a.x"}, []string{"mcp_a_x"}, []ToolName{{"a__x", "mcp_a_x"}}},
		{ // another tool has the qualified name
			Prefixed,
			[]string{"mcp_a.b", "a._b"},
			[]string{"mcp_mcp_a_b_h4ot7yfxkwtebqa3f"},
			[]ToolName{{"mcp_a__b_h4ot7yfxkwtebqa3f", "mcp_mcp_a_b_h4ot7yfxkwtebqa3f"}, {Name: "mcp_a__b"}},
		},
		{Qualified, []string{"a.x", "b.x"}, []string{"a__x"}, []ToolName{{"a__x_hrodlz3iqfechny6l", "a__x"}, {Name: "b__x"}}},
		{ // reserved again and again
			Qualified, []string{"a.x"}, []string{"a__x", "a__x_hrodlz3iqfechny6l"}, []ToolName{{"a__x_h7gdv6kqvtqudqkgg", "a__x"}},
		},
	} {
		if diff := cmp.Diff(tt.want, tt.scheme.Names(ids(tt.tools...), tt.reserved)); diff != "" {
			t.Errorf("%v %v without %v (-want +got):\n%s", tt.scheme, tt.tools, tt.reserved, diff)
		}
	}
}

var schemes = []Scheme{Qualified, Prefixed, OnCollision}

// someTools draws tools of few servers, whose names are near each other's and each
// other's exposed names.
func someTools(t *rapid.T) []ToolID {
	var tools []ToolID
	for range rapid.IntRange(1, 12).Draw(t, "tools") {
		server, tool := somePair(t)
		if rapid.Bool().Draw(t, "short") {
			server = rapid.SampledFrom([]events.ServerID{"a", "b", "a_", "mcp_a"}).Draw(t, "short server")
			tool = rapid.SampledFrom([]string{"x", "_x", "a__x", "b__x", "mcp_a_x", "x y"}).Draw(t, "short tool")
		}
		if len(tools) > 0 && rapid.Bool().Draw(t, "forged") { // what another is or may be called
			other := tools[rapid.IntRange(0, len(tools)-1).Draw(t, "other")]
			scheme := rapid.SampledFrom(schemes).Draw(t, "scheme")
			tool = rapid.SampledFrom([]string{
				other.Tool, scheme.Name(other.Server, other.Tool), hashed(scheme.Name(other.Server, other.Tool), other, 0),
			}).Draw(t, "forgery")
		}
		tools = append(tools, ToolID{server, tool})
	}
	return tools
}

// checkNames checks what holds of the names of one list.
func checkNames(t interface{ Fatalf(string, ...any) }, scheme Scheme, tools []ToolID, reserved []string) {
	names := scheme.Names(tools, reserved)
	owners := make(map[string]ToolID)
	called := make(map[ToolID]ToolName)
	own := make(map[string]int)
	for i, tool := range tools {
		n := names[i]
		switch o, taken := owners[n.Name]; {
		case !legalName.MatchString(n.Name):
			t.Fatalf("%v: %q is no legal name", scheme, n.Name)
		case taken && o != tool:
			t.Fatalf("%v: %+v and %+v are both named %s", scheme, tool, o, n.Name)
		case slices.Contains(reserved, n.Name):
			t.Fatalf("%v: %+v is named %s, which is reserved", scheme, tool, n.Name)
		case n.Reserved != "" && !slices.Contains(reserved, n.Reserved):
			t.Fatalf("%v: %+v is not named %s, which is free", scheme, tool, n.Reserved)
		}
		if _, again := called[tool]; !again {
			own[tool.Tool]++
		}
		owners[n.Name], called[tool] = tool, n
	}
	for tool, n := range called {
		if bare := n.Name == tool.Tool; scheme == OnCollision && isLegal(tool.Tool) && !slices.Contains(reserved, tool.Tool) && bare != (own[tool.Tool] == 1) {
			t.Fatalf("%+v, which %d servers list, is named %s", tool, own[tool.Tool], n.Name)
		}
		if other := owners[n.Name]; scheme == OnCollision && n.Name != tool.Tool && own[n.Name] > 0 {
			t.Fatalf("%+v has the name %s, as servers call another tool: %+v", tool, n.Name, other)
		}
	}
	shuffled := slices.Clone(tools)
	rand.New(rand.NewPCG(1, 2)).Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
	for i, n := range scheme.Names(shuffled, reserved) {
		if n != called[shuffled[i]] {
			t.Fatalf("%v: %+v is %+v, and in another order %+v", scheme, shuffled[i], called[shuffled[i]], n)
		}
	}
}

// M14, R18, case M5: legal, injective, never reserved, the same in any order, and
// a tool's own name exactly if no other server has it.
func TestNamesOfLists(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tools := someTools(t)
		scheme := rapid.SampledFrom(schemes).Draw(t, "scheme")
		var reserved []string
		for range rapid.IntRange(0, 3).Draw(t, "reserved") {
			names := scheme.Names(tools, reserved)
			reserved = append(reserved, names[rapid.IntRange(0, len(names)-1).Draw(t, "which")].Name)
		}
		checkNames(t, scheme, tools, reserved)
	})
}

func FuzzNames(f *testing.F) {
	f.Add("a.x\nb.x\nc.a__x", "a__x")
	f.Add("a.read file\nb.a__read_file_hhcdq6lhc4fuylgcb", "x")
	f.Add("mcp_a._b\na._b", "mcp_mcp_a__b\nmcp_a__b")
	f.Fuzz(func(t *testing.T, list, reserved string) {
		var tools []ToolID
		for _, tool := range ids(strings.Split(list, "\n")...) {
			if _, err := events.ParseServerID(string(tool.Server)); err == nil {
				tools = append(tools, tool)
			}
		}
		for _, scheme := range schemes {
			checkNames(t, scheme, tools, strings.Split(reserved, "\n"))
		}
	})
}
