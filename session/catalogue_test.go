package session

import (
	"fmt"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"

	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/projections"
)

// offered returns what a viewpoint is offered, as "name state" lines.
func offered(c *catalogue) string {
	var b strings.Builder
	for _, t := range c.tools {
		fmt.Fprintf(&b, "%s %s\n", t.Name, t.State)
	}
	return b.String()
}

func check(t *testing.T, what string, c *catalogue, want ...string) {
	t.Helper()
	if diff := cmp.Diff(strings.Join(append(want, ""), "\n"), offered(c)); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

func TestStatesOfTools(t *testing.T) {
	f, v, c := newScene(t), &viewpoint{}, &catalogue{}
	next := func() { c, _ = c.next(f, v) }
	chain := events.InstanceChain("git", "0")

	f.declare("git")
	next()
	check(t, "declared", c)
	f.connecting("git", "0", "w")
	next()
	check(t, "connecting for the first time", c)
	f.list("git", "0", "log", "diff")
	next()
	check(t, "ready", c, "git__diff live", "git__log live") // R19
	f.tell(chain, events.Failed{Failure: events.NewFailure(events.Killed, events.PhaseRun, ""), Attempt: 1})
	next()
	check(t, "killed", c, "git__diff stale", "git__log stale") // T8
	f.connecting("git", "0", "w")
	next()
	check(t, "with another owner", c, "git__diff deferred", "git__log deferred") // R15
	f.list("git", "0", "log")
	next()
	check(t, "back with fewer tools", c, "git__log live") // R16
	crash := events.NewFailure(events.Killed, events.PhaseRun, "")
	f.tell(chain, events.Failed{Failure: crash, Attempt: 1}, events.RestartScheduled{})
	next()
	check(t, "backing off", c, "git__log stale")
	f.tell(chain, events.Parked{Failure: crash})
	next()
	check(t, "given up", c) // T8
	f.ready("git", "0", "w", "log")
	next()
	check(t, "back again", c, "git__log live")
	f.tell(events.ServerChain("git"), events.Disabled{})
	f.tell(chain, events.HasStopped{})
	next()
	check(t, "disabled", c)
	f.tell(events.ServerChain("git"), events.Withdrawn{})
	next()
	check(t, "withdrawn", c)
}

// R16, R19
func TestAServerDoesNotTouchAnother(t *testing.T) {
	f, v, c := newScene(t), &viewpoint{}, &catalogue{}
	f.declare("a")
	f.ready("a", "0", "w", "x", "y")
	f.declare("b")
	f.ready("b", "0", "w", "z")
	c, _ = c.next(f, v)
	check(t, "both", c, "a__x live", "a__y live", "b__z live")
	before := c
	f.tell(events.WorkerChain("w"), events.Joined{})
	c, changed := c.next(f, v)
	if changed || &c.tools[0] != &before.tools[0] {
		t.Error("an event that changes no tools made another list")
	}
	f.connecting("b", "0", "w2")
	c, changed = c.next(f, v)
	if !changed {
		t.Error("a change of state was not announced")
	}
	check(t, "b moves", c, "a__x live", "a__y live", "b__z deferred")
	check(t, "the former list", before, "a__x live", "a__y live", "b__z live")
}

// R16, T7: a list that is on its way leaves no gap, and no former one is live.
func TestToolsStayUntilTheNextOnesAreKnown(t *testing.T) {
	f, v, c := newScene(t), &viewpoint{}, &catalogue{}
	ready := func() bool {
		n := c.member("a").status()
		return c.member("a").ready(&n)
	}
	f.declare("a")
	f.ready("a", "0", "w", "x")
	c, _ = c.next(f, v)
	f.connecting("a", "0", "w2")
	f.list("a", "0", "x", "y")
	listed := f.tools["a.0"]
	delete(f.tools, "a.0")
	c, _ = c.next(f, v)
	check(t, "not there yet, though the status was deferred in between", c, "a__x live")
	if ready() {
		t.Error("ready with tools of another connection")
	}
	f.connecting("a", "0", "w3")
	c, _ = c.next(f, v)
	f.tell(events.InstanceChain("a", "0"), events.Connected{}, events.ToolsListed{Listing: events.Listing{
		Digest: events.DigestOf(fmt.Append(nil, listed)), Count: len(listed),
	}})
	f.tools["a.0"] = []jsontext.Value{jsontext.Value(`{"name":"z"}`)} // what the views tell may be older, or newer
	c, _ = c.next(f, v)
	check(t, "another list", c, "a__x deferred")
	f.tools["a.0"] = listed
	c, _ = c.next(f, v)
	check(t, "the list of this connection", c, "a__x live", "a__y live")
	if !ready() {
		t.Error("not ready")
	}
}

// R17: what was listed for another definition is not offered.
func TestToolsBelongToADefinition(t *testing.T) {
	f, v, c := newScene(t), &viewpoint{}, &catalogue{}
	f.declare("a")
	f.ready("a", "0", "w", "x")
	c, _ = c.next(f, v)
	f.tell(events.ServerChain("a"), events.Updated{To: events.Definition{Command: "another"}})
	f.connecting("a", "0", "w")
	c, _ = c.next(f, v)
	check(t, "another definition", c)
	f.list("a", "0")
	c, _ = c.next(f, v)
	check(t, "ready without tools", c)
	if n := c.member("a").status(); !c.member("a").ready(&n) {
		t.Error("a server without tools is not ready")
	}
}

// R26, R27
func TestStoppedServersAreGone(t *testing.T) {
	f, v, c := newScene(t), &viewpoint{}, &catalogue{}
	for _, id := range []events.ServerID{"a", "b", "a_b"} { // b's tools and a_b's look like a's
		f.declare(id)
		f.ready(id, "0", "w", "x", "b__x")
	}
	c, _ = c.next(f, v)
	stop := func(id events.ServerID) (changed bool) {
		f.tell(events.ServerChain(id), events.StopRequested{})
		f.tell(events.InstanceChain(id, "0"), events.Stopping{}, events.HasStopped{})
		c, changed = c.next(f, v)
		return changed
	}
	if !stop("a") {
		t.Error("nobody was told")
	}
	check(t, "one stopped", c, "a_b__b__x live", "a_b__x live", "b__b__x live", "b__x live")
	stop("b")
	stop("a_b")
	check(t, "all stopped", c)
	// What an older attempt completes changes nothing.
	for _, id := range []events.ServerID{"a", "b", "a_b"} {
		f.tell(events.InstanceChain(id, "0"), events.Connected{}, events.ToolsListed{Listing: events.Listing{
			Digest: events.DigestOf(fmt.Append(nil, f.tools[string(id)+".0"])), Count: 2,
		}})
	}
	c, changed := c.next(f, v)
	check(t, "late completions", c)
	if changed {
		t.Error("late completions were announced")
	}
}

// R3
func TestProjects(t *testing.T) {
	in := func(project, name string) func(*events.Definition) {
		return func(d *events.Definition) {
			d.Scope, d.Labels = events.ProjectScope(project), map[string]string{"name": name}
		}
	}
	f := newScene(t)
	f.declare("git")
	f.ready("git", "0", "w", "log")
	f.declare("db")
	f.ready("db", "0", "w", "query")
	f.declare("git-shop", in("shop", "git"))
	f.ready("git-shop", "0", "w", "log")
	f.declare("git-bank", in("bank", "git"))
	f.ready("git-bank", "0", "w", "log")
	for _, tt := range []struct {
		project string
		want    []string
	}{
		{"", []string{"db__query live", "git__log live"}},
		{"shop", []string{"db__query live", "git-shop__log live"}},
		{"bank", []string{"db__query live", "git-bank__log live"}},
		{"none", []string{"db__query live", "git__log live"}},
	} {
		c, _ := (&catalogue{}).next(f, &viewpoint{project: tt.project})
		check(t, "project "+tt.project, c, tt.want...)
	}
}

func TestChoiceOfInstance(t *testing.T) {
	f := newScene(t)
	f.declare("git")
	for _, n := range []events.InstanceID{"0", "1", "2"} {
		f.ready("git", n, "w"+events.WorkerID(n), "log")
	}
	used := func(v *viewpoint, c *catalogue) events.InstanceID {
		n, _ := c.next(f, v)
		*c = *n
		return c.member("git").instance
	}
	for _, n := range []events.InstanceID{"0", "1", "2"} {
		v := &viewpoint{chooser: chooser{session: "s", host: "w" + events.WorkerID(n)}}
		if got := used(v, &catalogue{}); got != n {
			t.Errorf("a session on w%s uses instance %s", n, got)
		}
	}
	near := &viewpoint{chooser: chooser{session: "s", host: "w1"}}
	c := &catalogue{}
	used(near, c)
	f.tell(events.InstanceChain("git", "1"), events.Failed{Failure: events.NewFailure(events.Killed, events.PhaseRun, "")})
	other := used(near, c)
	if other == "1" {
		t.Error("the session uses an instance that does not work")
	}
	f.ready("git", "1", "w1", "log")
	if got := used(near, c); got != other {
		t.Errorf("the session moved from %s, which works, to %s", other, got)
	}
	spread := make(map[events.InstanceID]int)
	for i := range 100 {
		v := &viewpoint{chooser: chooser{session: fmt.Sprint("s", i)}}
		spread[used(v, &catalogue{})]++
	}
	for _, n := range []events.InstanceID{"0", "1", "2"} {
		if spread[n] < 15 {
			t.Errorf("of 100 sessions %d use instance %s: %v", spread[n], n, spread)
		}
	}
}

func TestDescribe(t *testing.T) {
	for _, tt := range []struct {
		name, definition string
		want             Tool
		ok               bool
	}{
		{
			"whole", `{"name":"a","description":"d","inputSchema":{"$schema":"x","n":12345678901234567890},"annotations":{"readOnlyHint":true}}`,
			Tool{Tool: "a", Description: "d", InputSchema: jsontext.Value(`{"$schema":"x","n":12345678901234567890}`), Replayable: true},
			true,
		},
		{"idempotent", `{"name":"a","annotations":{"idempotentHint":true}}`, Tool{Tool: "a", Replayable: true}, true},
		{"of other types", `{"name":"a","description":7,"annotations":{"readOnlyHint":"yes"}}`, Tool{Tool: "a"}, true},
		{"no name", `{"description":"d"}`, Tool{}, false},
		{"no object", `[]`, Tool{}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, ok := describe(jsontext.Value(tt.definition))
			got.Definition = nil
			if diff := cmp.Diff(tt.want, got); diff != "" || ok != tt.ok {
				t.Errorf("ok %v (-want +got):\n%s", ok, diff)
			}
		})
	}
}

func TestPath(t *testing.T) {
	for _, tt := range []struct {
		source *events.Source
		want   string
	}{
		{nil, "mcp:git"},
		{&events.Source{Provider: "file"}, "mcp:git via file"},
		{&events.Source{Provider: "claude-code", Name: "Claude Code"}, "mcp:git via Claude Code"}, // R18
	} {
		s := &projections.Server{ID: "git", Definition: &events.Definition{Source: tt.source}}
		if got := pathOf(s); got != tt.want {
			t.Errorf("got %q, want %q", got, tt.want)
		}
	}
}
