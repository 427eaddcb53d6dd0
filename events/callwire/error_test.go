package callwire_test

import (
	"testing"

	"github.com/cockroachdb/errors"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/events/callwire"
)

func TestErrorFormat(t *testing.T) {
	for text, e := range map[string]callwire.Error{
		`{"outcome":"not-executed","code":"no_owner","retry":true}`: {
			Outcome: callwire.NotExecuted, Failure: events.NewFailure(events.NoOwner, "", ""),
		},
		`{"outcome":"failed","code":"rpc_error","phase":"run","message":"no such tool","rpcCode":-32602,"rpcData":{"a":1}}`: {
			Outcome: callwire.Failed, Failure: events.NewFailure(events.RPCError, events.PhaseRun, "no such tool"),
			RPCCode: -32602, RPCData: jsontext.Value(`{"a":1}`),
		},
		`{"outcome":"cancelled","code":"call_cancelled"}`: {
			Outcome: callwire.Cancelled, Failure: events.NewFailure(events.CallCancelled, "", ""),
		},
		`{"outcome":"unknown","code":"call_timeout"}`: {
			Outcome: callwire.Unknown, Failure: events.NewFailure(events.CallTimeout, "", ""),
		},
	} {
		diff(t, "error", text, string(callwire.EncodeError(&e)))
		got, err := callwire.DecodeError([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		diff(t, "decoded", &e, got)
	}
}

func TestErrorAsAGoError(t *testing.T) {
	err := errors.Wrap(error(&callwire.Error{
		Outcome: callwire.Unknown, Failure: events.NewFailure(events.CallTimeout, events.PhaseRun, "no answer in 30 s"),
	}), "search")
	var e *callwire.Error
	var f events.Failure
	if !errors.As(err, &e) || !errors.As(err, &f) || f.Code != events.CallTimeout {
		t.Errorf("no details: %+v, %+v", e, f)
	}
	diff(t, "words", "search: call unknown: call_timeout (run): no answer in 30 s", err.Error())
}

// An answer is never lost because of what a server put into it.
func TestErrorsAreAlwaysEncoded(t *testing.T) {
	for want, e := range map[string]callwire.Error{
		`{"outcome":"failed","code":"rpc_error","rpcCode":1}`: {
			Outcome: callwire.Failed, Failure: events.Failure{Code: events.RPCError}, RPCCode: 1, RPCData: jsontext.Value(`{"a":`),
		},
		`{"outcome":"failed","code":"rpc_error","message":"a` + "\ufffd" + `b"}`: {
			Outcome: callwire.Failed, Failure: events.Failure{Code: events.RPCError, Message: "a\xffb"},
		},
	} {
		diff(t, "error", want, string(callwire.EncodeError(&e)))
	}
}

func TestOutcomesOfLaterBuilds(t *testing.T) {
	got, err := callwire.DecodeError([]byte(`{"outcome":"half-executed","code":"meteor","x":1}`))
	if err != nil {
		t.Fatal(err)
	}
	diff(t, "decoded", &callwire.Error{Outcome: callwire.Unknown, Failure: events.Failure{Code: "meteor"}}, got)
	for _, text := range []string{``, `{`, `[]`, `{"outcome":1}`, `{"outcome":"failed","outcome":"unknown"}`} {
		if got, err := callwire.DecodeError([]byte(text)); err == nil {
			t.Errorf("%s was decoded: %+v", text, got)
		}
	}
}
