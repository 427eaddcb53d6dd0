package events_test

import (
	"testing"

	"github.com/toolfleet/toolfleet/events"
)

// R7, R17, T9: what a connection depends on changes the digest; where a
// definition came from, and whether and where it should run, does not.
func TestDigestOfDefinition(t *testing.T) {
	base := localDefinition()
	for name, change := range map[string]func(*events.Definition){
		"source":         func(d *events.Definition) { d.Source = nil },
		"labels":         func(d *events.Definition) { d.Labels = map[string]string{"a": "b"} },
		"disabled":       func(d *events.Definition) { d.Disabled = !d.Disabled },
		"want":           func(d *events.Definition) { d.Want = events.Running },
		"scope":          func(d *events.Definition) { d.Scope = events.FleetScope },
		"autoApprove":    func(d *events.Definition) { d.AutoApprove = nil },
		"placement":      func(d *events.Definition) { d.Placement = nil },
		"a derived type": func(d *events.Definition) { d.Type = "" },
		"a secret's version": func(d *events.Definition) {
			d.Env = map[string]string{"LEVEL": "info", "TOKEN": "${secret:github/env.TOKEN#12}"}
		},
	} {
		changed := localDefinition()
		change(&changed)
		if changed.Digest() != base.Digest() {
			t.Errorf("%s changes the digest", name)
		}
	}
	seen := map[events.Digest]string{base.Digest(): "nothing"}
	for name, change := range map[string]func(*events.Definition){
		"type":           func(d *events.Definition) { d.Type = events.SSE },
		"command":        func(d *events.Definition) { d.Command = "uvx" },
		"args":           func(d *events.Definition) { d.Args = append(d.Args, "--quiet") },
		"order of args":  func(d *events.Definition) { d.Args[0], d.Args[1] = d.Args[1], d.Args[0] },
		"env":            func(d *events.Definition) { d.Env["LEVEL"] = "debug" },
		"another secret": func(d *events.Definition) { d.Env["TOKEN"] = "${secret:github/env.OTHER#3}" },
		"envFile":        func(d *events.Definition) { d.EnvFile = "" },
		"cwd":            func(d *events.Definition) { d.Cwd = "/" },
		"url":            func(d *events.Definition) { d.URL = "https://h.example" },
		"headers":        func(d *events.Definition) { d.Headers = map[string]string{"A": "b"} },
		"oauth":          func(d *events.Definition) { d.OAuth = &events.OAuth{ClientID: "a"} },
		"protocol":       func(d *events.Definition) { d.Protocol = "legacy" },
		"roots":          func(d *events.Definition) { d.Roots = nil },
		"enabledTools":   func(d *events.Definition) { d.EnabledTools = nil },
		"disabledTools":  func(d *events.Definition) { d.DisabledTools = nil },
		"connectTimeout": func(d *events.Definition) { d.ConnectTimeoutMs = nil },
		"restartPolicy":  func(d *events.Definition) { d.RestartPolicy = nil },
		"unknown":        func(d *events.Definition) { d.Unknown = []byte(`{"x-icon":"dog.png"}`) },
	} {
		changed := localDefinition()
		change(&changed)
		digest := changed.Digest()
		if other := seen[digest]; other != "" {
			t.Errorf("%s has the digest of %s", name, other)
		}
		seen[digest] = name
	}
}

// Known for ever: a digest is stored in events and keys tool lists.
func TestDigestIsStable(t *testing.T) {
	local, remote := localDefinition(), remoteDefinition()
	diff(t, "local", events.Digest("872685d0f721d13b25ff55f2eb1594ebc4c54169b314a059db8edcf5c7713d7d"), local.Digest())
	diff(t, "remote", events.Digest("242c08fd5013fe43fac71f18dd4eadd85f856f715cb10fa89bb88efa72185652"), remote.Digest())
}

func TestDigestDoesNotChangeTheDefinition(t *testing.T) {
	d := localDefinition()
	d.Digest()
	diff(t, "definition", localDefinition(), d)
}

// Only a whole reference has a version: text that looks like its parts is text.
func TestDigestTakesOnlyVersionsOfSecrets(t *testing.T) {
	for _, pair := range [][2][]string{
		{{"${secret:a", "b#1}"}, {"${secret:a", "b#2}"}},
		{{"${secret:a/b#x1}"}, {"${secret:a/b#x2}"}},
		{{"${other:a/b#1}"}, {"${other:a/b#2}"}},
		{{"secret:a/b#1"}, {"secret:a/b#2"}},
	} {
		a, b := events.Definition{Args: pair[0]}, events.Definition{Args: pair[1]}
		if a.Digest() == b.Digest() {
			t.Errorf("%q and %q have the same digest", pair[0], pair[1])
		}
	}
	a := events.Definition{Args: []string{"${secret:a/b#1}:${secret:c/d=#22}"}}
	b := events.Definition{Args: []string{"${secret:a/b#3}:${secret:c/d=#4}"}}
	diff(t, "two references in one argument", a.Digest(), b.Digest())
}

// Without their versions these names would be one.
func TestDigestOfNamesThatLookLikeSecrets(t *testing.T) {
	a := events.Definition{Command: "x", Env: map[string]string{"${secret:a/b#1}": "1", "${secret:a/b#2}": "2"}}
	b := events.Definition{Command: "x", Env: map[string]string{"${secret:a/b#1}": "1", "${secret:a/b#3}": "2"}}
	if a.Digest() == "" || a.Digest() == b.Digest() {
		t.Errorf("%q and %q", a.Digest(), b.Digest())
	}
}

func TestNoDigestOfWhatCannotBeWritten(t *testing.T) {
	for _, d := range []events.Definition{
		{Command: "\xff"}, {Env: map[string]string{"A": "\xff"}}, {Unknown: []byte(`{`)}, {Unknown: []byte(`[]`)},
	} {
		diff(t, "digest", events.Digest(""), d.Digest())
		if d.Validate("github") == nil {
			t.Errorf("%+v is valid", d)
		}
	}
}

func TestCanonicalDigest(t *testing.T) {
	// RFC 8785, section 3.2.3: members in the order of UTF-16 code units.
	text := `{"\u20ac":"Euro Sign","\r":"Carriage Return","\ufb33":"Hebrew Letter Dalet With Dagesh","1":"One",` +
		`"\ud83d\ude00":"Emoji: Grinning Face","\u0080":"Control","\u00f6":"Latin Small Letter O With Diaeresis"}`
	canonical := "{\"\\r\":\"Carriage Return\",\"1\":\"One\",\"\u0080\":\"Control\",\"ö\":\"Latin Small Letter O With Diaeresis\"," +
		"\"€\":\"Euro Sign\",\"😀\":\"Emoji: Grinning Face\",\"\ufb33\":\"Hebrew Letter Dalet With Dagesh\"}"
	got, err := events.CanonicalDigest([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	diff(t, "digest", events.DigestOf([]byte(canonical)), got)

	given := []byte(` { "b" : 1.0 , "a" : [ 1e2 ] } `)
	before := string(given)
	if got, err = events.CanonicalDigest(given); err != nil {
		t.Fatal(err)
	}
	diff(t, "digest", events.DigestOf([]byte(`{"a":[100],"b":1}`)), got)
	diff(t, "text that was given", before, string(given))

	for _, text := range []string{``, `{`, `{"a":1,"a":2}`, `{} {}`, "\"\xff\"", `{a:1}`, `01`} {
		if d, err := events.CanonicalDigest([]byte(text)); err == nil {
			t.Errorf("%q has the digest %s", text, d)
		}
	}
}

func TestSameConnection(t *testing.T) {
	d := events.Definition{Command: "x", Env: map[string]string{"T": "${secret:s/env.T#1}"}}
	labelled, rotated, other := d, d, d
	labelled.Labels = map[string]string{"team": "blue"}
	rotated.Env = map[string]string{"T": "${secret:s/env.T#2}"}
	other.Command = "y"
	for _, tt := range []struct {
		name string
		a, b *events.Definition
		want bool
	}{
		{"itself", &d, &d, true},
		{"other labels", &d, &labelled, true},
		{"a rotated secret", &d, &rotated, false},
		{"another command", &d, &other, false},
		{"none", &d, nil, false},
		{"none twice", nil, nil, true},
	} {
		if got := events.SameConnection(tt.a, tt.b); got != tt.want {
			t.Errorf("%s: %t", tt.name, got)
		}
	}
}
