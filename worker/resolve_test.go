package worker

import (
	"strings"
	"testing"

	"github.com/cockroachdb/errors"
	"github.com/google/go-cmp/cmp"

	"github.com/toolfleet/toolfleet/events"
)

var testSources = sources{
	env: func(name string) (string, bool) {
		v, ok := map[string]string{
			"HOME": "/home/someone", "NAME": "value-of-name", "EMPTY": "", "NESTED": "${NAME}", "SHORT": "on",
			"PATH": "/usr/bin:/bin",
		}[name]
		return v, ok
	},
	secret: func(ref string) (string, error) {
		if ref == "${secret:s/env.TOKEN#2}" {
			return "hunter2-hunter2", nil
		}
		return "", errors.New("no such version")
	},
}

func TestExpand(t *testing.T) {
	for text, want := range map[string]string{
		"plain":                     "plain",
		"a$b $NAME {NAME} %NAME%":   "a$b $NAME {NAME} %NAME%",
		"${NAME}":                   "value-of-name",
		"x${NAME}y${env:NAME}z":     "xvalue-of-nameyvalue-of-namez",
		"${NAME:-other}":            "value-of-name",
		"${MISSING:-other}":         "other",
		"${EMPTY:-other}":           "other",
		"${MISSING:-}":              "",
		"${env:MISSING:-other}":     "other",
		"${EMPTY}":                  "",
		"${NESTED}":                 "${NAME}", // once, not recursively
		"${MISSING:-a:-b}":          "a:-b",
		"${secret:s/env.TOKEN#2}!":  "hunter2-hunter2!",
		"Bearer ${NAME:-${MISSING}": "Bearer value-of-name",
	} {
		x := resolution{from: testSources}
		if got := x.expand("m", text); got != want || x.reasons != nil {
			t.Errorf("%s became %q, want %q; %v", text, got, want, x.reasons)
		}
	}
}

func TestExpandUnresolved(t *testing.T) {
	for text, want := range map[string]string{
		"${MISSING}":               "m: variable MISSING is not set on this worker",
		"${env:MISSING}":           "m: variable MISSING is not set on this worker",
		"${":                       `m: "${" without "}"`,
		"${}":                      "is no variable",
		"${1}":                     "is no variable",
		"${config:x}":              "${config:x} is no variable",
		"${input:token}":           "is no variable",
		"${secret:s/env.TOKEN#9}":  "m: secret:s/env.TOKEN#9 has no value on this worker: no such version",
		"${NAME} and ${MISSING} !": "MISSING",
	} {
		x := resolution{from: testSources}
		x.expand("m", text)
		if got := strings.Join(x.reasons, ";"); !strings.Contains(got, want) {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}

func TestResolve(t *testing.T) {
	d := &events.Definition{
		Command: "~/bin/${SHORT}", Args: []string{"--token=${secret:s/env.TOKEN#2}", "$HOME"},
		Env: map[string]string{"A": "${NAME}", "B": "b"}, Cwd: "~", EnvFile: "~/.env",
		URL: "https://x/${NAME}", Headers: map[string]string{"Authorization": "Bearer ${NAME}"},
	}
	got, err := resolve(d, testSources)
	if err != nil {
		t.Fatal(err)
	}
	want := &resolved{
		command: "/home/someone/bin/on", args: []string{"--token=hunter2-hunter2", "$HOME"},
		env: map[string]string{"A": "value-of-name", "B": "b"}, cwd: "/home/someone", envFile: "/home/someone/.env",
		url: "https://x/value-of-name", headers: map[string]string{"Authorization": "Bearer value-of-name"},
	}
	private := got.private
	got.private = nil
	if d := cmp.Diff(want, got, cmp.AllowUnexported(resolved{})); d != "" {
		t.Errorf("resolved (-want +got):\n%s", d)
	}
	if all := strings.Join(private, " "); !strings.Contains(all, "hunter2") || !strings.Contains(all, "value-of-name") {
		t.Errorf("private values: %v", private)
	}
}

// T9: the error names every reference, and no value.
func TestResolveNamesWhatIsMissing(t *testing.T) {
	d := &events.Definition{
		Command: "x", Args: []string{"${NAME}", "${GONE}"},
		Env: map[string]string{"TOKEN": "${secret:s/env.TOKEN#1}", "OTHER": "${NAME}${GONE_TOO}"},
	}
	_, err := resolve(d, testSources)
	var u *UnresolvedError
	if !errors.As(err, &u) {
		t.Fatalf("error %v", err)
	}
	for _, want := range []string{"args[1]: variable GONE ", "env.OTHER: variable GONE_TOO ", "env.TOKEN: secret:s/env.TOKEN#1 "} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%v: does not say %q", err, want)
		}
	}
	if strings.Contains(err.Error(), "value-of-name") || !u.Retry {
		t.Errorf("%+v", u)
	}
}

func TestHomeIsOnlyAPrefix(t *testing.T) {
	for path, want := range map[string]string{"~": "/home/someone", "~/x": "/home/someone/x", "~other/x": "~other/x", "a~": "a~", "": ""} {
		x := resolution{from: testSources}
		if got := x.home("cwd", path); got != want {
			t.Errorf("%s became %s", path, got)
		}
	}
	x := resolution{from: sources{env: func(string) (string, bool) { return "", false }}}
	if x.home("cwd", "~/x"); len(x.reasons) != 1 {
		t.Errorf("reasons %v", x.reasons)
	}
}

func FuzzExpand(f *testing.F) {
	for _, seed := range []string{"${NAME}", "${MISSING:-x}", "${${NAME}}", "a}b${", "${secret:s/env.TOKEN#2}"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		x := resolution{from: testSources}
		got := x.expand("m", text)
		if x.reasons == nil && !strings.Contains(text, "${") && got != text {
			t.Errorf("%q became %q", text, got)
		}
		for _, r := range x.reasons {
			if strings.Contains(r, "hunter2") || strings.Contains(r, "value-of-name") && !strings.Contains(text, "value-of-name") {
				t.Errorf("a reason holds a value: %s", r)
			}
		}
	})
}
