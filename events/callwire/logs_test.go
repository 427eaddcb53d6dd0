package callwire_test

import (
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/toolfleet/toolfleet/events/callwire"
)

func TestLogLines(t *testing.T) {
	l := callwire.LogLine{
		Time: time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC), Epoch: 7, Attempt: 2, Stream: callwire.Stderr, Text: "no \xff good",
	}
	data := callwire.AppendLogLine(nil, &l)
	diff(t, "line", `{"time":"2026-01-02T03:04:05.000000006Z","epoch":7,"attempt":2,"stream":"stderr","text":"no `+"\ufffd"+` good"}`+"\n", string(data))
	l.Text = "no \ufffd good"
	got, err := callwire.DecodeLogLines(append([]byte("\n"), callwire.AppendLogLine(data, &l)...))
	if err != nil {
		t.Fatal(err)
	}
	diff(t, "decoded", []callwire.LogLine{l, l}, got)
	got, err = callwire.DecodeLogLines(append([]byte(`{"time":`), data...)) // half a line, and one that was not parted from it
	if err == nil || len(got) != 0 {
		t.Errorf("half a line: %+v, %v", got, err)
	}
	if got, err = callwire.DecodeLogLines(append([]byte("half\n"), data...)); err == nil || len(got) != 1 {
		t.Errorf("a line after half a line: %+v, %v", got, err)
	}
}

func TestCallsFormat(t *testing.T) {
	for text, r := range map[string]any{
		`{"calls":[{"call":"c","server":"git","instance":"0","method":"tools/call","tool":"log","actor":"a@b","began":"2026-01-02T03:04:05Z","state":"sent"}],"more":2}`: callwire.CallsResult{
			Calls: []callwire.InFlight{{
				Call: "c", Server: "git", Instance: "0", Method: callwire.CallTool, Tool: "log", Actor: "a@b",
				Began: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), State: callwire.CallSent,
			}},
			More: 2,
		},
		`{"calls":[]}`:       callwire.CallsResult{},
		`{"call":"c"}`:       callwire.CancelRequest{Call: "c"},
		`{"cancelled":true}`: callwire.CancelResult{Cancelled: true},
	} {
		data, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		diff(t, "calls", text, string(data))
	}
}

func TestLogsRequestFormat(t *testing.T) {
	for text, r := range map[string]any{
		`{"server":"git","instance":"0","tail":-1}`: callwire.LogsRequest{Server: "git", Instance: "0", Tail: -1},
		`{"server":"git","instance":"0","tail":0,"previous":true,"follow":true}`: callwire.LogsRequest{
			Server: "git", Instance: "0", Previous: true, Follow: true,
		},
		`{"end":"complete"}`: callwire.LogsResult{End: callwire.LogsComplete},
	} {
		data, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		diff(t, "request", text, string(data))
	}
}
