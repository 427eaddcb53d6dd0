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
			if err := show.EventJSON(&b, tt.r); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want+"\n", b.String()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestEventIsOneBoundedLine(t *testing.T) {
	var b strings.Builder
	r := record(events.Event{
		Chain: events.InstanceChain("s", "0"), Epoch: 2, Source: "toolfleet/default/worker/host-a",
		Body: events.Failed{StderrTail: strings.Repeat("x", 1000)}, Data: []byte("{\"stderrTail\":\"\u202e\u009b31m" + strings.Repeat("x", 1000) + "\"}"),
	}, 1)
	if err := show.Event(&b, r); err != nil {
		t.Fatal(err)
	}
	line := b.String()
	if strings.Count(line, "\n") != 1 || len([]rune(line)) > 401 || strings.ContainsAny(line, "\u202e\u009b") {
		t.Errorf("got %q", line)
	}
	for _, want := range []string{"instance.s.0", "failed", "host-a#2"} {
		if !strings.Contains(line, want) {
			t.Errorf("%q is not in %q", want, line)
		}
	}
}

func TestClean(t *testing.T) {
	if got, want := show.Clean("a\x1b[31mb\nc\u202ed\xffé\u009b"), "a�[31mb c�d�é�"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
