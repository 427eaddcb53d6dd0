package worker

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"

	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/events/callwire"
	"github.com/toolfleet/toolfleet/worker/mcptest"
)

// Resources are read, prompts got and arguments completed as raw JSON both ways,
// over both transports and in both eras.
func TestWorkerPassesOtherMethodsOn(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"stdio", "http", "stateless"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			record := mcptest.NewRecord(t)
			script := offering()
			script.Record = record.Path()
			if name == "stateless" {
				script.Refuse = jsontext.Value(`{"code":-32022,"message":"unsupported","data":{"supported":["2026-07-28"]}}`)
			}
			d := script.Definition(t)
			if name != "stdio" {
				d = events.Definition{URL: mcptest.NewHTTP(t, script).URL}
			}
			r := newRig(t)
			r.start()
			r.run("s", d)
			for _, tc := range []struct{ method, target, params, want string }{
				{callwire.ReadResource, mcptest.OddURI, `{"uri":"odd:///","x":{"n":9007199254740993},"_meta":{"vendor/a":1.0}}`, mcptest.OddContents},
				{callwire.GetPrompt, "odd", `{"name":"odd","arguments":{"text":"<ß>"}}`, mcptest.OddMessages},
				{callwire.Complete, "odd", `{"ref":{"type":"ref/prompt","name":"odd"},"argument":{"name":"text","value":"x"}}`, mcptest.OddCompletion},
			} {
				if got := r.ask(t.Context(), "s", tc.method, tc.target, tc.params); got.result != tc.want {
					t.Errorf("%s: %s, %+v", tc.method, got.result, got.err)
				}
				sent := paramsOf(t, record, tc.method)
				if token := string(sent["_meta"]["progressToken"]); token != `"call-`+tc.target+`"` {
					t.Errorf("%s with the progress token %s", tc.method, token)
				}
				if _, versioned := sent["_meta"]["io.modelcontextprotocol/protocolVersion"]; versioned != (name == "stateless") {
					t.Errorf("%s with _meta %s", tc.method, sent["_meta"])
				}
			}
			if text := strings.Join(record.Lines(), "\n"); !strings.Contains(text, `"x":{"n":9007199254740993}`) || !strings.Contains(text, `"vendor/a":1.0`) {
				t.Errorf("the parameters were changed:\n%s", text)
			}
			// As the MCP library's server has them, so that its own checks apply.
			got := r.ask(t.Context(), "s", callwire.GetPrompt, "greet", `{"name":"greet","arguments":{"text":"hello"}}`)
			if got.err != nil || !strings.Contains(got.result, "greet: hello") {
				t.Errorf("greet: %s, %+v", got.result, got.err)
			}
			got = r.ask(t.Context(), "s", callwire.ReadResource, "", `{"uri":"test:///from-a-template"}`)
			if got.err != nil || !strings.Contains(got.result, "what is at test:///from-a-template") {
				t.Errorf("by a template: %s, %+v", got.result, got.err)
			}
			if got = r.ask(t.Context(), "s", callwire.ReadResource, "x", `{"uri":"nowhere:///"}`); got.err == nil ||
				got.err.Outcome != callwire.Failed || got.err.Failure.Code != events.RPCError || got.err.RPCCode == 0 {
				t.Errorf("what is not there: %s, %+v", got.result, got.err)
			}
		})
	}
}

// paramsOf returns the last parameters that a method was called with, by the names
// of their members.
func paramsOf(t *testing.T, record *mcptest.Record, method string) map[string]map[string]jsontext.Value {
	t.Helper()
	lines := record.Lines()
	slices.Reverse(lines)
	for _, line := range lines {
		text, ok := strings.CutPrefix(line, method+" ")
		if !ok {
			continue
		}
		var raw map[string]jsontext.Value
		if err := json.Unmarshal([]byte(text), &raw); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		params := make(map[string]map[string]jsontext.Value)
		for name, v := range raw {
			var members map[string]jsontext.Value
			_ = json.Unmarshal(v, &members) // some are no objects
			params[name] = members
		}
		return params
	}
	t.Fatalf("%s was not called", method)
	return nil
}

// What a server has not declared it is not asked for, and an unknown method goes to
// no server.
func TestWorkerRefusesOtherMethods(t *testing.T) {
	t.Parallel()
	record := mcptest.NewRecord(t)
	r := newRig(t)
	r.start()
	r.run("s", mcptest.Script{Tools: []string{"echo"}, Record: record.Path()}.Definition(t))
	for method, words := range map[string]string{
		callwire.ReadResource: "offers no resources", callwire.GetPrompt: "offers no prompts", callwire.Complete: "offers no completions",
		"tools/list": "not passed on", "logging/setLevel": "not passed on",
	} {
		got := r.ask(t.Context(), "s", method, "x", `{}`)
		if e := got.err; e == nil || e.Outcome != callwire.NotExecuted || e.RPCCode != -32601 || !strings.Contains(e.Failure.Message, words) {
			t.Errorf("%s: %s, %+v", method, got.result, got.err)
		}
	}
	for _, line := range record.Lines() {
		if strings.Contains(line, "/") {
			t.Errorf("the server was asked %s", line)
		}
	}
	if got := r.kinds("s"); got != "assigned connecting connected tools-listed" {
		t.Errorf("the chain says %s", got)
	}
}

// Reading is cancelled, limited in time and bound to the lease as calls are.
func TestWorkerLimitsOtherMethods(t *testing.T) {
	t.Parallel()
	record := mcptest.NewRecord(t)
	script := offering()
	script.Record = record.Path()
	d := script.Definition(t)
	d.CallTimeoutMs = new(int64(400))
	r := newRig(t)
	r.start()
	r.run("s", d)
	sleep := fmt.Sprintf(`{"uri":%q}`, mcptest.SleepingResource)
	got := r.ask(t.Context(), "s", callwire.ReadResource, "x", sleep)
	if e := got.err; e == nil || e.Outcome != callwire.Unknown || e.Failure.Code != events.CallTimeout {
		t.Errorf("too slow: %+v", got.err)
	}
	eventually(t, "the server to be told", func() bool { return record.Has("cancelled") })
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if got = r.ask(ctx, "s", callwire.ReadResource, "x", sleep); got.err == nil || got.err.Outcome != callwire.Unknown {
		t.Errorf("the caller's limit: %+v", got.err)
	}
	if got = r.ask(t.Context(), "s", callwire.GetPrompt, "x", `{"name":"odd","_meta":7}`); got.err == nil ||
		got.err.Outcome != callwire.NotExecuted || got.err.RPCCode != -32602 {
		t.Errorf("a strange _meta: %+v", got.err)
	}
	asked := strings.Count(strings.Join(record.Lines(), "\n"), "prompts/get")
	r.lease.set(0)
	got = r.ask(t.Context(), "s", callwire.GetPrompt, "x", `{"name":"odd"}`)
	if e := got.err; e == nil || e.Outcome != callwire.NotExecuted || e.Failure.Code != events.LeaseLost {
		t.Errorf("without a lease: %+v", got.err)
	}
	if now := strings.Count(strings.Join(record.Lines(), "\n"), "prompts/get"); now != asked {
		t.Errorf("%d requests after the end of the lease", now-asked)
	}
}

// flying asks the worker for its calls in flight.
func (r *rig) flying() callwire.CallsResult {
	r.t.Helper()
	got := r.request(r.t.Context(), events.CallsSubject("f", testWorker), &callwire.Request{ID: "l", Tool: callwire.ListCalls})
	var calls callwire.CallsResult
	if err := json.Unmarshal([]byte(got.result), &calls); err != nil {
		r.t.Fatalf("calls: %s, %+v, %v", got.result, got.err, err)
	}
	return calls
}

// Calls in flight are told of, and any of them can be cancelled.
func TestWorkerTellsOfCalls(t *testing.T) {
	t.Parallel()
	record := mcptest.NewRecord(t)
	script := offering()
	script.Record = record.Path()
	r := newRig(t)
	r.options.Limits.Calls = 1
	r.start()
	r.run("s", script.Definition(t))
	r.see("s", 0, ready)
	if calls := r.flying(); calls.Calls == nil || len(calls.Calls) != 0 {
		t.Errorf("before any: %+v", calls)
	}
	read, call := make(chan call, 1), make(chan call, 1)
	go func() {
		read <- r.ask(t.Context(), "s", callwire.ReadResource, mcptest.SleepingResource, fmt.Sprintf(`{"uri":%q}`, mcptest.SleepingResource))
	}()
	eventually(t, "the first to arrive", func() bool { return record.Has("resources/read") })
	go func() { call <- r.call(t.Context(), "s", "echo", `{}`) }()
	eventually(t, "the second to wait", func() bool { return len(r.flying().Calls) == 2 })
	calls := r.flying().Calls
	for i := range calls {
		if age := time.Since(calls[i].Began); age < 0 || age > hangLimit {
			t.Errorf("began %s", calls[i].Began)
		}
		calls[i].Began = time.Time{}
	}
	want := []callwire.InFlight{
		{
			Call: "call-" + mcptest.SleepingResource, Server: "s", Instance: "0", Method: callwire.ReadResource, Tool: mcptest.SleepingResource,
			Actor: "zoe", State: callwire.CallSent,
		},
		{Call: "call-echo", Server: "s", Instance: "0", Method: callwire.CallTool, Tool: "echo", State: callwire.CallWaiting},
	}
	if d := cmp.Diff(want, calls); d != "" {
		t.Errorf("calls in flight (-want +got):\n%s", d)
	}

	cancel := func(arguments string) string {
		t.Helper()
		got := r.request(t.Context(), events.CallsSubject("f", testWorker), &callwire.Request{
			ID: "c", Tool: callwire.CancelCall, Actor: "max", Arguments: jsontext.Value(arguments),
		})
		if got.err != nil {
			return string(got.err.Outcome)
		}
		return got.result
	}
	for arguments, want := range map[string]string{
		`{"call":"another"}`: `{"cancelled":false}`, `{}`: "not-executed", `{"call":7}`: "not-executed",
	} {
		if got := cancel(arguments); got != want {
			t.Errorf("cancel %s: %s", arguments, got)
		}
	}
	if got := cancel(`{"call":"call-` + mcptest.SleepingResource + `"}`); got != `{"cancelled":true}` {
		t.Errorf("cancel: %s", got)
	}
	got := <-read
	if e := got.err; e == nil || e.Outcome != callwire.Cancelled || e.Failure.Message != "cancelled by max" {
		t.Errorf("the cancelled one: %s, %+v", got.result, got.err)
	}
	eventually(t, "the server to be told", func() bool { return record.Has("cancelled") })
	if got := <-call; got.err != nil { // it has its turn now
		t.Errorf("the one that waited: %+v", got.err)
	}
	if calls := r.flying(); len(calls.Calls) != 0 {
		t.Errorf("afterwards: %+v", calls)
	}
	if got := r.request(t.Context(), events.CallsSubject("f", testWorker), &callwire.Request{ID: "x", Tool: "explode"}); got.err == nil || got.err.Outcome != callwire.NotExecuted {
		t.Errorf("another request: %+v", got)
	}
}

// A list of calls is bounded, with the longest first.
func TestBoardIsBounded(t *testing.T) {
	var b board
	d := &desk{conn: &conn{}, address: events.Address{Server: "s", Instance: "0"}}
	for n := range callwire.MaxListed + 5 {
		b.add(&flight{desk: d, request: &callwire.Request{ID: fmt.Sprint(n)}, began: timeOf(int64(n))})
	}
	r := b.list()
	if len(r.Calls) != callwire.MaxListed || r.More != 5 || r.Calls[0].Call != "0" || r.Calls[999].Call != "999" {
		t.Errorf("%d calls and %d more, from %s", len(r.Calls), r.More, r.Calls[0].Call)
	}
}
