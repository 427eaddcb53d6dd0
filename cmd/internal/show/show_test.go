package show_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/toolfleet/toolfleet/cmd/internal/show"
	"github.com/toolfleet/toolfleet/events"
)

func record(e events.Event, seq events.Seq) *events.Record {
	e.Time = time.Date(2026, 1, 2, 3, 4, 5, 6000000, time.UTC)
	return &events.Record{Event: e, Seq: seq}
}

// as returns the flag -o with that value.
func as(t *testing.T, format string) *show.Format {
	t.Helper()
	f := show.NewFormat(show.Table, show.Wide, show.Name, show.JSON, show.YAML, show.Text)
	if err := f.Set(format); err != nil {
		t.Fatal(err)
	}
	return f
}

func TestEventJSON(t *testing.T) {
	for _, tt := range []struct {
		name string
		r    *events.Record
		want string
	}{
		{
			"of an instance",
			record(events.Event{
				Chain: events.InstanceChain("github", "0"), Body: events.Failed{Failure: events.Failure{Code: events.Killed}, Attempt: 1, Signal: "SIGKILL"},
				Source: "toolfleet/default/worker/host-a", Epoch: 3, Attempt: 1, Cause: "c", ID: "e",
			}, 7),
			`{"seq":7,"time":"2026-01-02T03:04:05.006Z","kind":"failed","chain":"instance.github.0","worker":"host-a","epoch":3,"attempt":1,` +
				`"actor":"","reason":"","cause":"c","correlation":"","id":"e","source":"toolfleet/default/worker/host-a","traceparent":"","prev":"","link":"","body":{"failure":{"code":"killed"},"attempt":1,"signal":"SIGKILL"}}`,
		},
		{
			"of a request",
			record(events.Event{
				Chain: events.ServerChain("github"), Body: events.Withdrawn{}, Source: "toolfleet/default/controller/x",
				Actor: "me@host", Reason: "no need", Correlation: "r1", ID: "e", Data: []byte(`{"later":1}`),
			}, 8),
			`{"seq":8,"time":"2026-01-02T03:04:05.006Z","kind":"withdrawn","chain":"server.github","worker":"","epoch":0,"attempt":0,` +
				`"actor":"me@host","reason":"no need","cause":"","correlation":"r1","id":"e","source":"toolfleet/default/controller/x","traceparent":"","prev":"","link":"","body":{"later":1}}`,
		},
		{
			"of a worker",
			record(events.Event{Chain: events.WorkerChain("host-a"), Body: events.Draining{}, Source: "toolfleet/default/controller/x"}, 9),
			`{"seq":9,"time":"2026-01-02T03:04:05.006Z","kind":"draining","chain":"worker.host-a","worker":"host-a","epoch":0,"attempt":0,` +
				`"actor":"","reason":"","cause":"","correlation":"","id":"","source":"toolfleet/default/controller/x","traceparent":"","prev":"","link":"","body":{}}`,
		},
		{
			"that is none",
			record(events.Event{Chain: events.FleetChain(), Body: events.Undecodable{Reason: "no ce-id"}}, 10),
			`{"seq":10,"time":"2026-01-02T03:04:05.006Z","kind":"undecodable","chain":"fleet","worker":"","epoch":0,"attempt":0,` +
				`"actor":"","reason":"","cause":"","correlation":"","id":"","source":"","traceparent":"","prev":"","link":"","body":{"reason":"no ce-id"}}`,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var b strings.Builder
			if err := show.Event(&b, as(t, show.JSON), tt.r); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want+"\n", b.String()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// Each kind says its few facts, and no JSON.
func TestEventFacts(t *testing.T) {
	exit := 1
	failure := events.NewFailure(events.StartupCrash, events.PhaseHandshake, "it ended")
	server, instance, worker := events.ServerChain("s"), events.InstanceChain("s", "0"), events.WorkerChain("host-a")
	for _, tt := range []struct {
		e    events.Event
		want string
	}{
		{
			events.Event{Chain: server, Body: events.Declared{Definition: events.Definition{Command: "npx", Args: []string{"-y", "x"}}}, Actor: "ann@build", Reason: "new"},
			`server.s                      declared            npx -y x, by ann@build, "new"`,
		},
		{
			events.Event{Chain: server, Body: events.Updated{
				From: events.Definition{Command: "a", Env: map[string]string{"A": "1"}, Cwd: "/x"},
				To:   events.Definition{Command: "a", Env: map[string]string{"A": "2"}, EnvFile: "/f"},
			}, Actor: "system:plan"},
			`server.s                      updated             changed: cwd env envFile`,
		},
		{events.Event{Chain: server, Body: events.Withdrawn{}}, `server.s                      withdrawn`},
		{
			events.Event{Chain: events.FleetChain(), Body: events.Rejected{ID: "a b", Reasons: []events.Problem{{Message: "no good"}}}},
			`fleet                         rejected            a b, no good`,
		},
		{
			events.Event{Chain: instance, Body: events.Assigned{Worker: "host-a", Epoch: 3, Reason: "placed"}},
			`instance.s.0                  assigned            to host-a, epoch 3, placed`,
		},
		{
			events.Event{Chain: instance, Body: events.Connecting{Attempt: 2, Definition: "0123456789abcdef"}},
			`instance.s.0                  connecting          attempt 2, definition 01234567`,
		},
		{
			events.Event{Chain: instance, Body: events.Connected{Protocol: "2025-11-25", PID: 7}},
			`instance.s.0                  connected           protocol 2025-11-25, pid 7`,
		},
		{
			events.Event{Chain: instance, Body: events.ToolsListed{Listing: events.Listing{
				Digest: "fedcba9876543210", Count: 1, From: "x", Added: events.Names{Count: 1, Names: []string{"t"}}, Removed: events.Names{Count: 300},
			}}},
			`instance.s.0                  tools-listed        1 tool, added t, removed 300, digest fedcba98`,
		},
		{
			events.Event{Chain: instance, Body: events.Failed{Failure: failure, Attempt: 4, Exit: &exit, StderrTail: "a\nlast words\n"}},
			`instance.s.0                  failed              startup_crash: it ended, attempt 4, exit 1, stderr "last words"`,
		},
		{
			events.Event{Chain: instance, Body: events.RestartScheduled{DelayMs: 1500, Attempt: 5}},
			`instance.s.0                  restart-scheduled   attempt 5 in 1.5s`,
		},
		{
			events.Event{Chain: instance, Body: events.Restarted{Attempt: 5, DowntimeMs: 90000}},
			`instance.s.0                  restarted           attempt 5, down for 1m30s`,
		},
		{
			events.Event{Chain: instance, Body: events.Parked{Failure: failure, ProbeMs: 15000}},
			`instance.s.0                  parked              startup_crash: it ended, tried again in 15s`,
		},
		{events.Event{Chain: instance, Body: events.HasStopped{How: "closed"}}, `instance.s.0                  stopped             closed`},
		{
			events.Event{Chain: worker, Body: events.Joined{Host: "h", Labels: map[string]string{"zone": "eu", "a": "b"}, Versions: map[string]string{"toolfleet": "v1"}}},
			`worker.host-a                 joined              host h, a=b zone=eu, toolfleet v1`,
		},
		{events.Event{Chain: worker, Body: events.Lost{Worker: "host-a"}}, `worker.host-a                 lost                worker host-a`},
		{events.Event{Chain: server, Body: events.Undecodable{Reason: "no ce-id"}}, `server.s                      undecodable         no ce-id`},
	} {
		var b strings.Builder
		if err := show.Event(&b, as(t, show.Table), record(tt.e, 12)); err != nil {
			t.Fatal(err)
		}
		_, got, _ := strings.Cut(b.String(), "  12      ")
		if got != tt.want+"\n" {
			t.Errorf("got  %swant %s", got, tt.want)
		}
	}
}

func TestEventIsOneBoundedLine(t *testing.T) {
	var b strings.Builder
	r := record(events.Event{
		Chain: events.InstanceChain("s", "0"), Epoch: 2, Source: "toolfleet/default/worker/host-a",
		Body: events.Failed{Failure: events.Failure{Code: events.Killed, Message: "\u202e\u009b31m\nx" + strings.Repeat("x", 1000)}},
	}, 1)
	if err := show.Event(&b, as(t, show.Table), r); err != nil {
		t.Fatal(err)
	}
	line := b.String()
	if strings.Count(line, "\n") != 1 || len([]rune(line)) > 401 || strings.ContainsAny(line, "\u202e\u009b") {
		t.Errorf("got %q", line)
	}
}

func TestClean(t *testing.T) {
	if got, want := show.Clean("a\x1b[31mb\nc\u202ed\xffé\u009b"), "a�[31mb c�d�é�"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
