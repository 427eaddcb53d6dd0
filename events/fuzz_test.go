package events_test

import (
	"bytes"
	"maps"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/toolfleet/toolfleet/events"
)

// headerText writes headers as lines, so that a fuzzer can change them.
func headerText(m events.Message) string {
	var text strings.Builder
	for name, values := range m.Header {
		for _, v := range values {
			text.WriteString(name + ":" + v + "\n")
		}
	}
	return text.String()
}

func parseHeaderText(text string) map[string][]string {
	h := make(map[string][]string)
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ":")
		h[name] = append(h[name], value)
	}
	return h
}

// ours returns the headers that belong to the format.
func ours(h map[string][]string) map[string][]string {
	h = maps.Clone(h)
	maps.DeleteFunc(h, func(name string, _ []string) bool {
		switch name {
		case "content-type", "traceparent", "tracestate":
			return false
		}
		return !strings.HasPrefix(name, "ce-") && !strings.HasPrefix(name, "tf-")
	})
	return h
}

func FuzzDecode(f *testing.F) {
	for _, e := range samples() {
		m := encode(f, e)
		f.Add(m.Subject, headerText(m), m.Data)
	}
	e := sample(instance, events.Unknown{Type: "dev.toolfleet.hibernated.v3"})
	e.Data, e.Extra = jsontext.Value(`[1, 2]`), map[string]string{"tf-lane": "3"}
	m := encode(f, e)
	f.Add(m.Subject, headerText(m)+"Nats-Msg-Id:x\n", m.Data)
	f.Add("tf.evt.default.fleet", "ce-id:a\nce-id:b\n", []byte("{}"))

	f.Fuzz(func(t *testing.T, subject, header string, body []byte) {
		m := events.Message{Subject: subject, Header: parseHeaderText(header), Data: body}
		r := events.Read(m, 7)
		e, err := events.Decode(m)
		if err != nil {
			wantUndecodable(t, "message", r, m)
			return
		}
		diff(t, "record", e, r.Event)
		fleet, _, err := events.ParseEventSubject(subject)
		if err != nil {
			t.Fatal(err)
		}
		again, err := events.Encode(fleet, &e)
		if err != nil {
			t.Fatal(err)
		}
		diff(t, "subject", m.Subject, again.Subject)
		diff(t, "headers", ours(m.Header), again.Header)
		if !bytes.Equal(m.Data, again.Data) {
			t.Errorf("body %q became %q", m.Data, again.Data)
		}
		diff(t, "link", r.Link, events.LinkOf(again))

		// What this build understood of the body survives as well.
		if _, unknown := e.Body.(events.Unknown); unknown {
			return
		}
		e.Data = nil
		rewritten, err := events.Encode(fleet, &e)
		if err != nil {
			t.Fatal(err)
		}
		if e, err = events.Decode(rewritten); err != nil {
			t.Fatal(err)
		}
		e.Data = nil
		twice, err := events.Encode(fleet, &e)
		if err != nil {
			t.Fatal(err)
		}
		diff(t, "event, written anew twice", rewritten, twice)
	})
}

// checkTokens reports an id that is no subject token.
func checkTokens(t *testing.T, ids ...string) {
	for _, id := range ids {
		if id == "" || len(id) > events.MaxIDLength || strings.Trim(id, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") != "" {
			t.Errorf("%q came out as an id", id)
		}
	}
}

func FuzzParseEventSubject(f *testing.F) {
	for _, s := range []string{
		"tf.evt.default.fleet", "tf.evt.default.server.github", "tf.evt.default.instance.github.0", "tf.evt.f.worker.a-b_c",
		"tf.evt.*.fleet", "tf.evt.f.worker.>", "tf.evt.f.worker.a b", "tf.evt.f.worker.\u0456", "tf.evt..fleet", "tf.evt.f.fleet.",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, subject string) {
		fleet, c, err := events.ParseEventSubject(subject)
		if err != nil {
			diff(t, "chain beside an error", events.Chain{}, c)
			return
		}
		if got := c.Subject(fleet); got != subject {
			t.Errorf("%q became %q", subject, got)
		}
		checkTokens(t, string(fleet))
		switch c.Kind() {
		case events.OfServer:
			checkTokens(t, string(c.Server()))
		case events.OfInstance:
			checkTokens(t, string(c.Server()), string(c.Instance()))
		case events.OfWorker:
			checkTokens(t, string(c.Worker()))
		case events.OfFleet:
		default:
			t.Errorf("%q is on a chain of kind %d", subject, c.Kind())
		}
	})
}

func FuzzParseCommandSubject(f *testing.F) {
	for _, s := range []string{
		"tf.cmd.default.host-a.github.0", "tf.cmd.f.a.b.c.d", "tf.cmd.f.a.*.c", "tf.cmd.f.a.b.>", "tf.cmd.f.a b.c.d", "tf.cmd.f...",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, subject string) {
		fleet, a, err := events.ParseCommandSubject(subject)
		if err != nil {
			diff(t, "address beside an error", events.Address{}, a)
			return
		}
		if got := a.Subject(fleet); got != subject {
			t.Errorf("%q became %q", subject, got)
		}
		checkTokens(t, string(fleet), string(a.Worker), string(a.Server), string(a.Instance))
	})
}

// A definition's digest does not depend on white space or the order of members,
// what is not known is kept, and nothing that is decoded makes validation panic.
func FuzzDefinition(f *testing.F) {
	for _, e := range samples() {
		if d, ok := e.Body.(events.Declared); ok {
			f.Add([]byte(encodeDefinition(f, d.Definition)))
		}
	}
	for _, s := range []string{
		`{}`, `{"command":"x","args":["a","b"],"x":{"b":1,"a":[1.0,1e2]}}`, `{"url":"https://h.example","type":"sse"}`,
		`{"Command":"x","command":"y"}`, `{"placement":{"replicas":"each"}}`, `{"args":null,"x":null}`, `{"x":1,"x":2}`, `null`,
		`{"command":"${secret:a/b#1}"}`, `{"x":9007199254740993}`, `{"x":1e999}`, `{"x":"\ud800"}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		d, err := events.DecodeDefinition("github", text)
		if err != nil {
			return
		}
		_ = d.Validate("github")
		digest := d.Digest()
		reordered := jsontext.Value(text).Clone()
		if err := reordered.Format(jsontext.CanonicalizeRawInts(false), jsontext.ReorderRawObjects(true), jsontext.WithIndent("\t")); err != nil {
			t.Fatal(err)
		}
		other, err := events.DecodeDefinition("github", reordered)
		if err != nil {
			t.Fatal(err)
		}
		if digest == "" || other.Digest() != digest {
			t.Errorf("%s has the digest %q, but %q when reordered as %s", text, digest, other.Digest(), reordered)
		}
		written := encodeDefinition(t, *d)
		again, err := events.DecodeDefinition("github", written)
		if err != nil {
			t.Fatal(err)
		}
		diff(t, "definition, written twice", written, encodeDefinition(t, *again))
	})
}
