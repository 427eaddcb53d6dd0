package callwire_test

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/events/callwire"
)

const subject = "tf.call.default.github.0.8"

func diff(t testing.TB, what string, want, got any) {
	t.Helper()
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("%s (-want +got):\n%s", what, d)
	}
}

func request() callwire.Request {
	return callwire.Request{
		ID: "call-1", Tool: "search", Arguments: jsontext.Value(`{"query": "Zoë",  "n": 1.0}`),
		Timeout: 1500 * time.Millisecond, Actor: "zoë@host-a",
		Trace: events.Trace{Parent: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", State: "vendor=opaque"},
	}
}

func TestRequestFormat(t *testing.T) {
	r := request()
	diff(t, "request", events.Message{
		Subject: subject,
		Header: map[string][]string{
			"tf-call": {"call-1"}, "tf-tool": {"search"}, "tf-timeout": {"1500"}, "tf-actor": {"zo%C3%AB@host-a"},
			"traceparent": {r.Trace.Parent}, "tracestate": {"vendor=opaque"},
		},
		Data: []byte(`{"query": "Zoë",  "n": 1.0}`),
	}, r.Encode(subject))
	got, err := callwire.DecodeRequest(r.Encode(subject))
	if err != nil {
		t.Fatal(err)
	}
	diff(t, "decoded", &r, got)
}

func TestLeastRequest(t *testing.T) {
	r := callwire.Request{ID: "1", Tool: "search"}
	m := r.Encode(subject)
	diff(t, "request", events.Message{
		Subject: subject, Header: map[string][]string{"tf-call": {"1"}, "tf-tool": {"search"}},
	}, m)
	got, err := callwire.DecodeRequest(m)
	if err != nil {
		t.Fatal(err)
	}
	diff(t, "decoded", &r, got)
}

// Another method of MCP travels in the same form; what it is about is only shown,
// and so may be long, or nothing.
func TestOtherMethods(t *testing.T) {
	r := callwire.Request{ID: "1", Method: callwire.ReadResource, Tool: "file:///ß", Arguments: jsontext.Value(`{"uri":"file:///ß"}`)}
	m := r.Encode(subject)
	diff(t, "request", events.Message{
		Subject: subject,
		Header:  map[string][]string{"tf-call": {"1"}, "tf-method": {"resources/read"}, "tf-tool": {"file:///%C3%9F"}},
		Data:    []byte(`{"uri":"file:///ß"}`),
	}, m)
	got, err := callwire.DecodeRequest(m)
	if err != nil {
		t.Fatal(err)
	}
	diff(t, "decoded", &r, got)
	diff(t, "calls a tool", false, got.CallsTool())

	long := strings.Repeat("x", callwire.MaxText-1)
	for target, want := range map[string]string{
		"": "", long + "y": long + "y", long + "yz": long + "y", long + "ßz": long,
	} {
		r := callwire.Request{ID: "1", Method: callwire.GetPrompt, Tool: target}
		got, err := callwire.DecodeRequest(r.Encode(subject))
		if err != nil {
			t.Fatal(err)
		}
		diff(t, "target", want, got.Tool)
	}
}

// The default has no header, and one that names it is the default.
func TestDefaultMethod(t *testing.T) {
	r := callwire.Request{ID: "1", Method: callwire.CallTool, Tool: "search"}
	m := r.Encode(subject)
	diff(t, "header", map[string][]string{"tf-call": {"1"}, "tf-tool": {"search"}}, m.Header)
	m.Header["tf-method"] = []string{"tools/call"}
	got, err := callwire.DecodeRequest(m)
	if err != nil {
		t.Fatal(err)
	}
	diff(t, "decoded", &callwire.Request{ID: "1", Tool: "search"}, got)
	diff(t, "calls a tool", true, got.CallsTool() && r.CallsTool())
}

// A limit never becomes "no limit" on its way, nor shorter.
func TestTimeoutsAreRoundedUp(t *testing.T) {
	for given, want := range map[time.Duration]time.Duration{
		0:                           0,
		1:                           time.Millisecond,
		time.Millisecond:            time.Millisecond,
		time.Millisecond + 1:        2 * time.Millisecond,
		time.Hour:                   time.Hour,
		-1:                          time.Millisecond,
		-time.Hour:                  time.Millisecond,
		math.MaxInt64 - 999_999_999: (math.MaxInt64 - 999_999_999) / 1_000_000 * 1_000_000,
	} {
		r := callwire.Request{ID: "1", Tool: "search", Timeout: given}
		got, err := callwire.DecodeRequest(r.Encode(subject))
		if err != nil {
			t.Errorf("%d: %v", given, err)
			continue
		}
		if got.Timeout < want || got.Timeout > want+time.Millisecond {
			t.Errorf("%d became %d, want %d", given, got.Timeout, want)
		}
		if (given == 0) != (got.Timeout == 0) {
			t.Errorf("%d became %d", given, got.Timeout)
		}
	}
}

// Names are the server's and may hold anything.
func TestAnyTextInARequest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringN(1, 30, callwire.MaxID)
		r := callwire.Request{ID: text.Draw(t, "id"), Tool: text.Draw(t, "tool"), Actor: text.Draw(t, "actor")}
		m := r.Encode(subject)
		for name, values := range m.Header {
			if v := values[0]; strings.ContainsAny(v, "\r\n") || v != strings.TrimSpace(v) {
				t.Fatalf("%s: %q", name, v)
			}
		}
		got, err := callwire.DecodeRequest(m)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(&r, got); d != "" {
			t.Fatal(d)
		}
	})
}

func TestDecodeRequestRefuses(t *testing.T) {
	long := strings.Repeat("x", callwire.MaxText+1)
	for name, values := range map[string][]string{
		"tf-call":    {"", strings.Repeat("x", callwire.MaxID+1), "%zz", "é"},
		"tf-method":  {strings.Repeat("x", 65), "%4", "é"},
		"tf-tool":    {"", long, "%4"},
		"tf-actor":   {long, "a\nb"},
		"tf-timeout": {"-1", "1s", "01", "1e3", "9223372036855", "18446744073709551616"},
	} {
		for _, value := range values {
			r := request()
			m := r.Encode(subject)
			m.Header[name] = []string{value}
			if got, err := callwire.DecodeRequest(m); err == nil {
				t.Errorf("%s: %q was decoded: %+v", name, value, got)
			}
		}
	}
	for _, arguments := range []string{
		`null`, `[]`, `"x"`, `{`, `{} {}`, `{"a":1,"a":2}`, `{"a":{"b":1,"b":2}}`, "{\"a\":\"\xff\"}", `{"a":"\ud800"}`, `{a:1}`, ` `,
	} {
		r := callwire.Request{ID: "1", Tool: "search", Arguments: jsontext.Value(arguments)}
		if got, err := callwire.DecodeRequest(r.Encode(subject)); err == nil {
			t.Errorf("%s was decoded: %+v", arguments, got)
		}
	}
	if got, err := callwire.DecodeRequest(events.Message{}); err == nil {
		t.Errorf("nothing was decoded: %+v", got)
	}
}

func TestControl(t *testing.T) {
	diff(t, "subject", "tf.call.default.github.0.8.ctl", callwire.ControlSubject(subject))
	for _, c := range []callwire.Control{
		{Kind: callwire.Cancel, Call: "call-1"}, {Kind: callwire.KeepAlive, Call: "ß"}, {Kind: "hold", Call: "1"},
	} {
		got, err := callwire.DecodeControl(c.Encode(callwire.ControlSubject(subject)))
		if err != nil {
			t.Fatal(err)
		}
		diff(t, "decoded", &c, got)
	}
	c := callwire.Control{Kind: callwire.Cancel, Call: "call-1"}
	diff(t, "control", events.Message{
		Subject: subject + ".ctl", Header: map[string][]string{"tf-frame": {"cancel"}, "tf-call": {"call-1"}},
	}, c.Encode(callwire.ControlSubject(subject)))
	for _, h := range []map[string][]string{
		nil,
		{"tf-frame": {"cancel"}},
		{"tf-call": {"1"}},
		{"tf-frame": {""}, "tf-call": {"1"}},
		{"tf-frame": {}, "tf-call": {"1"}},
		{"tf-frame": {strings.Repeat("x", 33)}, "tf-call": {"1"}},
		{"tf-frame": {"cancel"}, "tf-call": {strings.Repeat("x", 129)}},
	} {
		if got, err := callwire.DecodeControl(events.Message{Header: h}); err == nil {
			t.Errorf("%v was decoded: %+v", h, got)
		}
	}
}
