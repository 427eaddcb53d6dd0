package worker

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolfleet/toolfleet/events"
)

// T10: a server may say the token alone of a value that has more to it.
func TestScrubParts(t *testing.T) {
	for _, tc := range []struct{ value, text, want string }{
		{"echo boom ghp_ABCDEFGHIJ0123456789 >&2; exit 3", "boom ghp_ABCDEFGHIJ0123456789", "boom [redacted]"},
		{"echo boom ghp_ABCDEFGHIJ0123456789>&2;exit 3", "echo: ghp_ABCDEFGHIJ0123456789, exit", "echo: [redacted], exit"},
		{"Bearer a1b2c3d4e5f6", `{"got":"a1b2c3d4e5f6","as":"Bearer"}`, `{"got":"[redacted]","as":"Bearer"}`},
		{"Basic dXNlcjpwYXNzd29yZDE=", "dXNlcjpwYXNzd29yZDE= is wrong", "[redacted] is wrong"},
		{"Bearer abc/d3f+ghi/jkl==", "GET /?t=abc%2Fd3f%2Bghi%2Fjkl%3D%3D", "GET /?t=[redacted]"},
		{"Bearer a1b2c3d4e5f6", "as base64: YTFiMmMzZDRlNWY2", "as base64: [redacted]"},
		{"postgres://app:hunter2-hunter2@database/orders", "hunter2-hunter2 for database orders", "[redacted] for database orders"},
		{"https://x.test/v1?key=qWerTyuIOpAsdFGhjKL&mode=readonly", "key qWerTyuIOpAsdFGhjKL readonly", "key [redacted] readonly"},
		{"--password 'Pa$$w0rd!#x'", "Pa$$w0rd!#x as password", "[redacted] as password"},
		{`{"private_key":"-----BEGIN-----\nMIIEvQIBADANBgk1\nhkiG9w0BAQEFAASC\n"}`, "MIIEvQIBADANBgk1\nhkiG9w0BAQEFAASC", "[redacted]\n[redacted]"},
		{"a1b2c3d", "a1b2c3d4", "[redacted]4"}, // the value as a whole
		{"use a1b2c3d", "a1b2c3d", "a1b2c3d"},  // too short for a part
		{
			"JavaScript PostgreSQL McDonald CONTENT_TYPE Authorization application/json 127.0.0.1:8080 2025-11-25",
			"JavaScript, PostgreSQL, McDonald: CONTENT_TYPE Authorization application/json 127.0.0.1 2025-11-25",
			"JavaScript, PostgreSQL, McDonald: CONTENT_TYPE Authorization application/json 127.0.0.1 2025-11-25",
		},
	} {
		if got := newScrubber([]string{tc.value}).scrub(tc.text); got != tc.want {
			t.Errorf("of %q\n%q became\n%q, want\n%q", tc.value, tc.text, got, tc.want)
		}
	}
}

func TestScrubPartsAreBounded(t *testing.T) {
	var long strings.Builder
	for i := range 10 * maxParts {
		fmt.Fprintf(&long, "part%06d ", i)
	}
	long.WriteString("the-longest-part-1")
	parts := partsOf(long.String())
	if len(parts) != maxParts || parts[0] != "the-longest-part-1" {
		t.Errorf("%d parts, the first is %q", len(parts), parts[0])
	}
	if d := cmp.Diff([]string{"a1b2c3d4=e5", "a1b2c3d4"}, partsOf("x a1b2c3d4=e5 y a1b2c3d4")); d != "" {
		t.Errorf("parts (-want +got):\n%s", d)
	}
}

// T10: a definition's argument was moved as a whole, and the process says a part
// of it.
func TestWorkerScrubsParts(t *testing.T) {
	r := newRig(t)
	r.secrets["${secret:crash/arg.2#1}"] = "echo boom ghp_ABCDEFGHIJ0123456789 >&2; exit 3"
	r.start()
	r.run("crash", events.Definition{
		Command: "sh", Args: []string{"-c", "${secret:crash/arg.2#1}"}, RestartPolicy: &events.RestartPolicy{MaxRestartAttempts: new(0)},
	})
	f, _ := r.see("crash", 0, events.KindFailed, events.KindParked)[0].Body.(events.Failed)
	if f.Failure.Code != events.StartupCrash || f.StderrTail != "boom [redacted]" {
		t.Errorf("failed with %+v", f)
	}
	if h := r.history(); strings.Contains(h, "ghp_") {
		t.Errorf("the token is in the history:\n%s", h)
	}
}

// T10: what a file ends with, and the padding of an encoding, hide no secret.
func TestScrubsWithoutWhatIsAround(t *testing.T) {
	for _, tt := range []struct{ secret, text, want string }{
		{"hunter2\n", "the password is hunter2 indeed", "the password is [redacted] indeed"},
		{"pass12\r\n", "pass12", "[redacted]"},
		{"abcdefgh", "token YWJjZGVmZ2g.x", "token [redacted].x"},
		{"abcdefgh", "token YWJjZGVmZ2g=", "token [redacted]"},
		{"??>>??>>x", "token Pz8-Pj8_Pj54", "token [redacted]"},
	} {
		if got := newScrubber([]string{tt.secret}).scrub(tt.text); got != tt.want {
			t.Errorf("%q with %q: %q, want %q", tt.text, tt.secret, got, tt.want)
		}
	}
}

// A line stays within its limit, whatever is redacted in it.
func TestLogLineStaysWithinItsLimit(t *testing.T) {
	s := newScrubber([]string{"abcd"})
	for _, cut := range []bool{false, true} {
		if got := s.line("  "+strings.Repeat("ab\x00cd", 2*maxLogLine/5), cut); len(got) > maxLogLine || strings.Contains(got, "abcd") {
			t.Errorf("a line of %d bytes", len(got))
		}
	}
}
