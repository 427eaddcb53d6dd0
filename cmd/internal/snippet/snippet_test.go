package snippet_test

import (
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/BurntSushi/toml"
	"github.com/cockroachdb/errors"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"

	"github.com/toolfleet/toolfleet/cmd/internal/snippet"
	"github.com/toolfleet/toolfleet/controller/discovery"
	"github.com/toolfleet/toolfleet/events"
)

var update = flag.Bool("update", false, "write the golden files anew")

// fleets are the ways to reach one, each with what is awkward about it.
var fleets = map[string]snippet.Fleet{
	"stdio": {
		Name: "fleet-b", Command: "toolfleet", Args: []string{"mcp", "--context", `a "b" \c`, "--fleet", "b"},
		Env: map[string]string{"XDG_STATE_HOME": "/home/ann/état"},
	},
	"http":       {Name: "fleet", URL: "http://127.0.0.1:8377/mcp"},
	"http-token": {Name: "fleet", URL: "http://127.0.0.1:8377/mcp", Token: "THE-TOKEN"},
}

// Each client is told in a form that it reads, and the token is written only where
// it was given.
func TestSnippets(t *testing.T) {
	for way, fleet := range fleets {
		for _, client := range snippet.Clients() {
			t.Run(client+" "+way, func(t *testing.T) {
				s, err := snippet.For(client, &fleet)
				if client == "claude-desktop" && fleet.URL != "" {
					if !errors.Is(err, snippet.ErrNoHTTP) {
						t.Errorf("error %v", err)
					}
					return
				}
				if err != nil || s.File == "" {
					t.Fatalf("file %q, %v", s.File, err)
				}
				golden(t, filepath.Join("testdata", client+"-"+way+".txt"), s.Text)
				if strings.Contains(s.Text, "THE-TOKEN") != (fleet.Token != "") {
					t.Errorf("the token: %s", s.Text)
				}
				if asked := strings.Contains(s.Text, "promptString"); (s.Token || asked) != (way == "http") {
					t.Errorf("a token from the environment: %v, asked for: %v", s.Token, asked)
				}
				check(t, client, &fleet, s.Text)
			})
		}
	}
}

func golden(t *testing.T, path, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if diff := cmp.Diff(string(want), got); err != nil || diff != "" {
		t.Errorf("%s: %v (-want +got):\n%s", path, err, diff)
	}
}

// check reads a snippet as its client does.
func check(t *testing.T, client string, f *snippet.Fleet, text string) {
	t.Helper()
	want := &events.Definition{Command: f.Command, Args: f.Args, Env: f.Env}
	if f.URL != "" {
		want = &events.Definition{URL: f.URL}
	}
	got := &events.Definition{}
	var authorization string
	if client == "codex" {
		var doc struct {
			Servers map[string]struct {
				Command, URL string
				Args         []string
				Env          map[string]string
				Variable     string            `toml:"bearer_token_env_var"`
				Headers      map[string]string `toml:"http_headers"`
			} `toml:"mcp_servers"`
		}
		meta, err := toml.Decode(text, &doc)
		if err != nil || len(doc.Servers) != 1 || len(meta.Undecoded()) != 0 {
			t.Fatalf("%v, %v: %v", err, meta.Undecoded(), doc)
		}
		e := doc.Servers[f.Name]
		got.Command, got.Args, got.Env, got.URL = e.Command, e.Args, e.Env, e.URL
		if authorization = e.Headers["Authorization"]; e.Variable != "" {
			authorization = "Bearer $" + e.Variable
		}
	} else {
		e := entry(t, client, f.Name, text)
		got.Command, got.Args, got.Env, got.URL = e.Command, e.Args, e.Env, e.URL
		authorization = e.Headers["Authorization"]
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	references := []string{"Bearer $TOOLFLEET_TOKEN", "Bearer ${TOOLFLEET_TOKEN}", "Bearer ${env:TOOLFLEET_TOKEN}", "Bearer ${input:toolfleet-token}"}
	switch {
	case f.URL == "" && authorization == "", f.Token != "" && authorization == "Bearer "+f.Token:
	case f.URL != "" && f.Token == "" && slices.Contains(references, authorization):
	default:
		t.Errorf("authorization %q", authorization)
	}
}

// entry reads JSON, and then as the fleet itself would.
func entry(t *testing.T, client, name, text string) *events.Definition {
	t.Helper()
	if client == "vscode" { // whose wrapper is another one
		var doc struct {
			Inputs  []map[string]any `json:"inputs"`
			Servers jsontext.Value   `json:"servers"`
		}
		if err := json.Unmarshal([]byte(text), &doc, json.RejectUnknownMembers(true)); err != nil {
			t.Fatal(err)
		}
		text = `{"mcpServers":` + string(doc.Servers) + `}`
	}
	r, err := discovery.Parse([]byte(text), "/mcp.json")
	if err != nil || len(r.Entries) != 1 || len(r.Rejected)+len(r.Warnings) > 0 {
		t.Fatalf("%v: %+v", err, r)
	}
	e := &r.Entries[0]
	if e.ID != events.ServerID(name) || e.Definition.Unknown != nil {
		t.Errorf("server %s, unknown members %s", e.ID, e.Definition.Unknown)
	}
	return &e.Definition
}

func TestUnknownClient(t *testing.T) {
	if _, err := snippet.For("emacs", &snippet.Fleet{}); err == nil {
		t.Error("it is known")
	}
}
