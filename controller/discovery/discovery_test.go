package discovery

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cockroachdb/errors"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"

	"github.com/toolfleet/toolfleet/events"
)

var update = flag.Bool("update", false, "write the golden files")

// The samples are real shapes with invented names; what they must come to is in
// the golden files beside them. // R2, R5, R12, M1, M2, M3, case A4, A5, A7, A9, A10, A12, A13, C6
func TestSamples(t *testing.T) {
	files, err := filepath.Glob("testdata/*.mcp.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("samples: %v, %d files", err, len(files))
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".mcp.json")
		t.Run(name, func(t *testing.T) {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			result, err := Parse(data, "/project/"+filepath.Base(file))
			got := show(t, result, err)
			golden := filepath.Join("testdata", name+".golden.json")
			if *update {
				if err := os.WriteFile(golden, got, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), string(got)); diff != "" {
				t.Errorf("result (-want +got):\n%s", diff)
			}
		})
	}
}

func show(t *testing.T, r *Result, err error) []byte {
	t.Helper()
	var shown any = r
	if err != nil {
		shown = map[string]string{"error": err.Error()}
	}
	data, err := json.Marshal(shown, json.Deterministic(true), jsontext.WithIndent("  "))
	if err != nil {
		t.Fatal(err)
	}
	return append(data, '\n')
}

func parse(t *testing.T, text string) *Result {
	t.Helper()
	r, err := Parse([]byte(text), "/project/mcp.json")
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// only returns the definition of a file's only server.
func only(t *testing.T, entry string) events.Definition {
	t.Helper()
	r := parse(t, `{"mcpServers":{"a":`+entry+`}}`)
	if len(r.Entries) != 1 || len(r.Rejected) != 0 {
		t.Fatalf("%s: %+v", entry, r)
	}
	return r.Entries[0].Definition
}

// case A1, A2
func TestCommentsAndTrailingCommasAreAllowed(t *testing.T) {
	r := parse(t, "\ufeff{ // one\r\n  \"mcpServers\": {\n    /* two */ \"a\": {\"command\": \"x\", \"args\": [\"-v\",],},\n  },\n} // three")
	if len(r.Entries) != 1 || len(r.Warnings) != 0 || r.Entries[0].Line != 3 {
		t.Errorf("got %+v", r)
	}
}

// case A2
func TestSyntaxErrorNamesThePlaceAndNotTheValue(t *testing.T) {
	const canary = "sk-canary-1f2e3d"
	for name, test := range map[string]struct {
		text         string
		line, column int
		message      string
	}{
		"comma missing": {"{\n  \"mcpServers\": {\n    \"a\": {\"env\": {\"T\": \"" + canary + "\" \"U\": 1}}\n}}", 3, 43, "expecting ','"},
		"no quotes":     {"{\"mcpServers\":\n{\"a\": {\"env\": {\"T\": " + canary + "}}}}", 2, 21, "without quotes"},
		"escape":        {"{\"a\": \"\\q" + canary + "\"}", 1, 7, "without quotes"},
		"cut off":       {"{\"mcpServers\": {\"a\": {\"command\": \"" + canary, 2, 1, "EOF"},
		"deep":          {"\n  " + strings.Repeat("[", 201), 2, 203, "nested"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Parse([]byte(test.text), "/project/mcp.json")
			var syntax *SyntaxError
			if !errors.As(err, &syntax) {
				t.Fatalf("error is %v", err)
			}
			if syntax.Line != test.line || syntax.Column != test.column || !strings.Contains(syntax.Message, test.message) {
				t.Errorf("got %v, want line %d, column %d, …%s…", err, test.line, test.column, test.message)
			}
			if strings.Contains(err.Error(), canary) {
				t.Errorf("the error holds the value: %v", err)
			}
			if !strings.Contains(err.Error(), "/project/mcp.json") {
				t.Errorf("the error does not name the file: %v", err)
			}
			lines := strings.Split(test.text+"\n", "\n")
			if want := cut(lines[test.line-1]); syntax.Text != want {
				t.Errorf("text is %q, want %q", syntax.Text, want)
			}
		})
	}
}

// case A9
func TestShapes(t *testing.T) {
	for text, want := range map[string]string{
		``:                             "mcp.json: the file is empty",
		"\ufeff \n":                    "the file is empty",
		`[1]`:                          "no JSON object",
		`{"mcpServers": []}`:           "an array",
		`{"editor.fontSize": 12}`:      `no "mcpServers" in the file (it has: "editor.fontSize")`,
		`{"a": {"command":"x"},"b":1}`: `"a", "b"`,
	} {
		_, err := Parse([]byte(text), "mcp.json")
		var shape *ShapeError
		if !errors.As(err, &shape) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error is %v, want …%s…", text, err, want)
		}
	}
	for _, text := range []string{`{}`, `{"mcpServers":{}}`, `{"mcpServers":null}`, `{"$schema":"https://x.test"}`, `{"mcpServers":{"comment":"none yet"}}`} {
		if r := parse(t, text); len(r.Entries)+len(r.Rejected)+len(r.Warnings) != 0 {
			t.Errorf("%s: %+v, want nothing", text, r)
		}
	}
}

// case A10
func TestDuplicateSectionsAreBothRead(t *testing.T) {
	r := parse(t, `{"mcpServers":{"a":{"command":"x"}},
"mcpServers":{"b":{"command":"y"},"a":{"command":"z"}}}`)
	if len(r.Entries) != 2 || r.Entries[1].Definition.Command != "z" {
		t.Errorf("entries are %+v", r.Entries)
	}
	if len(r.Warnings) != 1 || r.Warnings[0].Code != DuplicateName {
		t.Errorf("warnings are %+v", r.Warnings)
	}
}

func TestDuplicateMembersReject(t *testing.T) {
	for _, entry := range []string{
		`{"command":"x","command":"y"}`,
		`{"command":"x","env":{"A":"1","A":"2"}}`,
		`{"command":"x","restartPolicy":{"maxDelayMs":1,"maxDelayMs":2}}`,
		`{"command":"x","mystery":{"a":1,"a":2}}`,
	} {
		r := parse(t, `{"mcpServers":{"a":`+entry+`,"good":{"command":"g"}}}`)
		if len(r.Rejected) != 1 || len(r.Entries) != 1 || !strings.Contains(r.Rejected[0].Error(), "twice") {
			t.Errorf("%s: %+v", entry, r)
		}
	}
}

// R12
func TestReasonsAreJoined(t *testing.T) {
	const canary = "sk-canary-77aa"
	for entry, want := range map[string][]string{
		`{"command":"x","url":"https://x.test"}`:                      {"command and url"},
		`{"type":"http","command":"x"}`:                               {"the type is http", "command"},
		`{"type":"sse"}`:                                              {"neither command nor url"},
		`{"type":"carrier-pigeon","command":"x"}`:                     {"carrier-pigeon", "stdio, http or sse"},
		`{"type":"stdio","transport":"http","command":"x"}`:           {"type and transport contradict"},
		`{"type":7,"command":8,"cwd":9}`:                              {"type must be a string, not a number", "command must be", "cwd must be"},
		`{"command":"x","args":"` + canary + `"}`:                     {"args must be an array of strings"},
		`{"command":"x","args":["a",1]}`:                              {"args.1 must be a string"},
		`{"command":"x","timeout":"` + canary + `"}`:                  {"timeout must be a number of milliseconds"},
		`{"command":"x","connectTimeoutMs":-1}`:                       {"connectTimeoutMs must be 0 or more milliseconds; 0 is no limit"},
		`{"command":"x","tool_timeout_sec":1e12}`:                     {"tool_timeout_sec must be at most 100000000 seconds"},
		`{"command":"x","timeout":1,"callTimeoutMs":2}`:               {"timeout and callTimeoutMs contradict"},
		`{"command":"x","disabled":"yes","enabled":1}`:                {"disabled must be true or false", "enabled must be true or false"},
		`{"command":"x","placement":{"replicas":0}}`:                  {"placement.replicas must be", "each"},
		`{"command":"x","restartPolicy":{"maxRestartAttempts":""}}`:   {"restartPolicy.maxRestartAttempts must be a whole number"},
		`{"command":"x","scope":"galaxy","want":"walking"}`:           {"scope", "want"},
		`{"command":"x","env":["` + canary + `"]}`:                    {"env must be an object, not an array"},
		`{"url":"https://x.test","headers":{"A B":"` + canary + `"}}`: {"header name"},
		`{"url":"://` + canary + `"}`:                                 {"absolute http or https URL"},
		`{"command":"x","env":{"A":"\ud800"}}`:                        {"env.A is not valid JSON"},
	} {
		r := parse(t, `{"mcpServers":{"a":`+entry+`,"good":{"command":"g"}}}`)
		if len(r.Rejected) != 1 || len(r.Entries) != 1 {
			t.Errorf("%s: %+v", entry, r)
			continue
		}
		text := r.Rejected[0].Error()
		for _, w := range append(want, `server "a"`) {
			if !strings.Contains(text, w) {
				t.Errorf("%s: %s\ndoes not say: %s", entry, text, w)
			}
		}
		if strings.Contains(text, canary) {
			t.Errorf("%s: the reason holds the value: %s", entry, text)
		}
		for _, p := range r.Rejected[0].Problems {
			if _, listed := events.Explain(p.Code); !listed {
				t.Errorf("%s: code %s is not in the list", entry, p.Code)
			}
		}
	}
}

// case A12
func TestTransportNames(t *testing.T) {
	for name, want := range map[string]events.Transport{
		"http": "http", "streamable-http": "http", "streamableHttp": "http", "streamable_http": "http", "Streamable-HTTP": "http",
		"sse": "sse", "SSE": "sse", "Sse": "sse", "remote": "", "auto": "",
	} {
		for _, key := range []string{"type", "transport", "transportType"} {
			d := only(t, `{"`+key+`":"`+name+`","url":"https://x.test/mcp"}`)
			if d.Type != want {
				t.Errorf("%s %s: type is %q, want %q", key, name, d.Type, want)
			}
		}
	}
}

// R5, M9, case A7
func TestDisabledWins(t *testing.T) {
	for flags, want := range map[string]struct{ disabled, warned bool }{
		`"disabled":true`:                  {true, false},
		`"enabled":false`:                  {true, false},
		`"enabled":true,"disabled":true`:   {true, true},
		`"enabled":false,"disabled":false`: {true, true},
		`"enabled":true,"disabled":false`:  {false, false},
		`"disabled":null,"enabled":true`:   {false, false},
	} {
		r := parse(t, `{"mcpServers":{"a":{"command":"x",`+flags+`}}}`)
		if got := r.Entries[0].Definition.Disabled; got != want.disabled {
			t.Errorf("%s: disabled is %v", flags, got)
		}
		warned := len(r.Warnings) == 1 && r.Warnings[0].Code == ConflictingFlags
		if warned != want.warned {
			t.Errorf("%s: warnings are %+v", flags, r.Warnings)
		}
	}
}

func TestUnknownMembersAreKept(t *testing.T) {
	d := only(t, `{"command":"x", "timeout": 2500, "headersHelper": "h", "icon": {"b": [1, null,], "a": 1.50}, "gone": null, "source": {"provider": "p"}}`)
	if got, want := string(d.Unknown), `{"headersHelper":"h","icon":{"b":[1,null],"a":1.50}}`; got != want {
		t.Errorf("unknown is %s, want %s", got, want)
	}
	if d.CallTimeoutMs == nil || *d.CallTimeoutMs != 2500 {
		t.Errorf("call timeout is %v", d.CallTimeoutMs)
	}
	if want := (events.Source{Provider: "file", Path: "/project/mcp.json", Line: 1}); *d.Source != want {
		t.Errorf("source is %+v", *d.Source)
	}
	data, err := json.Marshal(d)
	if err != nil {
		t.Fatal(err)
	}
	var again events.Definition
	if err := json.Unmarshal(data, &again); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(d, again); diff != "" {
		t.Errorf("read again (-want +got):\n%s", diff)
	}
}

// R5
func TestVariablesStay(t *testing.T) {
	d := only(t, `{"url":"${BASE}/mcp","headers":{"Authorization":"Bearer ${TOKEN:-a$b}"}}`)
	if d.URL != "${BASE}/mcp" || d.Headers["Authorization"] != "Bearer ${TOKEN:-a$b}" {
		t.Errorf("got %+v", d)
	}
}

func TestCwdIsResolvedAgainstTheFile(t *testing.T) {
	for cwd, want := range map[string]string{"./": "/project", "sub": "/project/sub", "/abs": "/abs", "~/x": "~/x", "${W}/x": "${W}/x", "": ""} {
		if d := only(t, `{"command":"x","cwd":"`+cwd+`"}`); d.Cwd != want {
			t.Errorf("%s: cwd is %q, want %q", cwd, d.Cwd, want)
		}
	}
}

// M2
func TestNamesBecomeLegalStableIDs(t *testing.T) {
	for name, want := range map[string]string{
		"github": "github", "my server": "my_server-b129874b", "a.b": "a_b-2e7336dc", "a/b": "a_b-c14cddc0", "天気": "_-bc79d84d", "": "",
	} {
		if got := string(IDOf(name)); got != want {
			t.Errorf("id of %q is %q, want %q", name, got, want)
		}
	}
	long := IDOf(strings.Repeat("x", 500))
	if _, err := events.ParseServerID(string(long)); err != nil {
		t.Error(err)
	}
	r := parse(t, `{"mcpServers":{"a.b":{"command":"x","labels":{"team":"t"}},"a/b":{"command":"y"},"c":{"command":"z"}}}`)
	if len(r.Entries) != 3 {
		t.Fatalf("got %+v", r)
	}
	if got, want := r.Entries[0].Definition.Labels, map[string]string{"name": "a.b", "team": "t"}; !cmp.Equal(got, want) {
		t.Errorf("labels are %v, want %v", got, want)
	}
	if got := r.Entries[2].Definition.Labels; got != nil {
		t.Errorf("labels of a legal name are %v", got)
	}
}

// M2
func TestTakenIDIsRejected(t *testing.T) {
	r := parse(t, `{"mcpServers":{"a.b":{"command":"x"},"`+string(IDOf("a.b"))+`":{"command":"y"}}}`)
	if len(r.Entries) != 1 || len(r.Rejected) != 1 || r.Rejected[0].Problems[0].Code != events.InvalidID {
		t.Errorf("got %+v", r)
	}
}

func TestReadFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "mcp.json")
	if _, err := ReadFile(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("error of a file that is not there is %v", err)
	}
	if err := os.WriteFile(path, []byte(`{"mcpServers":{"a":{"command":"x"}}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if f.Path != path || len(f.Entries) != 1 || f.Entries[0].Definition.Source.Path != path || len(f.Digest) != 64 {
		t.Errorf("got %+v", f)
	}
	if err := os.WriteFile(path, []byte(`{"x":"`+strings.Repeat("x", MaxFileSize)+`"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadFile(path); err == nil || !strings.Contains(err.Error(), "larger than") {
		t.Errorf("error of a huge file is %v", err)
	}
}
