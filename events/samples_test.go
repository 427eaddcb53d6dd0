package events_test

import (
	"reflect"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/toolfleet/toolfleet/events"
)

const (
	digestA = events.Digest("0a1b2c3d4e5f60718293a4b5c6d7e8f90a1b2c3d4e5f60718293a4b5c6d7e8f9")
	digestB = events.Digest("f9e8d7c6b5a4938271605f4e3d2c1b0af9e8d7c6b5a4938271605f4e3d2c1b0a")
)

var (
	server   = events.ServerChain("github")
	instance = events.InstanceChain("github", "0")
	worker   = events.WorkerChain("host-a")
	fleet    = events.FleetChain()
)

// samples returns one event of every kind, with every field set that the kind
// can have. Ids and times are fixed.
func samples() []events.Event {
	failure := events.Failure{
		Code: events.StartupCrash, Phase: events.PhaseSpawn,
		Message: "the process ended before the handshake", Retry: true,
	}
	local, remote := localDefinition(), remoteDefinition()
	listing := listing()
	bodies := []struct {
		chain events.Chain
		body  events.Body
	}{
		{server, events.Declared{Definition: local}},
		{server, events.Updated{From: local, To: remote}},
		{server, events.UpdateSettled{}},
		{server, events.UpdateRolledBack{Failure: failure}},
		{server, events.Enabled{}},
		{server, events.Disabled{}},
		{server, events.Withdrawn{}},
		{fleet, events.Rejected{
			ID: "my server", Source: &source,
			Reasons: []events.Problem{{Code: events.InvalidID, Path: "/command", Message: "the id has a space"}},
		}},
		{server, events.RestartRequested{}},
		{server, events.StartRequested{}},
		{server, events.StopRequested{}},
		{server, events.MoveRequested{Worker: "host-b"}},
		{instance, events.Assigned{Worker: "host-a", Incarnation: "i-17", Epoch: 8, Reason: "host-b was lost"}},
		{instance, events.Connecting{Attempt: 3, Generation: 41, Definition: digestA}},
		{instance, events.Connected{
			Protocol: "2025-11-25", Era: "handshake",
			ServerInfo:   jsontext.Value(`{"name":"github","version":"1.2.3"}`),
			Capabilities: jsontext.Value(`{"tools":{"listChanged":true}}`),
			Instructions: "Ask before you write.", PID: 4711, URL: "https://mcp.example/${PATH}",
		}},
		{instance, events.ToolsListed{Listing: listing}},
		{instance, events.ResourcesListed{Listing: listing}},
		{instance, events.PromptsListed{Listing: listing}},
		{instance, events.Degraded{Failure: failure}},
		{instance, events.Recovered{}},
		{instance, events.Failed{
			Failure: failure, Attempt: 3, Exit: new(1), Signal: "SIGKILL", StderrTail: "panic: no configuration\n",
		}},
		{instance, events.RestartScheduled{DelayMs: 2000, Attempt: 4}},
		{instance, events.Restarted{Attempt: 4, DowntimeMs: 2345}},
		{instance, events.AuthRequired{Hint: "log in with the browser"}},
		{instance, events.Parked{Failure: failure, ProbeMs: 15_000}},
		{instance, events.Stopping{Reason: "the server was disabled"}},
		{instance, events.HasStopped{How: "terminated"}},
		{instance, events.Released{Reason: "moved to host-b"}},
		{instance, events.Lost{Worker: "host-a"}},
		{worker, events.Joined{
			Host: "host-a.example", Incarnation: "i-17", Labels: map[string]string{"zone": "1", "gpu": "no"},
			Versions: map[string]string{"toolfleet": "0.1.0", "go": "1.26.8"}, Capacity: 50,
			Recipients: []string{"age1exampleexampleexample"},
		}},
		{worker, events.Left{Incarnation: "i-17", Reason: "the host is shut down"}},
		{worker, events.Draining{Incarnation: "i-17"}},
		{worker, events.Cordoned{}},
		{worker, events.Uncordoned{}},
		{fleet, events.Frozen{}},
		{fleet, events.Unfrozen{}},
		{fleet, events.SourceFailed{Source: source, Error: "unexpected end of the file"}},
		{fleet, events.Discovered{Source: source, Accepted: []events.ServerID{"github", "files"}, Rejected: 1}},
		{fleet, events.LedBy{Controller: "host-a", Incarnation: "i-9"}},
	}
	out := make([]events.Event, len(bodies))
	for i, b := range bodies {
		out[i] = sample(b.chain, b.body)
	}
	return out
}

// sample returns an event with every field set that its chain has, but Data and
// Extra.
func sample(c events.Chain, b events.Body) events.Event {
	e := events.Event{
		Chain: c, Body: b,
		ID:          "01890a5d-ac96-774b-bcce-b302099a8057",
		Source:      "toolfleet/default/controller/host-b",
		Time:        time.Date(2026, 1, 2, 3, 4, 5, 678_901_200, time.UTC),
		Cause:       "01890a5d-ac96-774b-bcce-b302099a8056",
		Correlation: "apply 7/ß", Actor: "zoë@host-a", Reason: " 50 % of calls fail\n",
		Trace: events.Trace{
			Parent: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
			State:  "vendor=opaque",
		},
		Prev: events.Link(digestB),
	}
	if c.Kind() == events.OfInstance {
		e.Source, e.Epoch, e.Attempt = "toolfleet/default/worker/host-a", 8, 3
	}
	return e
}

var source = events.Source{Provider: "file", Name: "project file", Path: ".mcp.json", Level: "project", Line: 12}

func localDefinition() events.Definition {
	return events.Definition{
		Scope: events.ProjectScope("api"), Source: &source, Labels: map[string]string{"name": "GitHub (work)", "team": "a"},
		Type: events.Stdio, Command: "npx", Args: []string{"-y", "server-github@1.2.3"},
		Env: map[string]string{"LEVEL": "info", "TOKEN": "${secret:github/env.TOKEN#3}"}, EnvFile: ".env", Cwd: "/srv",
		Protocol: "auto", Roots: []string{"file:///srv/project"},
		Disabled: true, Want: events.Stopped,
		EnabledTools: []string{"search"}, DisabledTools: []string{"delete"}, AutoApprove: []string{"search"},
		AllowLiteral:     []string{"LEVEL"},
		ConnectTimeoutMs: new(int64(10_000)), CallTimeoutMs: new(int64(0)),
		HealthCheckIntervalMs: new(int64(30_000)), GracePeriodMs: new(int64(5000)),
		RestartPolicy: &events.RestartPolicy{
			InitialDelayMs: new(int64(1000)), MaxDelayMs: new(int64(30_000)), BackoffMultiplier: new(1.5),
			MaxRestartAttempts: new(0), StablePeriodMs: new(int64(60_000)),
		},
		Update: "overlap", Stateful: new(false), ReplayCalls: true,
		Placement: &events.Placement{Labels: map[string]string{"zone": "1"}, Worker: "host-a", Replicas: 2},
		Unknown:   jsontext.Value(`{"x-icon":"cat.png","x-order":[2,1]}`),
	}
}

func remoteDefinition() events.Definition {
	return events.Definition{
		Type: events.HTTP, URL: "https://mcp.example/v1?key=${secret:github/query.key#1}",
		Headers:   map[string]string{"Authorization": "Bearer ${secret:github/header.Authorization#1}"},
		OAuth:     &events.OAuth{ClientID: "toolfleet", Scopes: []string{"repo", "user"}},
		Placement: &events.Placement{Replicas: events.EachWorker},
	}
}

func listing() events.Listing {
	return events.Listing{
		Digest: digestA, Count: 3, From: digestB,
		Added:   events.Names{Count: 1, Names: []string{"search"}},
		Removed: events.Names{Count: 300, Names: []string{"old_search"}},
		Changed: events.Changes{Count: 1, Items: []events.Change{{Name: "read", From: digestB, To: digestA}}},
		Quarantined: events.Quarantines{Count: 1, Items: []events.Quarantine{
			{Name: "write", Path: "/inputSchema/type", Reason: "the schema's type is not object"},
		}},
	}
}

func TestSamplesCoverEveryKindAndField(t *testing.T) {
	seen := make(map[events.Kind]bool)
	for _, e := range samples() {
		seen[e.Kind()] = true
		unset := make(map[string]bool)
		v := reflect.ValueOf(e.Body)
		collectUnset(v, v.Type().Name(), unset)
		if u, ok := e.Body.(events.Updated); ok {
			// The two definitions complete each other.
			unset = make(map[string]bool)
			a, b := make(map[string]bool), make(map[string]bool)
			collectUnset(reflect.ValueOf(u.From), "Definition", a)
			collectUnset(reflect.ValueOf(u.To), "Definition", b)
			for name := range a {
				unset[name] = b[name]
			}
		}
		if _, ok := e.Body.(events.Declared); ok {
			for _, name := range []string{"URL", "Headers", "OAuth"} { // of the other transport
				delete(unset, "Declared.Definition."+name)
			}
		}
		for name, missing := range unset {
			if missing {
				t.Errorf("the sample of %s leaves %s unset", e.Kind(), name)
			}
		}
	}
	for _, k := range events.Kinds() {
		if !seen[k] {
			t.Errorf("there is no sample of %s", k)
		}
	}
}

// collectUnset names the fields of a struct, at any depth, that have the zero
// value. Pointers count as set, whatever they point to.
func collectUnset(v reflect.Value, path string, unset map[string]bool) {
	switch v.Kind() {
	case reflect.Struct:
		for f, w := range v.Fields() {
			name := path + "." + f.Name
			if w.IsZero() {
				unset[name] = true
			} else {
				collectUnset(w, name, unset)
			}
		}
	case reflect.Pointer:
		if v.Elem().Kind() == reflect.Struct {
			collectUnset(v.Elem(), path, unset)
		}
	case reflect.Slice:
		for i := range v.Len() {
			collectUnset(v.Index(i), path, unset)
		}
	}
}
