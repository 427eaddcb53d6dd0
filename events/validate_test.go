package events_test

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/cockroachdb/errors"

	"github.com/toolfleet/toolfleet/events"
)

// problems returns what is wrong with a definition.
func problems(t *testing.T, d events.Definition, id events.ServerID) []events.Problem {
	t.Helper()
	err := d.Validate(id)
	if err == nil {
		return nil
	}
	var invalid *events.InvalidDefinitionError
	if !errors.As(err, &invalid) {
		t.Fatalf("%T: %v", err, err)
	}
	diff(t, "server", string(id), invalid.Server)
	return invalid.Problems
}

func TestValidDefinitions(t *testing.T) {
	for name, d := range map[string]events.Definition{
		"local":                  localDefinition(),
		"remote":                 remoteDefinition(),
		"least":                  {Command: "npx"},
		"least remote":           {URL: "http://localhost:8080/mcp"},
		"legacy SSE":             {Type: events.SSE, URL: "https://h.example/sse"},
		"a variable as URL":      {URL: "${MCP_URL}"},
		"a variable host":        {URL: "https://${HOST}:${PORT}/${PATH}?q=${secret:github/query.q#1}"},
		"a variable with a user": {URL: "https://${USER}:${secret:a/b#1}@h.example/"},
		"a pinned revision":      {Command: "npx", Protocol: "2025-11-25"},
		"the handshake":          {Command: "npx", Protocol: "legacy"},
		"a variable root":        {Command: "npx", Roots: []string{"file://${HOME}", "${ROOT}"}},
		"odd names":              {Command: "npx", Env: map[string]string{"npm_config_//r:x": "a\nb"}},
		"odd header values":      {URL: "https://h.example", Headers: map[string]string{"X-A!": "a\tb é", "x": ""}},
		"no restart":             {Command: "npx", RestartPolicy: &events.RestartPolicy{MaxRestartAttempts: new(0)}},
		"each":                   {Command: "npx", Placement: &events.Placement{Replicas: events.EachWorker}},
		"most replicas":          {Command: "npx", Placement: &events.Placement{Replicas: events.MaxReplicas}},
		"longest limit":          {Command: "npx", CallTimeoutMs: new(int64(math.MaxInt64 / 1_000_000))},
	} {
		if err := d.Validate("github"); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// R12: every reason names the member and says what to do.
func TestInvalidDefinitions(t *testing.T) {
	local := func(change func(*events.Definition)) events.Definition {
		d := events.Definition{Command: "npx"}
		change(&d)
		return d
	}
	remote := func(change func(*events.Definition)) events.Definition {
		d := events.Definition{URL: "https://h.example"}
		change(&d)
		return d
	}
	policy := func(p events.RestartPolicy) events.Definition {
		return events.Definition{Command: "npx", RestartPolicy: &p}
	}
	placed := func(p events.Placement) events.Definition {
		return events.Definition{Command: "npx", Placement: &p}
	}
	for _, c := range []struct {
		d             events.Definition
		path, message string
	}{
		{events.Definition{}, "/command", "a stdio server needs a command"},
		{events.Definition{Type: events.Stdio}, "/command", "a stdio server needs a command"},
		{events.Definition{Type: events.HTTP}, "/url", "an http server needs a url"},
		{events.Definition{Type: events.SSE}, "/url", "an sse server needs a url"},
		{local(func(d *events.Definition) { d.URL = "https://h.example" }), "/url", "command and url are both set: keep one"},
		{local(func(d *events.Definition) { d.Type = "pipe" }), "/type", `unknown type "pipe": use stdio, http or sse`},
		{remote(func(d *events.Definition) { d.URL = "h.example/mcp" }), "/url", "url must be an absolute http or https URL"},
		{remote(func(d *events.Definition) { d.URL = "ftp://h.example" }), "/url", "url must be an absolute http or https URL"},
		{remote(func(d *events.Definition) { d.URL = "https:///mcp" }), "/url", "url must be an absolute http or https URL"},
		{remote(func(d *events.Definition) { d.URL = "https://h.example:port" }), "/url", "url must be an absolute http or https URL"},
		{remote(func(d *events.Definition) { d.URL = "https://h.exa mple" }), "/url", "url must be an absolute http or https URL"},
		{remote(func(d *events.Definition) { d.URL = "https://h.example/\n" }), "/url", "url must be an absolute http or https URL"},

		{local(func(d *events.Definition) { d.Command = "a\x00b" }), "/command", "command contains NUL"},
		{local(func(d *events.Definition) { d.Cwd = "a\x00b" }), "/cwd", "cwd contains NUL"},
		{local(func(d *events.Definition) { d.EnvFile = "a\x00b" }), "/envFile", "envFile contains NUL"},
		{local(func(d *events.Definition) { d.Args = []string{"a", "\x00"} }), "/args/1", "args.1 contains NUL"},
		{local(func(d *events.Definition) { d.Env = map[string]string{"A": "\x00"} }), "/env/A", "env.A contains NUL"},
		{local(func(d *events.Definition) { d.Env = map[string]string{"": "x"} }), "/env/", `env name "" is empty or contains '=' or NUL`},
		{local(func(d *events.Definition) { d.Env = map[string]string{"A=B/~": "x"} }), "/env/A=B~1~0", `env name "A=B/~" is empty or contains '=' or NUL`},

		{remote(func(d *events.Definition) { d.Headers = map[string]string{"X A": "x"} }), "/headers/X A", `header name "X A" is no HTTP header name`},
		{remote(func(d *events.Definition) { d.Headers = map[string]string{"": "x"} }), "/headers/", `header name "" is no HTTP header name`},
		{remote(func(d *events.Definition) { d.Headers = map[string]string{"X-A\r\nHost": "x"} }), "/headers/X-A\r\nHost", `header name "X-A\r\nHost" is no HTTP header name`},
		{remote(func(d *events.Definition) { d.Headers = map[string]string{"Ä": "x"} }), "/headers/Ä", `header name "Ä" is no HTTP header name`},
		{remote(func(d *events.Definition) { d.Headers = map[string]string{"X-A": "x\r\nHost: y"} }), "/headers/X-A", "headers.X-A contains a line break or another control character"},
		{remote(func(d *events.Definition) { d.Headers = map[string]string{"X-A": "x\x7f"} }), "/headers/X-A", "headers.X-A contains a line break or another control character"},
		{remote(func(d *events.Definition) { d.Headers = map[string]string{"X-A": "1", "x-a": "2"} }), "/headers/x-a", "headers.x-a is there twice: case does not matter in header names"},

		{local(func(d *events.Definition) { d.Protocol = "2025-11" }), "/protocol", `protocol "2025-11": use auto, legacy or a revision such as 2025-11-25`},
		{local(func(d *events.Definition) { d.Protocol = "2025-02-30" }), "/protocol", `protocol "2025-02-30": use auto, legacy or a revision such as 2025-11-25`},
		{local(func(d *events.Definition) { d.Roots = []string{"file:///a", "/b"} }), "/roots/1", "roots.1 must be a file URI, such as file:///srv/project"},
		{local(func(d *events.Definition) { d.Scope = "team" }), "/scope", `scope "team": use "fleet" or "project:<label>"`},
		{local(func(d *events.Definition) { d.Update = "rolling" }), "/update", `update "rolling": use replace or overlap`},
		{local(func(d *events.Definition) { d.Want = "paused" }), "/want", `want "paused": use running or stopped`},

		{local(func(d *events.Definition) { d.ConnectTimeoutMs = new(int64(-1)) }), "/connectTimeoutMs", "connectTimeoutMs must be 0 or more milliseconds"},
		{local(func(d *events.Definition) { d.CallTimeoutMs = new(int64(math.MaxInt64)) }), "/callTimeoutMs", "callTimeoutMs is too long"},
		{local(func(d *events.Definition) { d.HealthCheckIntervalMs = new(int64(-1)) }), "/healthCheckIntervalMs", "healthCheckIntervalMs must be 0 or more milliseconds"},
		{local(func(d *events.Definition) { d.GracePeriodMs = new(int64(-1)) }), "/gracePeriodMs", "gracePeriodMs must be 0 or more milliseconds"},

		{policy(events.RestartPolicy{InitialDelayMs: new(int64(-1))}), "/restartPolicy/initialDelayMs", "restartPolicy.initialDelayMs must be 0 or more milliseconds"},
		{policy(events.RestartPolicy{InitialDelayMs: new(int64(30_001))}), "/restartPolicy/maxDelayMs", "restartPolicy.maxDelayMs is below initialDelayMs"},
		{policy(events.RestartPolicy{MaxDelayMs: new(int64(999))}), "/restartPolicy/maxDelayMs", "restartPolicy.maxDelayMs is below initialDelayMs"},
		{policy(events.RestartPolicy{StablePeriodMs: new(int64(-1))}), "/restartPolicy/stablePeriodMs", "restartPolicy.stablePeriodMs must be 0 or more milliseconds"},
		{policy(events.RestartPolicy{BackoffMultiplier: new(0.99)}), "/restartPolicy/backoffMultiplier", "restartPolicy.backoffMultiplier must be at least 1"},
		{policy(events.RestartPolicy{BackoffMultiplier: new(math.NaN())}), "/restartPolicy/backoffMultiplier", "restartPolicy.backoffMultiplier must be at least 1"},
		{policy(events.RestartPolicy{BackoffMultiplier: new(math.Inf(1))}), "/restartPolicy/backoffMultiplier", "restartPolicy.backoffMultiplier must be at least 1"},
		{policy(events.RestartPolicy{MaxRestartAttempts: new(-1)}), "/restartPolicy/maxRestartAttempts", "restartPolicy.maxRestartAttempts is negative"},

		{placed(events.Placement{Worker: "host.a"}), "/placement/worker", `placement.worker worker id "host.a": only ASCII letters, digits, '-' and '_' are allowed`},
		{placed(events.Placement{Replicas: -2}), "/placement/replicas", `placement.replicas must be a number from 1 to 1000, or "each"`},
		{placed(events.Placement{Replicas: events.MaxReplicas + 1}), "/placement/replicas", `placement.replicas must be a number from 1 to 1000, or "each"`},

		{local(func(d *events.Definition) { d.Args = []string{"\xff"} }), "/args/0", "args.0 holds text that is not valid Unicode"},
		{local(func(d *events.Definition) { d.Env = map[string]string{"A": "\xff"} }), "/env/A", "env.A holds text that is not valid Unicode"},
		{local(func(d *events.Definition) { d.Cwd = strings.Repeat("x", events.MaxDefinitionSize-25) }), "", "the definition has 245761 bytes as JSON, at most 245760 are allowed"},
	} {
		diff(t, fmt.Sprintf("problems of %.200v", c.d),
			[]events.Problem{{Code: events.InvalidDefinition, Path: c.path, Message: c.message}}, problems(t, c.d, "github"))
	}
}

// R12: several reasons are joined. M2: so is the id's.
func TestSeveralProblemsAreJoined(t *testing.T) {
	d := events.Definition{Command: "npx", URL: "nowhere", Update: "rolling", ConnectTimeoutMs: new(int64(-1))}
	err := d.Validate("git hub")
	const want = `server "git hub": server id "git hub": only ASCII letters, digits, '-' and '_' are allowed; ` +
		`command and url are both set: keep one; url must be an absolute http or https URL; ` +
		`connectTimeoutMs must be 0 or more milliseconds; update "rolling": use replace or overlap`
	if err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
	got := problems(t, d, "git hub")
	diff(t, "problem of the id", events.Problem{
		Code: events.InvalidID, Message: `server id "git hub": only ASCII letters, digits, '-' and '_' are allowed`,
	}, got[0])
	diff(t, "number of problems", 5, len(got))
}

// Problems are stored in an event: there are never too many, nor too long ones.
func TestProblemsAreBounded(t *testing.T) {
	d := events.Definition{Command: "npx", Env: make(map[string]string)}
	for i := range 2000 {
		d.Env[fmt.Sprintf("=%s%d", strings.Repeat("x", 1000), i)] = "x"
	}
	got := problems(t, d, "github")
	diff(t, "number of problems", events.MaxProblems+1, len(got))
	diff(t, "last problem", events.Problem{Code: events.InvalidDefinition, Message: "and 1950 more"}, got[events.MaxProblems])
	m := encode(t, sample(server, events.Rejected{ID: "github", Reasons: got}))
	if len(m.Data) > 50_000 {
		t.Errorf("the event has %d bytes", len(m.Data))
	}
	diff(t, "path", "/env", got[0].Path)
}

// An update holds two definitions of the greatest size.
func TestTheLargestDefinitionsFitAnUpdate(t *testing.T) {
	d := events.Definition{Command: "npx", Cwd: strings.Repeat("x", events.MaxDefinitionSize-26)}
	diff(t, "problems", []events.Problem(nil), problems(t, d, "github"))
	diff(t, "size", events.MaxDefinitionSize, len(encodeDefinition(t, d)))
	encode(t, sample(server, events.Updated{From: d, To: d}))
}

// No problem shows a value of env, headers, url or args, whatever is wrong.
func TestProblemsShowNoSecret(t *testing.T) {
	const secret = "hunter2hunter2"
	bad := []string{secret, secret + "\x00", secret + "\r\n", secret + "\xff", "https://" + secret + ":p w@h:x/", "${" + secret}
	for _, value := range bad {
		for name, d := range map[string]events.Definition{
			"env":     {Command: "", Env: map[string]string{"TOKEN": value, "=": value}},
			"headers": {URL: "x", Headers: map[string]string{"TOKEN": value, " ": value, "token": value}},
			"url":     {URL: value, Command: "x"},
			"args":    {Args: []string{value}},
			"oauth":   {Type: "?", OAuth: &events.OAuth{ClientID: value}},
		} {
			err := d.Validate("github")
			if err != nil && strings.Contains(fmt.Sprintf("%+v", err), secret) {
				t.Errorf("%s: %+v", name, err)
			}
			d.Command, d.URL, d.Type = "npx", "", "" // only the text is wrong
			if err := d.Validate("github"); err != nil && strings.Contains(err.Error(), secret) {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}
