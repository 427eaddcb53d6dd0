package worker

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestEnviron(t *testing.T) {
	worker := map[string]string{
		"PATH": "/bin", "HOME": "/h", "LANG": "C", "NATS_PASSWORD": "x", "OTEL_EXPORTER_OTLP_HEADERS": "k=v", "LD_PRELOAD": "y",
	}
	got := environ(
		func(name string) (string, bool) { v, ok := worker[name]; return v, ok },
		map[string]string{"LOG_LEVEL": "debug", "FROM_FILE": "1", "HOME": "/file"},
		map[string]string{"LOG_LEVEL": "warn", "PATH": "/opt/bin"},
	)
	want := []string{"FROM_FILE=1", "HOME=/file", "LANG=C", "LOG_LEVEL=warn", "PATH=/opt/bin"} // case C7
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("environment (-want +got):\n%s", d)
	}
	if got := environ(func(string) (string, bool) { return "", false }, nil, nil); got == nil || len(got) != 0 {
		t.Errorf("an empty environment is %v, which os/exec would replace by its own", got)
	}
}

func TestParseEnvFile(t *testing.T) {
	got, err := parseEnvFile("\ufeff# comment\n\nA=1\r\nexport B = two words # remark\nC='single # $x \\n'\n" +
		"D=\"double \\\"quoted\\\" \\n\\t\\$\"\nE=\nF=a#b\n")
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"A": "1", "B": "two words", "C": `single # $x \n`, "D": "double \"quoted\" \n\t\\$", "E": "", "F": "a#b",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("variables (-want +got):\n%s", d)
	}
	for text, want := range map[string]string{
		"A":              "line 1 is not NAME=value",
		"X=1\n2=3":       "line 2 is not NAME=value",
		"A='open secret": "line 1: the value of A has an open quote",
	} {
		if _, err := parseEnvFile(text); err == nil || err.Error() != want {
			t.Errorf("%q: error %v, want %q", text, err, want)
		}
	}
}
