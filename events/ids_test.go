package events_test

import (
	"strings"
	"testing"

	"github.com/cockroachdb/errors"
	"pgregory.net/rapid"

	"github.com/toolfleet/toolfleet/events"
)

var parsers = map[string]func(string) (string, error){
	"fleet":    func(s string) (string, error) { id, err := events.ParseFleetID(s); return string(id), err },
	"server":   func(s string) (string, error) { id, err := events.ParseServerID(s); return string(id), err },
	"instance": func(s string) (string, error) { id, err := events.ParseInstanceID(s); return string(id), err },
	"worker":   func(s string) (string, error) { id, err := events.ParseWorkerID(s); return string(id), err },
}

// M2: ids are ASCII letters, digits, '-' and '_', and the refusal says so.
func TestParseIDs(t *testing.T) {
	for what, parse := range parsers {
		for _, id := range []string{"a", "0", "-", "_", "GitHub-2_b", strings.Repeat("x", events.MaxIDLength)} {
			if got, err := parse(id); err != nil || got != id {
				t.Errorf("%s id %q became %q, %v", what, id, got, err)
			}
		}
		for _, id := range []string{
			"", ".", "a.b", "a*", ">", "a b", " ", "a\n", "\x00", "a\x7f", "a/b", "a:b", "$x", "é",
			"gіthub",  // a Cyrillic і
			"ｇithub",  // a full-width g
			"git‑hub", // a non-breaking hyphen
			"a\u200bb", "\xff", strings.Repeat("x", events.MaxIDLength+1), strings.Repeat("x", 300),
		} {
			got, err := parse(id)
			if err == nil || got != "" || !errors.Is(err, events.ErrInvalidID) {
				t.Errorf("%s id %q became %q, %v", what, id, got, err)
				continue
			}
			if text := err.Error(); !strings.Contains(text, what+" id") || len(text) > 700 {
				t.Errorf("%s id %q: %v", what, id, err)
			}
			if len(id) > 0 && len(id) < 100 && !strings.Contains(err.Error(), "ASCII letters, digits, '-' and '_'") {
				t.Errorf("the refusal of %q does not say what is allowed: %v", id, err)
			}
		}
	}
}

func TestScope(t *testing.T) {
	for _, c := range []struct {
		text  string
		scope events.Scope
		label string
	}{
		{"", events.FleetScope, ""},
		{"fleet", events.FleetScope, ""},
		{"project:api", events.ProjectScope("api"), "api"},
		{"project:git.example/a b", "project:git.example/a b", "git.example/a b"},
	} {
		scope, err := events.ParseScope(c.text)
		if err != nil {
			t.Errorf("%q: %v", c.text, err)
		}
		label, project := scope.Project()
		diff(t, "scope", c.scope, scope)
		if project != (c.label != "") || project && label != c.label {
			t.Errorf("%q is of the project %q, %v", c.text, label, project)
		}
	}
	for _, text := range []string{"project:", "project", "Fleet", "fleet:x", "user:a"} {
		if scope, err := events.ParseScope(text); err == nil {
			t.Errorf("%q became %q", text, scope)
		}
	}
}

// anyID draws a legal id.
func anyID() *rapid.Generator[string] { return rapid.StringMatching(`[A-Za-z0-9_-]{1,12}`) }

func anyChain() *rapid.Generator[events.Chain] {
	return rapid.Custom(func(t *rapid.T) events.Chain {
		a, b := anyID().Draw(t, "id"), anyID().Draw(t, "instance")
		return rapid.SampledFrom([]events.Chain{
			events.ServerChain(events.ServerID(a)), events.WorkerChain(events.WorkerID(a)), events.FleetChain(),
			events.InstanceChain(events.ServerID(a), events.InstanceID(b)),
		}).Draw(t, "chain")
	})
}

func TestSubjectsRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f, c := events.FleetID(anyID().Draw(t, "fleet")), anyChain().Draw(t, "of")
		gotFleet, gotChain, err := events.ParseEventSubject(c.Subject(f))
		if err != nil || gotFleet != f || gotChain != c {
			t.Fatalf("%s became %s, %s, %v", c.Subject(f), gotFleet, gotChain, err)
		}
		if got, err := events.ParseChain(c.String()); err != nil || got != c {
			t.Fatalf("%s became %s, %v", c, got, err)
		}
		a := events.Address{
			Worker: events.WorkerID(anyID().Draw(t, "worker")), Server: c.Server(), Instance: "0",
		}
		if a.Server == "" {
			a.Server = "github"
		}
		gotFleet, gotAddress, err := events.ParseCommandSubject(a.Subject(f))
		if err != nil || gotFleet != f || gotAddress != a {
			t.Fatalf("%s became %s, %v, %v", a.Subject(f), gotFleet, gotAddress, err)
		}
	})
}

func TestChainParts(t *testing.T) {
	for _, c := range []struct {
		chain    events.Chain
		kind     events.ChainKind
		server   events.ServerID
		instance events.InstanceID
		worker   events.WorkerID
		text     string
		of       string
	}{
		{server, events.OfServer, "github", "", "", "server.github", "server"},
		{instance, events.OfInstance, "github", "0", "", "instance.github.0", "instance"},
		{worker, events.OfWorker, "", "", "host-a", "worker.host-a", "worker"},
		{fleet, events.OfFleet, "", "", "", "fleet", "fleet"},
		{events.Chain{}, 0, "", "", "", "none", "none"},
	} {
		diff(t, c.text+": kind", c.kind, c.chain.Kind())
		diff(t, c.text+": kind in words", c.of, c.chain.Kind().String())
		diff(t, c.text+": server", c.server, c.chain.Server())
		diff(t, c.text+": instance", c.instance, c.chain.Instance())
		diff(t, c.text+": worker", c.worker, c.chain.Worker())
		diff(t, "text", c.text, c.chain.String())
		diff(t, "subject", "tf.evt.prod."+c.text, c.chain.Subject("prod"))
	}
}

func TestOtherSubjects(t *testing.T) {
	diff(t, "events", "tf.evt.prod.", events.EventPrefix("prod"))
	diff(t, "commands", "tf.cmd.prod.", events.CommandPrefix("prod"))
	diff(t, "calls", "tf.call.prod.github.0.8", events.CallSubject("prod", "github", "0", 8))
	diff(t, "calls in flight", "tf.calls.prod.host-a", events.CallsSubject("prod", "host-a"))
	diff(t, "logs", "tf.logs.prod.host-a", events.LogsSubject("prod", "host-a"))
	diff(t, "command", "tf.cmd.prod.host-a.github.0",
		events.Address{Worker: "host-a", Server: "github", Instance: "0"}.Subject("prod"))
}

func TestParseSubjectsRefuses(t *testing.T) {
	long := strings.Repeat("x", events.MaxIDLength+1)
	for _, subject := range []string{
		"", ".", "tf.evt", "tf.evt.", "tf.evt.f", "tf.evt.f.", "tf.evt.f.server", "tf.evt.f.server.", "tf.evt.f.server.a.b",
		"tf.evt.f.server.a.", "tf.evt.f.fleet.", "tf.evt.f.fleet.a", "tf.evt.f.instance.a", "tf.evt.f.instance.a.",
		"tf.evt.f.instance..0", "tf.evt.f.instance.a.0.1", "tf.evt.f.worker.*", "tf.evt.f.worker.>", "tf.evt.*.fleet",
		"tf.evt.f.worker.a b", "tf.evt.f.worker.é", "xtf.evt.f.fleet", "tf.evt.f.Fleet", "tf.evt.f.none",
		"tf.evt.f.worker." + long, "tf.evt." + long + ".fleet", "tf.cmd.f.a.b.c",
	} {
		if f, c, err := events.ParseEventSubject(subject); !errors.Is(err, events.ErrInvalidSubject) {
			t.Errorf("%q became %q, %s, %v", subject, f, c, err)
		}
	}
	for _, subject := range []string{
		"", "tf.cmd.f", "tf.cmd.f.a.b", "tf.cmd.f.a.b.c.d", "tf.cmd.f.a.b.", "tf.cmd.f..b.c", "tf.cmd.f.*.b.c",
		"tf.cmd.f.a.b.>", "tf.cmd.f.a.b.c ", "tf.evt.f.a.b.c", "tf.cmd.f.a.b." + long,
	} {
		if f, a, err := events.ParseCommandSubject(subject); !errors.Is(err, events.ErrInvalidSubject) {
			t.Errorf("%q became %q, %v, %v", subject, f, a, err)
		}
	}
}
