package bundle_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"io"
	"testing"
	"time"

	"github.com/cockroachdb/errors"
	"github.com/google/go-cmp/cmp"

	"github.com/toolfleet/toolfleet/cmd/internal/bundle"
)

func TestRedact(t *testing.T) {
	r := bundle.NewRedactor("canary-7", "abc", "")
	for text, want := range map[string]string{
		"the canary-7 sings":                          "the [redacted] sings",
		"too short to look for: abc":                  "too short to look for: abc",
		`{"url":"nats://t0k3n@127.0.0.1:4222"}`:       `{"url":"nats://[redacted]127.0.0.1:4222"}`,
		"https://user:pass@example.com/mcp?a=b@c":     "https://[redacted]example.com/mcp?a=b@c",
		"https://example.com/@scope/package":          "https://example.com/@scope/package",
		"Authorization: Bearer abcdefgh12345678":      "Authorization: Bearer [redacted]",
		"AGE-SECRET-KEY-1QQQQQQQQQQ":                  "[redacted]",
		"token ghp_0123456789abcdefghij used":         "token [redacted] used",
		"by ann@laptop, ${secret:github/env.TOKEN#2}": "by ann@laptop, ${secret:github/env.TOKEN#2}",
		"eyJhbGciOiJI.eyJzdWIiOiIx.c2ln":              "[redacted]",

		// What is secret by its name.
		`--config {"apiKey":"4f9a0c77-b1e2","mode":"x"}`:         `--config {"apiKey":"[redacted]","mode":"x"}`,
		`["--config={\"a\":{\"apiKey\":\"4f9a 0c\"},\"b\":1}"]`:  `["--config={\"a\":{\"apiKey\":\"[redacted]\"},\"b\":1}"]`,
		`{"password":"a\"b, c","key":7}`:                         `{"password":"[redacted]","key":7}`,
		`["--header","Authorization:4f9a0c77","-y"]`:             `["--header","Authorization:[redacted]","-y"]`,
		`--header Authorization: Custom 4f9a0c77`:                `--header Authorization: [redacted]`,
		"Authorization: custom 4f9a0c77\nAuthorization:\nnext 1": "Authorization: [redacted]\nAuthorization:\nnext 1",
		`["--header=X-Api-Key: 4f9a0c77b1e24d55"]`:               `["--header=X-Api-Key: [redacted]"]`,
		"-H X-Api-Key:4f9a0c77b1e24d55 -y":                       "-H X-Api-Key:[redacted] -y",
		"--pwd=hunter2 --pwd hunter3 -p 8080":                    "--pwd=[redacted] --pwd [redacted] -p 8080",
		`["--pwd","hunter2","--port","8080"]`:                    `["--pwd","[redacted]","--port","8080"]`,
		`{"Authorization":"Bearer ${secret:s/header.A#1}"}`:      `{"Authorization":"Bearer ${secret:s/header.A#1}"}`,
		`["--pwd=${secret:s/arg.1#1}","--token-file=/run/t1"]`:   `["--pwd=${secret:s/arg.1#1}","--token-file=/run/t1"]`,
		`{"token":{"type":"string"},"max_tokens":4096}`:          `{"token":{"type":"string"},"max_tokens":4096}`,
		"github/env.TOKEN: not stored; db.local:5432":            "github/env.TOKEN: not stored; db.local:5432",
	} {
		if got := string(r.Redact([]byte(text))); got != want {
			t.Errorf("%s: got %s, want %s", text, got, want)
		}
	}
}

func TestWrite(t *testing.T) {
	var out bytes.Buffer
	now := time.Unix(1_700_000_000, 0)
	err := bundle.Write(&out, "toolfleet", now, bundle.NewRedactor("canary"), []bundle.File{
		{"a.txt", []byte("a canary")}, {"logs/b.txt", nil},
	})
	if err != nil {
		t.Fatal(err)
	}
	z, err := gzip.NewReader(&out)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for archive := tar.NewReader(z); ; {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(archive)
		if err != nil || !h.ModTime.Equal(now) || h.Mode != 0o600 {
			t.Errorf("%+v, %v", h, err)
		}
		got[h.Name] = string(data)
	}
	if diff := cmp.Diff(map[string]string{"toolfleet/a.txt": "a [redacted]", "toolfleet/logs/b.txt": ""}, got); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
}

// Whatever stands around a secret, it does not leave under a name that speaks of
// one.
func FuzzRedact(f *testing.F) {
	for _, around := range []string{"", "a", "{", "[", `"`, "'", `\`, "${", "}", "--x", "--header=", "=", ": ", ":", "\n", "key", "Bearer ", "\x00"} {
		f.Add(around, around)
		f.Add(around, "")
		f.Add("", around)
	}
	f.Add("${", "}")
	const secret = "cAnary7Qx"
	f.Fuzz(func(t *testing.T, before, after string) {
		r := bundle.NewRedactor()
		for _, form := range []string{`{"apiKey":"` + secret + `"}`, `{\"apiKey\":\"` + secret + `\"}`, "X-Api-Key:" + secret, "Authorization: " + secret, "--pwd=" + secret, "--pwd " + secret} {
			text := before + "\n" + form + "\n" + after
			if got := string(r.Redact([]byte(text))); bytes.Count([]byte(got), []byte(secret)) > bytes.Count([]byte(before+after), []byte(secret)) {
				t.Errorf("%q became %q", text, got)
			}
		}
	})
}
