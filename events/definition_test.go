package events_test

import (
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/errors"
	"github.com/go-json-experiment/json"

	"github.com/toolfleet/toolfleet/events"
)

func encodeDefinition(t testing.TB, d events.Definition) []byte {
	t.Helper()
	data, err := json.Marshal(&d, json.Deterministic(true))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func decodeDefinition(t testing.TB, text string) events.Definition {
	t.Helper()
	d, err := events.DecodeDefinition("github", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return *d
}

func TestDefinitionRoundTrip(t *testing.T) {
	for _, d := range []events.Definition{{}, localDefinition(), remoteDefinition()} {
		data := encodeDefinition(t, d)
		diff(t, "definition", d, decodeDefinition(t, string(data)))
	}
}

// Members of other programs, and of later builds, survive.
func TestDefinitionKeepsUnknownMembers(t *testing.T) {
	const text = `{"x-first":[1.50, {"b":1,"a":2}],"command":"npx","Command":"other","x-last":null}`
	d := decodeDefinition(t, text)
	diff(t, "command", "npx", d.Command)
	const want = `{"command":"npx","x-first":[1.50,{"b":1,"a":2}],"Command":"other","x-last":null}`
	diff(t, "written again", want, string(encodeDefinition(t, d)))

	// A copy that was changed elsewhere still has them.
	d.Command = "uvx"
	diff(t, "changed", strings.Replace(want, "npx", "uvx", 1), string(encodeDefinition(t, d)))
}

// A member cannot be known and unknown at once.
func TestDefinitionWithAMemberTwiceIsNotWritten(t *testing.T) {
	d := events.Definition{Command: "npx", Unknown: []byte(`{"command":"other"}`)}
	if data, err := json.Marshal(&d); err == nil {
		t.Errorf("written as %s", data)
	}
}

func TestDecodeDefinitionNamesTheMember(t *testing.T) {
	for _, c := range []struct{ text, path, message string }{
		{`{"command":7}`, "/command", "command must be a string"},
		{`{"args":"-y"}`, "/args", "args must be an array of strings"},
		{`{"args":["-y",{"a":1}]}`, "/args/1", "args.1 must be a string"},
		{`{"env":{"PORT":8080}}`, "/env/PORT", "env.PORT must be a string"},
		{`{"env":["A=1"]}`, "/env", "env must be an object"},
		{`{"env":{"A":"1","A":"2"}}`, "/env/A", "env.A is there twice: keep one"},
		{`{"url":"a","url":"b"}`, "/url", "url is there twice: keep one"},
		{`{"disabled":"no"}`, "/disabled", "disabled must be true or false"},
		{`{"connectTimeoutMs":"5s"}`, "/connectTimeoutMs", "connectTimeoutMs must be a whole number"},
		{`{"callTimeoutMs":1.5}`, "/callTimeoutMs", "callTimeoutMs must be a whole number"},
		{`{"gracePeriodMs":9223372036854775808}`, "/gracePeriodMs", "gracePeriodMs must be a whole number"},
		{`{"restartPolicy":{"backoffMultiplier":"2"}}`, "/restartPolicy/backoffMultiplier", "restartPolicy.backoffMultiplier must be a number"},
		{`{"restartPolicy":[]}`, "/restartPolicy", "restartPolicy must be an object"},
		{`{"placement":{"replicas":0}}`, "/placement/replicas", `placement.replicas must be a number from 1 to 1000, or "each"`},
		{`{"placement":{"replicas":"all"}}`, "/placement/replicas", `placement.replicas must be a number from 1 to 1000, or "each"`},
		{`{"placement":{"replicas":null}}`, "/placement/replicas", `placement.replicas must be a number from 1 to 1000, or "each"`},
		{`{"source":{"line":"x"}}`, "/source/line", "source.line must be a whole number"},
		{`{"placement":{"replicas":x}}`, "/placement/replicas", "placement.replicas is not valid JSON"},
		{`[]`, "", "the definition must be an object"},
		{`null`, "", "the definition must be an object"},
		{`{"command":"a" "args":[]}`, "", "the definition is not valid JSON"},
		{`{"env":{"A":"` + "\xff" + `"}}`, "/env/A", "env.A is not valid JSON"},
		{``, "", "the definition is not valid JSON"},
	} {
		d, err := events.DecodeDefinition("github", []byte(c.text))
		var invalid *events.InvalidDefinitionError
		if !errors.As(err, &invalid) {
			t.Errorf("%s: %v, %v", c.text, d, err)
			continue
		}
		want := []events.Problem{{Code: events.InvalidDefinition, Path: c.path, Message: c.message}}
		diff(t, "problems of "+c.text, want, invalid.Problems)
		diff(t, "error", `server "github": `+c.message, err.Error())
	}
}

// What a decoder did not like may have been a secret.
func TestDecodeDefinitionShowsNoValue(t *testing.T) {
	const secret = "hunter2hunter2"
	for _, text := range []string{
		`{"env":{"TOKEN":["` + secret + `"]}}`, `{"headers":"` + secret + `"}`, `{"url":{"` + secret + `":1}}`,
		`{"connectTimeoutMs":"` + secret + `"}`, `{"placement":{"replicas":"` + secret + `"}}`,
		`{"command":"` + secret + "\xff" + `"}`, `{"url":"` + secret, `{"url":` + secret + `}`,
	} {
		if _, err := events.DecodeDefinition("github", []byte(text)); err == nil || strings.Contains(err.Error(), secret) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestReplicas(t *testing.T) {
	for _, c := range []struct {
		text     string
		replicas events.Replicas
		count    int
		each     bool
		written  string
	}{
		{`1`, 1, 1, false, `1`},
		{`7`, 7, 7, false, `7`},
		{`1000`, events.MaxReplicas, 1000, false, `1000`},
		{`"each"`, events.EachWorker, 0, true, `"each"`},
		{``, 0, 1, false, `1`},
	} {
		var r events.Replicas
		if c.text != "" {
			if err := json.Unmarshal([]byte(c.text), &r); err != nil {
				t.Errorf("%s: %v", c.text, err)
			}
		}
		diff(t, "replicas", c.replicas, r)
		count, counted := r.Count()
		if count != c.count || counted == c.each {
			t.Errorf("%s counts %d, %v", c.text, count, counted)
		}
		written, err := json.Marshal(r)
		if err != nil || string(written) != c.written {
			t.Errorf("%s is written as %s, %v", c.text, written, err)
		}
	}
	for _, text := range []string{`0`, `-1`, `1001`, `1.5`, `1e2`, `"1"`, `"Each"`, `null`, `true`, `[1]`, `99999999999999999999`} {
		var r events.Replicas
		if err := json.Unmarshal([]byte(text), &r); err == nil {
			t.Errorf("%s became %d", text, r)
		}
	}
}

// R12: the type may be left out.
func TestTransport(t *testing.T) {
	for _, c := range []struct {
		d    events.Definition
		want events.Transport
	}{
		{events.Definition{}, events.Stdio},
		{events.Definition{Command: "npx"}, events.Stdio},
		{events.Definition{URL: "https://h.example"}, events.HTTP},
		{events.Definition{Command: "npx", URL: "https://h.example"}, events.Stdio},
		{events.Definition{Type: events.SSE, URL: "https://h.example"}, events.SSE},
		{events.Definition{Type: events.HTTP, Command: "npx"}, events.HTTP},
		{events.Definition{Type: "carrier-pigeon", Command: "npx"}, "carrier-pigeon"},
	} {
		diff(t, "transport", c.want, c.d.Transport())
	}
}

func TestWanted(t *testing.T) {
	for _, c := range []struct {
		d    events.Definition
		want events.Want
	}{
		{events.Definition{}, events.Running},
		{events.Definition{Want: events.Running}, events.Running},
		{events.Definition{Want: events.Stopped}, events.Stopped},
		{events.Definition{Disabled: true}, events.Stopped},
		{events.Definition{Disabled: true, Want: events.Running}, events.Stopped},
	} {
		diff(t, "wanted", c.want, c.d.Wanted())
	}
}

// R32, M1, M5, M15: defaults, and 0 for no limit.
func TestTimeLimits(t *testing.T) {
	limits := func(d events.Definition) []time.Duration {
		return []time.Duration{d.ConnectTimeout(), d.CallTimeout(), d.HealthCheckInterval(), d.GracePeriod()}
	}
	diff(t, "defaults", []time.Duration{30 * time.Second, 30 * time.Second, 30 * time.Second, 5 * time.Second},
		limits(events.Definition{}))
	diff(t, "none", []time.Duration{0, 0, 0, 0}, limits(events.Definition{
		ConnectTimeoutMs: new(int64(0)), CallTimeoutMs: new(int64(0)), HealthCheckIntervalMs: new(int64(0)), GracePeriodMs: new(int64(0)),
	}))
	diff(t, "given", []time.Duration{time.Millisecond, 2 * time.Millisecond, 3 * time.Millisecond, 4 * time.Millisecond},
		limits(events.Definition{
			ConnectTimeoutMs: new(int64(1)), CallTimeoutMs: new(int64(2)), HealthCheckIntervalMs: new(int64(3)), GracePeriodMs: new(int64(4)),
		}))
	diff(t, "delay", 1500*time.Millisecond, events.RestartScheduled{DelayMs: 1500}.Delay())
}

// M1: the defaults when the object is there.
func TestRestartPolicyDefaults(t *testing.T) {
	diff(t, "defaults", events.RestartPolicy{
		InitialDelayMs: new(int64(1000)), MaxDelayMs: new(int64(30_000)), BackoffMultiplier: new(2.0),
		MaxRestartAttempts: new(10), StablePeriodMs: new(int64(300_000)),
	}, events.RestartPolicy{}.WithDefaults())
	given := *localDefinition().RestartPolicy
	diff(t, "given", given, given.WithDefaults())
}
