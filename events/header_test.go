package events_test

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/toolfleet/toolfleet/events"
)

// A header carries any text, and nothing that would end a header or that NATS
// would trim is in it.
func TestHeaderTextRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(
			rapid.String(),
			rapid.Map(rapid.SliceOf(rapid.Byte()), func(b []byte) string { return string(b) }),
			rapid.StringOf(rapid.RuneFrom([]rune("% \r\n\tAa1é"))),
		).Draw(t, "text")
		value := events.EscapeHeader(text)
		for _, c := range []byte(value) {
			if c < ' ' || c > '~' {
				t.Fatalf("%q holds the byte %#x", value, c)
			}
		}
		if value != strings.TrimSpace(value) {
			t.Fatalf("%q would be trimmed", value)
		}
		got, err := events.UnescapeHeader(value)
		if err != nil || got != text {
			t.Fatalf("%q became %q, %v", text, got, err)
		}
	})
}

func TestEscapeHeader(t *testing.T) {
	for text, want := range map[string]string{
		"":              "",
		"a b":           "a b",
		" a b ":         "%20a b%20",
		" ":             "%20",
		"100 %":         "100 %25",
		"a\r\nce-id: x": "a%0D%0Ace-id: x",
		"Zoë":           "Zo%C3%AB",
		"\xff\x7f":      "%FF%7F",
	} {
		diff(t, "header of "+text, want, events.EscapeHeader(text))
	}
}

// One text has one form, so that an event that was read is written as it was.
func TestUnescapeHeaderRefusesOtherForms(t *testing.T) {
	for _, value := range []string{"%", "a%2", "%zz", "%c3%ab", "%41", "a%20b", " a", "a ", "é", "a\nb", "%2", "%%20"} {
		if text, err := events.UnescapeHeader(value); err == nil {
			t.Errorf("%q was read as %q", value, text)
		}
	}
}

// Free text of an event gets through a header whatever it is.
func TestAnyTextInAnEvent(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringN(0, 100, 400)
		e := sample(server, events.Enabled{})
		e.Cause, e.Actor, e.Reason = text.Draw(t, "cause"), text.Draw(t, "actor"), text.Draw(t, "reason")
		e.Correlation = events.RequestID(text.Draw(t, "correlation"))
		m, err := events.Encode(events.DefaultFleet, &e)
		if err != nil {
			t.Fatal(err)
		}
		for name, values := range m.Header {
			if strings.ContainsAny(name+values[0], "\r\n") {
				t.Fatalf("header %s: %q", name, values[0])
			}
		}
		got, err := events.Decode(m)
		if err != nil {
			t.Fatal(err)
		}
		if got.Cause != e.Cause || got.Actor != e.Actor || got.Reason != e.Reason || got.Correlation != e.Correlation {
			t.Fatalf("%+v", got)
		}
	})
}

// linkByTheBook is the link as the package document defines it.
func linkByTheBook(m events.Message) events.Link {
	var text strings.Builder
	names := make([]string, 0, len(m.Header))
	for name := range m.Header {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		if strings.HasPrefix(name, "ce-") || strings.HasPrefix(name, "tf-") ||
			slices.Contains([]string{"content-type", "traceparent", "tracestate"}, name) {
			for _, value := range m.Header[name] {
				text.WriteString(name + ":" + value + "\n")
			}
		}
	}
	text.WriteString(m.Subject + "\n" + string(m.Data))
	sum := sha256.Sum256([]byte(text.String()))
	return events.Link(hex.EncodeToString(sum[:]))
}

func TestLinkOf(t *testing.T) {
	for _, e := range samples() {
		m := encode(t, e)
		diff(t, "link of "+string(e.Kind()), linkByTheBook(m), events.LinkOf(m))
	}
	names := []string{
		"ce-id", "ce-source", "ce-time", "ce-type", "ce-x", "ce-", "content-type", "tf-prev", "tf-reason", "tf-a", "tf-z",
		"tracestate", "traceparent", "Nats-Msg-Id", "Ce-Id", "trace", "zz",
	}
	rapid.Check(t, func(t *rapid.T) {
		m := events.Message{
			Subject: rapid.String().Draw(t, "subject"),
			Header: rapid.MapOf(rapid.SampledFrom(names), rapid.SliceOfN(rapid.StringN(0, 5, 9), 0, 3)).
				Draw(t, "header"),
			Data: rapid.SliceOf(rapid.Byte()).Draw(t, "data"),
		}
		if want, got := linkByTheBook(m), events.LinkOf(m); want != got {
			t.Fatalf("want %s, got %s", want, got)
		}
		if got := events.Read(m, 1).Link; got != events.LinkOf(m) {
			t.Fatalf("as a record: %s", got)
		}
	})
}
