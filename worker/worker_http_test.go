package worker

import (
	"strings"
	"testing"

	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/events/eventstest"
	"github.com/toolfleet/toolfleet/worker/mcptest"
)

func TestWorkerHTTPServer(t *testing.T) {
	s := mcptest.NewHTTP(t, mcptest.Script{Tools: mcptest.Special})
	r := newRig(t)
	r.secrets["${secret:s/header.Authorization#1}"] = "Bearer hunter2-hunter2"
	r.start()
	t.Setenv("TEST_MCP_URL", s.URL)
	r.run("s", events.Definition{
		URL: "${TEST_MCP_URL}", Headers: map[string]string{"Authorization": "${secret:s/header.Authorization#1}"},
	})
	seen := r.see("s", 0, events.KindConnecting, events.KindConnected, ready)
	if c := seen[1].Body.(events.Connected); c.URL != "${TEST_MCP_URL}" || c.PID != 0 { // T9
		t.Errorf("connected %+v", c)
	}
	if got := s.Seen()[0].Header.Get("Authorization"); got != "Bearer hunter2-hunter2" {
		t.Errorf("the header is %q", got)
	}
	if got := r.call(t.Context(), "s", "grow", `{"times":5}`); got.err != nil {
		t.Fatalf("grow: %+v", got.err)
	}
	changed := r.see("s", seen[2].Seq, ready)
	if l := last[events.ToolsListed](t, changed); l.Added.Count != 1 {
		t.Errorf("listed %+v", l)
	}
	s.Forget() // K1
	got := r.call(t.Context(), "s", "echo", "{}")
	if got.err == nil || !strings.Contains(got.err.Failure.Message, "forgotten the session") {
		t.Errorf("a call in a forgotten session: %+v", got.err)
	}
	again := r.see("s", changed[0].Seq, events.KindFailed, events.KindConnecting, ready, events.KindRestarted)
	s.Stop() // R29, case I11
	r.see("s", again[3].Seq, events.KindFailed, events.KindRestartScheduled, events.KindConnecting, events.KindFailed)
	if err := r.finish(); err != nil {
		t.Error(err)
	}
	if all := eventstest.Lines(r.stored()) + r.logs.String(); strings.Contains(all, "hunter2") {
		t.Errorf("the secret is in:\n%s", all)
	}
}

func TestWorkerAuthRequired(t *testing.T) {
	r := newRig(t)
	r.start()
	s := mcptest.NewHTTP(t, mcptest.Script{Tools: []string{"echo"}})
	s.Answer(unauthorized)
	d := events.Definition{URL: s.URL}
	r.run("s", d)
	seen := r.see("s", 0, events.KindConnecting, events.KindAuthRequired)
	if a := last[events.AuthRequired](t, seen); !strings.Contains(a.Hint, "401") {
		t.Errorf("auth-required %+v", a)
	}
	s.Answer(nil)
	r.command("s", events.Command{Definition: &d, Generation: 2, Restart: 2})
	r.see("s", seen[1].Seq, events.KindConnecting, ready, events.KindRestarted)
	if got := r.kinds("s"); got != "assigned connecting auth-required connecting connected tools-listed restarted" {
		t.Errorf("the chain says %s", got)
	}
}
