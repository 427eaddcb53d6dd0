package events_test

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/errors"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/toolfleet/toolfleet/events"
)

// withBody is an event of an instance's chain with that kind and body, as it may
// stand in a stream.
func withBody(t *testing.T, kind events.Kind, body string) events.Message {
	m := encode(t, sample(instance, events.Recovered{}))
	m.Header["ce-type"] = []string{kind.Type()}
	m.Data = []byte(body)
	return m
}

func TestDecodeRefusesBodies(t *testing.T) {
	for name, body := range map[string]string{
		"a duplicate name":            `{"worker":"a","worker":"b"}`,
		"a duplicate unknown name":    `{"worker":"a","x":1,"x":1}`,
		"a duplicate name further in": `{"worker":"a","x":{"y":1,"y":2}}`,
		"invalid UTF-8":               "{\"worker\":\"\xff\"}",
		"half a surrogate pair":       `{"worker":"\ud800"}`,
		"another type":                `{"worker":7}`,
		"null":                        `null`,
		"an array":                    `[]`,
		"text":                        `"lost"`,
		"two values":                  `{"worker":"a"} {}`,
		"no end":                      `{"worker":"a"`,
		"a comment":                   `{"worker":"a" /* lost */}`,
		"nothing":                     ``,
		"too much nesting":            `{"x":` + strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000) + `}`,
	} {
		m := withBody(t, events.KindLost, body)
		if e, err := events.Decode(m); err == nil {
			t.Errorf("%s: decoded as %+v", name, e.Body)
		}
		wantUndecodable(t, name, events.Read(m, 9), m)
	}
}

// wantUndecodable holds what Read promises of a message that is no event.
func wantUndecodable(t *testing.T, what string, r events.Record, m events.Message) {
	t.Helper()
	u, ok := r.Body.(events.Undecodable)
	if !ok || u.Reason == "" || len(u.Reason) > 600 {
		t.Errorf("%s: read as %#v", what, r.Body)
	}
	if r.Link != events.LinkOf(m) || r.Kind() != "" || !r.Time.IsZero() || r.Epoch != 0 || r.Actor != "" {
		t.Errorf("%s: read as %+v", what, r)
	}
}

func TestMemberNamesAreCaseSensitive(t *testing.T) {
	e, err := events.Decode(withBody(t, events.KindLost, `{"Worker":"host-b","WORKER":"host-c"}`))
	if err != nil {
		t.Fatal(err)
	}
	diff(t, "body", events.Body(events.Lost{}), e.Body)
}

func TestUnknownMembersAreKept(t *testing.T) {
	m := withBody(t, events.KindLost, ` {"since": 1e1, "worker":"host-b", "x":{"b":1, "a":"\u00e9"}} `)
	e, err := events.Decode(m)
	if err != nil {
		t.Fatal(err)
	}
	diff(t, "body", events.Body(events.Lost{Worker: "host-b"}), e.Body)
	diff(t, "encoded again", m, encode(t, e))
}

// What a later build wrote is kept to the byte, whatever it is.
func TestUnknownKindsAndVersionsAreKept(t *testing.T) {
	for _, typ := range []string{
		"dev.toolfleet.lost.v2", "dev.toolfleet.lost.v65535", "dev.toolfleet.lost.v0",
		"dev.toolfleet.hibernated.v1", "dev.toolfleet.hibernated.v17",
	} {
		for _, body := range []string{`{"worker":"host-b", "worker":2}`, `[1]`, `not JSON`, ``} {
			m := withBody(t, "", body)
			m.Header["ce-type"] = []string{typ}
			e, err := events.Decode(m)
			if err != nil {
				t.Errorf("%s: %v", typ, err)
				continue
			}
			diff(t, "body", events.Body(events.Unknown{Type: typ}), e.Body)
			diff(t, "kind", typ[len("dev.toolfleet."):strings.LastIndex(typ, ".")], string(e.Kind()))
			diff(t, "encoded again", m, encode(t, e))
		}
	}
}

func TestDecodeRefusesHeaders(t *testing.T) {
	for name, refused := range map[string][]string{
		"ce-specversion": {"", "0.3"},
		"ce-id":          {"", "é", " a", "a ", "a\nb", "\x00"},
		"ce-source":      {""},
		"ce-subject":     {"", "instance.github.1", "server.github"},
		"ce-time": {
			"", "yesterday", "2026-01-02T04:04:05+01:00", "2026-01-02T03:04:05.100Z", "2026-01-02T03:04:05,1Z",
			"2026-01-02T3:04:05Z", "2026-02-30T03:04:05Z", "20260-01-02T03:04:05Z",
		},
		"ce-type": {
			"", "com.example.lost.v1", "dev.toolfleet.recovered", "dev.toolfleet.recovered.v01", "dev.toolfleet.recovered.v+1",
			"dev.toolfleet.recovered.v65536", "dev.toolfleet..v1", "dev.toolfleet.re covered.v2", "dev.toolfleet.a.v1.v2",
			"dev.toolfleet.draining.v1", // of a worker's chain
		},
		"content-type":   {"", "application/cloudevents+json"},
		"tf-epoch":       {"", "-1", "0", "07", "x", "18446744073709551616", "1.5", "1_0"},
		"tf-attempt":     {"-1", "+1", "2147483648"},
		"tf-actor":       {"%4"},
		"tf-reason":      {"%c3", strings.Repeat("x", events.MaxHeaderSize)},
		"tf-cause":       {"%"},
		"tf-correlation": {"%41"},
		"tf-":            {"x"},
		"tf-a b":         {"x"},
		"tf-New":         {"x"},
		"ce-new":         {"", "é"},
	} {
		for _, value := range refused {
			wantHeaderRefused(t, name, []string{value})
		}
		wantHeaderRefused(t, name, []string{"a", "b"})
	}
	for _, name := range []string{"ce-specversion", "ce-id", "ce-source", "ce-subject", "ce-time", "ce-type", "content-type"} {
		wantHeaderRefused(t, name, nil)
	}
}

func wantHeaderRefused(t *testing.T, name string, values []string) {
	t.Helper()
	m := withBody(t, events.KindRecovered, `{}`)
	m.Header[name] = values
	if e, err := events.Decode(m); err == nil {
		t.Errorf("%s: %q was decoded: %+v", name, values, e)
	}
	wantUndecodable(t, name, events.Read(m, 9), m)
}

func TestOtherHeadersAreTheBrokers(t *testing.T) {
	m := withBody(t, events.KindRecovered, `{}`)
	want := events.Read(m, 9)
	m.Header["Nats-Msg-Id"] = []string{"x", "\xff"}
	m.Header["Ce-Id"] = []string{""}
	diff(t, "record", want, events.Read(m, 9))
}

func TestDecodeRefusesSubjects(t *testing.T) {
	for _, subject := range []string{
		"", "tf.evt.default", "tf.evt.default.server", "tf.evt..server.github", "tf.cmd.default.a.b.c",
		"tf.evt.default.instance.github.*", "tf.evt.default.server.git>hub", "TF.evt.default.server.github",
	} {
		m := withBody(t, events.KindRecovered, `{}`)
		m.Subject = subject
		if e, err := events.Decode(m); err == nil {
			t.Errorf("%q was decoded: %+v", subject, e)
		}
		if r := events.Read(m, 9); r.Chain != (events.Chain{}) {
			t.Errorf("%q is on %s", subject, r.Chain)
		}
	}
}

// The 2 MB are those that NATS may be told to carry.
func TestTooLarge(t *testing.T) {
	big := sample(instance, events.Failed{StderrTail: strings.Repeat("x", 2<<20)})
	if _, err := events.Encode(events.DefaultFleet, &big); !errors.Is(err, events.ErrTooLarge) {
		t.Errorf("body: %v", err)
	}
	wordy := sample(instance, events.Recovered{})
	wordy.Reason = strings.Repeat("ß", events.MaxHeaderSize/6+1)
	if _, err := events.Encode(events.DefaultFleet, &wordy); !errors.Is(err, events.ErrTooLarge) {
		t.Errorf("headers: %v", err)
	}
	m := withBody(t, events.KindFailed, `{"stderrTail":"`+strings.Repeat("x", 2<<20)+`"}`)
	if _, err := events.Decode(m); !errors.Is(err, events.ErrTooLarge) {
		t.Errorf("decode: %v", err)
	}
	wantUndecodable(t, "2 MB", events.Read(m, 9), m)
	named := withBody(t, events.KindFailed, `{"`+strings.Repeat("é", 100_000)+`":1,"`+strings.Repeat("é", 100_000)+`":2}`)
	wantUndecodable(t, "a long name", events.Read(named, 9), named)

	const frame = `{"failure":{"code":""},"attempt":0,"stderrTail":""}`
	largest := sample(instance, events.Failed{StderrTail: strings.Repeat("x", events.MaxSize-len(frame))})
	full := encode(t, largest)
	diff(t, "size of the largest body", events.MaxSize, len(full.Data))
	full.Data = append(full.Data, ' ')
	if _, err := events.Decode(full); !errors.Is(err, events.ErrTooLarge) {
		t.Errorf("one byte more: %v", err)
	}
}

// What a reader could not read is not written.
func TestEncodeRefuses(t *testing.T) {
	for name, change := range map[string]func(*events.Event){
		"no body":                 func(e *events.Event) { e.Body = nil },
		"undecodable":             func(e *events.Event) { e.Body = events.Undecodable{Reason: "x"} },
		"a pointer":               func(e *events.Event) { e.Body = &events.Recovered{} },
		"no type":                 func(e *events.Event) { e.Body = events.Unknown{} },
		"a foreign type":          func(e *events.Event) { e.Body = events.Unknown{Type: "com.example.x.v1"} },
		"no id":                   func(e *events.Event) { e.ID = "" },
		"no source":               func(e *events.Event) { e.Source = "" },
		"no time":                 func(e *events.Event) { e.Time = time.Time{} },
		"a time of five digits":   func(e *events.Event) { e.Time = time.Date(12026, 1, 2, 3, 4, 5, 6, time.UTC) },
		"no chain":                func(e *events.Event) { e.Chain = events.Chain{} },
		"another chain":           func(e *events.Event) { e.Body = events.Draining{} },
		"a wildcard":              func(e *events.Event) { e.Chain = events.InstanceChain("github", "*") },
		"two tokens":              func(e *events.Event) { e.Chain = events.InstanceChain("git.hub", "0") },
		"a negative attempt":      func(e *events.Event) { e.Attempt = -1 },
		"a line break":            func(e *events.Event) { e.Source = "a\r\ntf-epoch: 9" },
		"white space":             func(e *events.Event) { e.ID = " a" },
		"a trace that is no text": func(e *events.Event) { e.Trace.State = "é" },
		"a known extra header":    func(e *events.Event) { e.Extra = map[string]string{"tf-epoch": "9"} },
		"a broker's header":       func(e *events.Event) { e.Extra = map[string]string{"Nats-Rollup": "all"} },
		"an empty extra header":   func(e *events.Event) { e.Extra = map[string]string{"tf-new": ""} },
		"stored data of another":  func(e *events.Event) { e.Data = jsontext.Value(`[]`) },
		"invalid UTF-8":           func(e *events.Event) { e.Body = events.Lost{Worker: "\xff"} },
		"raw text that is none":   func(e *events.Event) { e.Body = events.Connected{ServerInfo: jsontext.Value(`{`)} },
		"bad replicas": func(e *events.Event) {
			e.Chain = server
			e.Body = events.Declared{Definition: events.Definition{Placement: &events.Placement{Replicas: -7}}}
		},
	} {
		e := sample(instance, events.Recovered{})
		change(&e)
		if m, err := events.Encode(events.DefaultFleet, &e); err == nil {
			t.Errorf("%s was encoded: %+v", name, m)
		}
	}
	e := sample(instance, events.Recovered{})
	for _, f := range []events.FleetID{"", "a.b", ">"} {
		if m, err := events.Encode(f, &e); err == nil {
			t.Errorf("fleet %q was encoded: %+v", f, m)
		}
	}
}

// An event that says nothing but its kind has an empty object as its body, and
// members that are not set are not written.
func TestEmptyBodies(t *testing.T) {
	for body, want := range map[events.Body]string{
		events.UpdateSettled{}:    `{}`,
		events.Frozen{}:           `{}`,
		events.Recovered{}:        `{}`,
		events.Stopping{}:         `{}`,
		events.Released{}:         `{}`,
		events.AuthRequired{}:     `{}`,
		events.Lost{}:             `{"worker":""}`,
		events.Restarted{}:        `{"attempt":0,"downtimeMs":0}`,
		events.RestartScheduled{}: `{"delayMs":0,"attempt":0}`,
		events.HasStopped{}:       `{"how":""}`,
		events.Parked{}:           `{"failure":{"code":""}}`,
	} {
		chain := instance
		for _, c := range []events.Chain{server, worker, fleet} {
			if !events.KindOf(body).BelongsOn(chain.Kind()) {
				chain = c
			}
		}
		diff(t, string(events.KindOf(body)), want, string(encode(t, sample(chain, body)).Data))
	}
	listed := encode(t, sample(instance, events.ToolsListed{Listing: events.Listing{Digest: digestA}}))
	if want := []byte(`{"digest":"` + digestA + `","count":0}`); !bytes.Equal(want, listed.Data) {
		t.Errorf("no tools: %s", listed.Data)
	}
	definition := encode(t, sample(server, events.Declared{}))
	diff(t, "empty definition", `{"definition":{}}`, string(definition.Data))
}

func TestKindOf(t *testing.T) {
	diff(t, "kind of nothing", events.Kind(""), events.KindOf(nil))
	diff(t, "kind of no event", events.Kind(""), events.KindOf(events.Undecodable{}))
	diff(t, "kind of an unknown", events.Kind("hibernated"), events.KindOf(events.Unknown{Type: "dev.toolfleet.hibernated.v3"}))
	diff(t, "kind of HasStopped", events.KindStopped, events.KindOf(events.HasStopped{}))
	diff(t, "kind of an event without a body", events.Kind(""), new(events.Event).Kind())
	if events.Kind("hibernated").BelongsOn(events.OfInstance) || events.KindLost.BelongsOn(0) || events.KindLost.BelongsOn(200) {
		t.Error("a kind belongs on a chain that there is not")
	}
}
