package worker

import (
	"slices"
	"strings"
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

// case C4: what a child needs to reach the network and to write text reaches it,
// and no more.
func TestEnvironOfTheNetwork(t *testing.T) {
	worker := map[string]string{
		"HTTP_PROXY": "1", "HTTPS_PROXY": "2", "NO_PROXY": "3", "ALL_PROXY": "4",
		"http_proxy": "5", "https_proxy": "6", "no_proxy": "7", "all_proxy": "8",
		"SSL_CERT_FILE": "9", "SSL_CERT_DIR": "10", "NODE_EXTRA_CA_CERTS": "11",
		"LC_ALL": "12", "LC_CTYPE": "13", "XDG_CACHE_HOME": "14",
		"SSL_KEY_FILE": "x", "NODE_OPTIONS": "x", "XDG_SESSION_ID": "x", "LCX": "x",
	}
	got := environ(func(name string) (string, bool) { v, ok := worker[name]; return v, ok }, nil, nil)
	want := 0
	for name, v := range worker {
		if has := slices.Contains(got, name+"="+v); has != (v != "x") {
			t.Errorf("%s reached the child: %v", name, has)
		}
		if v != "x" {
			want++
		}
	}
	if len(got) != want {
		t.Errorf("the environment is %q", got)
	}
}

// T10: the password of a proxy is a secret of the attempt.
func TestProxySecrets(t *testing.T) {
	worker := map[string]string{
		"HTTPS_PROXY": "http://user:pass%20word@proxy:3128", "http_proxy": "http://proxy:3128", "ALL_PROXY": "u:no url@proxy",
	}
	lookup := func(name string) (string, bool) { v, ok := worker[name]; return v, ok }
	want := []string{"http://user:pass%20word@proxy:3128", "pass word", "u:no url@proxy"}
	if d := cmp.Diff(want, proxySecrets(lookup)); d != "" {
		t.Errorf("secrets (-want +got):\n%s", d)
	}
	said := newScrubber(proxySecrets(lookup)).text("connect http://user:pass%20word@proxy:3128: denied for pass%20word", 1000)
	if strings.Contains(said, "word") {
		t.Errorf("the password is in %q", said)
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
