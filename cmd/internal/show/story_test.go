package show_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/toolfleet/toolfleet/cmd/internal/show"
	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/events/callwire"
	"github.com/toolfleet/toolfleet/projections/story"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.Local)

func TestAnswer(t *testing.T) {
	a := &story.Answer{
		Subject: "github", Kind: story.IsServer, State: "parked", Summary: "github does not work",
		Because: []story.Step{
			{Seq: 12, Time: noon, Kind: events.KindFailed, Chain: "instance.github.0", Text: "it failed: \x1b[31m"},
			{Seq: 2, Time: noon, Kind: events.KindDeclared, Chain: "server.github", Text: "it was declared", Actor: "ann@laptop", Reason: "for\nreviews"},
		},
		Help: "look",
	}
	var b strings.Builder
	if err := show.Answer(&b, as(t, show.Text), a); err != nil {
		t.Fatal(err)
	}
	want := "github does not work\n" +
		"  12      2026-01-02 12:00:00  it failed: �[31m\n" +
		"  2       2026-01-02 12:00:00  it was declared, by ann@laptop \"for\\nreviews\"\n" +
		"  what helps: look\n"
	if diff := cmp.Diff(want, b.String()); diff != "" {
		t.Errorf("text (-want +got):\n%s", diff)
	}
	b.Reset()
	if err := show.Answer(&b, as(t, show.JSON), a); err != nil {
		t.Fatal(err)
	}
	for _, member := range []string{`"subject": "github"`, `"kind": "server"`, `"because": [`, `"actor": ""`, `"help": "look"`} {
		if !strings.Contains(b.String(), member) {
			t.Errorf("no %s in %s", member, b.String())
		}
	}
}

func TestDifference(t *testing.T) {
	d := &story.Difference{
		Servers: []story.ServerChange{
			{ID: "a", Change: story.Added, Fields: []story.FieldChange{{Name: "command", From: []byte("null"), To: []byte(`"x"`)}}},
			{ID: "b", Change: story.Changed, Restarts: 2, Fields: []story.FieldChange{
				{Name: "args", From: []byte("null"), To: []byte(`["-v"]`)}, {Name: "state", From: []byte(`"ready"`), To: []byte(`"parked"`)},
			}},
		},
		Tools: []story.ToolChange{
			{Server: "b", Name: "b__x", Tool: "x", Change: story.Removed}, {Server: "c", Change: story.Unreadable},
		},
		Workers: []story.WorkerChange{{ID: "w", Change: story.Changed, Joins: 1, Fields: []story.FieldChange{
			{Name: "state", From: []byte(`"joined"`), To: []byte(`"lost"`)},
		}}},
	}
	var b strings.Builder
	if err := show.Difference(&b, as(t, show.Table), d); err != nil {
		t.Fatal(err)
	}
	want := `WHAT     NAME         CHANGE       MEMBER     FROM     TO
server   a            added
server   b            changed      args                ["-v"]
server   b            changed      state      ready    parked
server   b            changed      restarts            +2
tool     b__x         removed
tool     tools of c   unreadable
worker   w            changed      state      joined   lost
worker   w            changed      starts              +1
`
	if diff := cmp.Diff(want, b.String()); diff != "" {
		t.Errorf("table (-want +got):\n%s", diff)
	}
	if show.None(d) || !show.None(&story.Difference{}) {
		t.Error("whether there is none is told wrongly")
	}
}

func TestCalls(t *testing.T) {
	c := show.NewCall("host-a", &callwire.InFlight{
		Call: "c1", Server: "git", Instance: "0", Method: "tools/call", Tool: "log", Actor: "session:x", Began: noon, State: callwire.CallSent,
	}, noon.Add(2345*time.Millisecond))
	var b strings.Builder
	if err := show.Calls.Write(&b, as(t, show.Wide), []show.Call{c}); err != nil {
		t.Fatal(err)
	}
	want := "CALL   SERVER   TOOL   ACTOR       FOR    STATE   METHOD       INSTANCE   WORKER\n" +
		"c1     git      log    session:x   2.3s   sent    tools/call   0          host-a\n"
	if diff := cmp.Diff(want, b.String()); diff != "" {
		t.Errorf("table (-want +got):\n%s", diff)
	}
	// A worker whose clock is ahead began nothing in the future.
	if early := show.NewCall("w", &callwire.InFlight{Began: noon.Add(time.Hour)}, noon); early.ForMs != 0 {
		t.Errorf("for %d ms", early.ForMs)
	}
}
