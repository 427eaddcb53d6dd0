// Package snippet writes what MCP clients have to be told to attach to a fleet, in
// the form of each client's own configuration file.
//
// A token is referred to, by a variable of the environment or an input of the
// client, unless it is given.
package snippet

import (
	"maps"
	"slices"
	"strings"

	"github.com/cockroachdb/errors"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Variable is the variable of the environment that holds the token.
const Variable = "TOOLFLEET_TOKEN"

// Fleet is how a fleet is reached: by starting a process, or by its URL.
type Fleet struct {
	// Name of the server in the client's configuration.
	Name string
	// Command is started with Args and Env, if there is no URL.
	Command string
	Args    []string
	Env     map[string]string
	// URL of the fleet's MCP endpoint. Token, if not empty, is written as it is.
	URL, Token string
}

// Snippet is what a client has to be told.
type Snippet struct {
	// Text belongs into the file File, as it is or beside what is there.
	Text, File string
	// Token says that the client takes the token from [Variable].
	Token bool
}

// ErrNoHTTP says that a client's configuration file knows only processes.
var ErrNoHTTP = errors.New("its configuration file has no servers over HTTP")

// clients write their snippets. Inputs of VS Code are asked for once and kept.
var clients = map[string]func(*Fleet) (Snippet, error){
	"claude-code": func(f *Fleet) (Snippet, error) {
		e := f.entry("${" + Variable + "}")
		e.Type = f.transport()
		return f.mcpServers(".mcp.json in the project", e)
	},
	"claude-desktop": func(f *Fleet) (Snippet, error) {
		if f.URL != "" {
			return Snippet{}, ErrNoHTTP
		}
		return f.mcpServers("claude_desktop_config.json (Settings, Developer, Edit Config)", f.entry(""))
	},
	"cursor": func(f *Fleet) (Snippet, error) {
		return f.mcpServers("~/.cursor/mcp.json, or .cursor/mcp.json in the project", f.entry("${env:"+Variable+"}"))
	},
	"vscode": vsCode,
	"codex":  codex,
}

// Clients returns the names of the clients that are known.
func Clients() []string { return slices.Sorted(maps.Keys(clients)) }

// For returns what a client has to be told.
func For(client string, f *Fleet) (Snippet, error) {
	write, ok := clients[client]
	if !ok {
		return Snippet{}, errors.Newf("no client %q is known", client)
	}
	s, err := write(f)
	return s, errors.Wrap(err, client)
}

// entry is a server as most clients have it.
type entry struct {
	Type    string            `json:"type,omitzero"`
	Command string            `json:"command,omitzero"`
	Args    []string          `json:"args,omitempty"`
	Env     map[string]string `json:"env,omitempty"`
	URL     string            `json:"url,omitzero"`
	Headers map[string]string `json:"headers,omitempty"`
}

func (f *Fleet) transport() string {
	if f.URL != "" {
		return "http"
	}
	return "stdio"
}

// entry returns the server with a reference to the token.
func (f *Fleet) entry(reference string) *entry {
	if f.URL == "" {
		return &entry{Command: f.Command, Args: f.Args, Env: f.Env}
	}
	return &entry{URL: f.URL, Headers: map[string]string{"Authorization": f.bearer(reference)}}
}

func (f *Fleet) bearer(reference string) string {
	if f.Token != "" {
		return "Bearer " + f.Token
	}
	return "Bearer " + reference
}

// mcpServers writes the shape that most clients share.
func (f *Fleet) mcpServers(file string, e *entry) (Snippet, error) {
	return f.write(file, map[string]any{"mcpServers": map[string]any{f.Name: e}})
}

func (f *Fleet) write(file string, v any) (Snippet, error) {
	data, err := json.Marshal(v, jsontext.WithIndent("  "), json.Deterministic(true))
	return Snippet{Text: string(data) + "\n", File: file, Token: f.URL != "" && f.Token == ""}, errors.Wrap(err, "write JSON")
}

// input is what VS Code asks its user for.
type input struct {
	Type        string `json:"type"`
	ID          string `json:"id"`
	Description string `json:"description"`
	Password    bool   `json:"password"`
}

func vsCode(f *Fleet) (Snippet, error) {
	const id = "toolfleet-token"
	e := f.entry("${input:" + id + "}")
	e.Type = f.transport()
	doc := struct {
		Inputs  []input           `json:"inputs,omitempty"`
		Servers map[string]*entry `json:"servers"`
	}{Servers: map[string]*entry{f.Name: e}}
	asks := f.URL != "" && f.Token == ""
	if asks {
		doc.Inputs = []input{{"promptString", id, "What toolfleet token --scope call prints", true}}
	}
	s, err := f.write(".vscode/mcp.json in the workspace, or the user's mcp.json", &doc)
	s.Token = false // it is asked for
	return s, err
}

// codex writes TOML, whose strings may be written as those of JSON.
func codex(f *Fleet) (Snippet, error) {
	var b strings.Builder
	table := "mcp_servers." + f.Name
	b.WriteString("[" + table + "]\n")
	switch {
	case f.URL == "":
		b.WriteString("command = " + quoted(f.Command) + "\n")
		b.WriteString("args = " + quoted(f.Args) + "\n")
		for i, name := range slices.Sorted(maps.Keys(f.Env)) {
			if i == 0 {
				b.WriteString("\n[" + table + ".env]\n")
			}
			b.WriteString(quoted(name) + " = " + quoted(f.Env[name]) + "\n")
		}
	case f.Token == "":
		b.WriteString("url = " + quoted(f.URL) + "\nbearer_token_env_var = " + quoted(Variable) + "\n")
	default:
		b.WriteString("url = " + quoted(f.URL) + "\nhttp_headers = { \"Authorization\" = " + quoted(f.bearer("")) + " }\n")
	}
	return Snippet{Text: b.String(), File: "~/.codex/config.toml", Token: f.URL != "" && f.Token == ""}, nil
}

// quoted returns a text, or an array of them, as JSON has it.
func quoted(v any) string {
	data, err := json.Marshal(v, jsontext.SpaceAfterComma(true))
	if err != nil {
		return `""` // unreachable unless a text is no valid UTF-8
	}
	return string(data)
}
