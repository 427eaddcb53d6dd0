package session

import (
	"fmt"

	"github.com/cockroachdb/errors"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/toolfleet/toolfleet/events"
)

// The outcomes of a call that has no result. An error of [Session.Call] is
// marked with exactly one of them: use errors.Is.
var (
	// ErrUnknownTool says that the session offers no tool of that name. Nothing
	// was sent.
	ErrUnknownTool = errors.New("unknown tool")
	// ErrInvalidArguments says that the arguments are not a JSON object. Nothing
	// was sent.
	ErrInvalidArguments = errors.New("arguments are not a JSON object")
	// ErrNotExecuted says that the server certainly did not see the call.
	ErrNotExecuted = errors.New("not executed")
	// ErrUnknownOutcome says that the server may have executed the call, or part
	// of it.
	ErrUnknownOutcome = errors.New("outcome unknown")
	// ErrFailed says that the server answered the call with a protocol error.
	ErrFailed = errors.New("call failed")
	// ErrCancelled says that the caller's context was cancelled. The server may
	// have executed the call, or part of it.
	ErrCancelled = errors.New("call cancelled")
)

// CallError tells why a call has no result.
type CallError struct {
	// Outcome is one of [ErrNotExecuted], [ErrUnknownOutcome], [ErrFailed] and
	// [ErrCancelled].
	Outcome error
	Server  events.ServerID
	Tool    string
	// Failure says why, as far as that is known.
	Failure events.Failure
	// RPCCode and RPCData are those of the server's JSON-RPC error, if it
	// answered with one.
	RPCCode int
	RPCData jsontext.Value
	// Err is the error underneath, or nil.
	Err error
}

func (e *CallError) Error() string {
	why := e.Failure.Message
	switch {
	case why != "":
	case e.Failure.Code != "":
		why = string(e.Failure.Code)
	case e.Err != nil:
		why = e.Err.Error()
	}
	if why != "" {
		why = ": " + why
	}
	if e.RPCCode != 0 {
		why += fmt.Sprintf(" (code %d)", e.RPCCode)
	}
	return fmt.Sprintf("call %s of server %s: %v%s", e.Tool, e.Server, e.Outcome, why)
}

// Is makes the error its outcome.
func (e *CallError) Is(target error) bool { return target == e.Outcome }

func (e *CallError) Unwrap() error { return e.Err }
