package worker

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

func timeOf(seconds int64) time.Time { return time.Unix(seconds, 0) }

// T10
func TestScrub(t *testing.T) {
	s := newScrubber([]string{`p@ss "word"/+`, "p@ss", "token-12345678"})
	for text, want := range map[string]string{
		`login with p@ss "word"/+ failed`:              "login with [redacted] failed",
		`{"password":"p@ss \"word\"/+"}`:               `{"password":"[redacted]"}`,
		"GET /?p=p%40ss+%22word%22%2F%2B":              "GET /?p=[redacted]",
		"GET /p@ss%20%22word%22%2F+":                   "GET /[redacted]",
		"Authorization: Basic cEBzcyAid29yZCIvKw==":    "Authorization: Basic [redacted]",
		"only p@ss here":                               "only [redacted] here",
		"nothing":                                      "nothing",
		"token-12345678 token-12345678token-12345678x": "[redacted] [redacted][redacted]x",
	} {
		if got := s.scrub(text); got != want {
			t.Errorf("%s\nbecame %s\nwant   %s", text, got, want)
		}
	}
	if got := (scrubber{}).scrub("as it is"); got != "as it is" {
		t.Errorf("an empty scrubber makes %q", got)
	}
	if got := s.json(jsontext.Value(`{"a":"token-12345678"}`)); string(got) != `{"a":"[redacted]"}` {
		t.Errorf("JSON became %s", got)
	}
	if got := newScrubber([]string{`{"a`}).json(jsontext.Value(`{"a":1}`)); got != nil {
		t.Errorf("broken JSON was kept: %s", got)
	}
}

func TestClean(t *testing.T) {
	for text, want := range map[string]string{
		"\x1b[31mred\x1b[0m and \x1b]0;title\x07plain": "red and plain",
		"\x1b]8;;http://x\x1b\\link":                   "link",
		"a\tb\nc\r\nd":                                 "a\tb\nc\nd",
		"bell\x07 null\x00 del\x7f c1\u0085":           "bell null del c1",
		"bidi \u202egnp.exe zero\u200bwidth":           "bidi gnp.exe zerowidth",
		"tag \U000e0041":                               "tag",
		"bad \xff\xfe utf8 \xe2\x82":                   "bad  utf8",
		"  spaces  \n":                                 "spaces",
		"grüße 漢字 🙂":                                   "grüße 漢字 🙂",
		"open \x1b[":                                   "open",
		"open \x1b]0;never ends":                       "open",
	} {
		if got := clean(text, 1000); got != want {
			t.Errorf("%q became %q, want %q", text, got, want)
		}
	}
	if got := clean("漢字漢字", 7); got != "漢字" {
		t.Errorf("cut at 7 bytes: %q", got)
	}
}

func TestTailKeepsWholeLines(t *testing.T) {
	s := newScrubber([]string{"the-secret"})
	text := strings.Repeat("first line\n", 10) + "second the-secret line\nlast line"
	got := s.tail(text, 40)
	if got != "second [redacted] line\nlast line" {
		t.Errorf("tail %q", got)
	}
	if got := s.tail(strings.Repeat("漢", 100), 10); !utf8.ValidString(got) || len(got) > 10 {
		t.Errorf("tail of one line %q", got)
	}
	if got := s.tail("short", 10); got != "short" {
		t.Errorf("tail %q", got)
	}
}

func TestTailBuffer(t *testing.T) {
	b := &tail{}
	for range 1000 {
		_, _ = b.Write([]byte("some line of output\n"))
	}
	got := b.String()
	if len(got) > maxTail || !strings.HasPrefix(got, "some line") || !strings.HasSuffix(got, "output\n") {
		t.Errorf("%d bytes, from %.20q", len(got), got)
	}
	b = &tail{}
	_, _ = b.Write([]byte(strings.Repeat("s", 3*maxTail)))
	if got := b.String(); len(got) != maxTail-longestSecret {
		t.Errorf("%d bytes of a line without a beginning", len(got))
	}
	if cap(b.buf) > 8*maxTail {
		t.Errorf("the buffer grew to %d", cap(b.buf))
	}
}

func FuzzClean(f *testing.F) {
	f.Add("\x1b[31mred\x1b[0m", 10)
	f.Add("漢\xff", 3)
	f.Fuzz(func(t *testing.T, text string, limit int) {
		got := clean(text, limit)
		if len(got) > max(limit, 0) || !utf8.ValidString(got) || strings.ContainsRune(got, 0x1b) {
			t.Errorf("%q, at most %d, became %q", text, limit, got)
		}
	})
}
