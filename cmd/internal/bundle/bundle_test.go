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
