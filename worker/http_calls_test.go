package worker

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/errors"
	"github.com/go-json-experiment/json"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/events/callwire"
	"github.com/toolfleet/toolfleet/worker/mcptest"
)

// case K1: a server that has forgotten the session ends the connection,
// and a call that it refused for that was not executed.
func TestHTTPSessionForgotten(t *testing.T) {
	s := mcptest.NewHTTP(t, mcptest.Script{Tools: mcptest.Special})
	d := mustDial(t, httpDefinition(s.URL))
	s.Forget()
	e := d.called(t, "echo")
	if e.Outcome != callwire.NotExecuted || e.Failure.Code != events.ConnectionLost {
		t.Errorf("a call: %+v", e)
	}
	wait(t, d.conn.over, "the connection to be over")
	if end := d.conn.End(); end.code != events.ConnectionLost || !strings.Contains(end.message, "session") {
		t.Errorf("ended with %+v", end)
	}
	wait(t, d.conn.gone, "the end of the connection")
}

// A call that is given up ends its request, and the server is told.
func TestHTTPCancels(t *testing.T) {
	s := mcptest.NewHTTP(t, mcptest.Script{Tools: mcptest.Special})
	d := mustDial(t, httpDefinition(s.URL))
	ended, arrived := make(chan struct{}), make(chan struct{})
	s.Answer(func(_ http.ResponseWriter, r *http.Request) bool {
		body, _ := io.ReadAll(r.Body)
		if !strings.Contains(string(body), "tools/call") {
			return false
		}
		close(arrived)
		<-r.Context().Done()
		close(ended)
		return true
	})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := d.tool(ctx, "sleep", `{"ms":3600000}`)
		done <- err
	}()
	wait(t, arrived, "the call to arrive")
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("the call ended with %v", err)
	}
	wait(t, ended, "the request to end")
	eventually(t, "the server to be told", func() bool {
		return slices.ContainsFunc(s.Seen(), func(seen mcptest.Seen) bool { return seen.RPC == "notifications/cancelled" })
	})
}

// called calls a tool as calls of the bus do, and returns what became of it.
func (d dialed) called(t *testing.T, tool string) *callwire.Error {
	t.Helper()
	o := Options{Env: os.LookupEnv, Tracer: noop.NewTracerProvider().Tracer("")}
	desk := &desk{
		conn: d.conn, definition: d.definition, slots: make(chan struct{}, 1),
		host: &host{parts: Parts{Lease: &testLease{remaining: time.Hour}}, options: o},
	}
	result, err := desk.answer(t.Context(), &callwire.Request{ID: "c", Tool: tool}, func(callwire.FrameKind, []byte) {})
	var e *callwire.Error
	if !errors.As(err, &e) {
		t.Fatalf("%s answered %s, %v", tool, result, err)
	}
	return e
}

// What an HTTP server's answers mean for a call.
func TestHTTPCallOutcomes(t *testing.T) {
	for name, tc := range map[string]struct {
		answer  func(w http.ResponseWriter, id string)
		outcome callwire.Outcome
		code    events.Code
	}{
		"401": {func(w http.ResponseWriter, _ string) { w.WriteHeader(401) }, callwire.Failed, events.AuthenticationNeeded},
		"429": {func(w http.ResponseWriter, _ string) { w.WriteHeader(429) }, callwire.Failed, "http_429"},
		"502": {func(w http.ResponseWriter, _ string) { w.WriteHeader(502) }, callwire.Unknown, "http_502"},
		"cut": {func(w http.ResponseWriter, _ string) { w.Header().Set("Content-Length", "7") }, callwire.Unknown, events.CallInterrupted},
		"rpc": {func(w http.ResponseWriter, _ string) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(400)
			_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":3,"error":{"code":-32020,"message":"mismatch"}}`)
		}, callwire.Failed, events.RPCError},
		"asks": {func(w http.ResponseWriter, id string) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":`+id+`,"result":{"resultType":"input_required","inputRequests":{}}}`)
		}, callwire.Failed, events.RPCError},
	} {
		t.Run(name, func(t *testing.T) {
			s := mcptest.NewHTTP(t, mcptest.Script{Tools: mcptest.Special})
			d := mustDial(t, httpDefinition(s.URL))
			s.Answer(func(w http.ResponseWriter, r *http.Request) bool {
				if r.Method != http.MethodPost {
					return false
				}
				var m struct {
					ID int `json:"id"`
				}
				_ = json.UnmarshalRead(r.Body, &m) // notifications have none
				tc.answer(w, strconv.Itoa(m.ID))
				return true
			})
			if e := d.called(t, "echo"); e.Outcome != tc.outcome || e.Failure.Code != tc.code {
				t.Errorf("%+v, want %s, %s", e, tc.outcome, tc.code)
			}
		})
	}
}

// R31: what the server says to our answers to its own requests is no part of the
// call on whose stream it asked.
func TestHTTPAnswersApart(t *testing.T) {
	s := mcptest.NewHTTP(t, mcptest.Script{Tools: mcptest.Special})
	d := mustDial(t, httpDefinition(s.URL))
	answered := make(chan string, 1)
	s.Answer(func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodPost {
			return false
		}
		body, _ := io.ReadAll(r.Body)
		if !strings.Contains(string(body), "tools/call") {
			answered <- string(body)
			w.WriteHeader(http.StatusUnauthorized)
			return true
		}
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, "data: {\"jsonrpc\":\"2.0\",\"id\":\"q\",\"method\":\"ping\"}\n\n")
		_ = http.NewResponseController(w).Flush()
		if got := <-answered; !strings.Contains(got, `"id":"q"`) || !strings.Contains(got, `"result":{}`) {
			t.Errorf("ping was answered with %s", got)
		}
		return true // the stream ends without the call's answer
	})
	if e := d.called(t, "echo"); e.Outcome != callwire.Unknown || e.Failure.Code != events.CallInterrupted {
		t.Errorf("the call: %+v", e)
	}
}

func TestReceipts(t *testing.T) {
	rec := &receipt{}
	request := func() *http.Request {
		return httptest.NewRequestWithContext(withReceipt(t.Context(), rec), http.MethodPost, "http://x/", nil)
	}
	if receiptOf(request()) != rec {
		t.Error("a request is not noted")
	}
	if receiptOf(request()) == rec {
		t.Error("another request under its context is noted as well")
	}
	redirected := request()
	redirected.Response = &http.Response{}
	if receiptOf(redirected) != rec {
		t.Error("what it was redirected to is not noted")
	}
}
