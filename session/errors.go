package session

import (
	"context"
	"fmt"

	"github.com/cockroachdb/errors"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/events/callwire"
	"github.com/toolfleet/toolfleet/projections"
)

// The outcomes of a call that has no result, and of what else is asked of a
// server. An error of [Session.Call] is marked with exactly one of them: use
// errors.Is. So is one of [Session.Read], [Session.Prompt] and
// [Session.Complete], unless it is [ErrUnknownServer].
var (
	// ErrUnknownTool says that the session offers no tool of that name. Nothing
	// was sent.
	ErrUnknownTool = errors.New("unknown tool")
	// ErrUnknownPrompt says that the session offers no prompt of that name.
	// Nothing was sent.
	ErrUnknownPrompt = errors.New("unknown prompt")
	// ErrInvalidArguments says that the arguments are not a JSON object, or not
	// what a prompt takes. Nothing was sent.
	ErrInvalidArguments = errors.New("invalid arguments")
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
	// Method of MCP that was asked for, and what it was about: the server's own
	// name of a tool or prompt, or a URI.
	Method string
	Tool   string
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
	var why string
	if e.Err != nil {
		why = ": " + e.Err.Error()
	}
	switch {
	case e.Failure.Message != "":
		why += ": " + e.Failure.Message
	case e.Failure.Code != "":
		why += ": " + string(e.Failure.Code)
	}
	if e.RPCCode != 0 {
		why += fmt.Sprintf(" (code %d)", e.RPCCode)
	}
	return fmt.Sprintf("%s of server %s: %v%s", e.what(), e.Server, e.Outcome, why)
}

func (e *CallError) what() string {
	switch e.Method {
	case callwire.ReadResource:
		return "read " + e.Tool
	case callwire.GetPrompt:
		return "get prompt " + e.Tool
	case callwire.Complete:
		return "complete " + e.Tool
	default:
		return "call " + e.Tool
	}
}

// Is makes the error its outcome, and a [context.DeadlineExceeded] where time ended
// the call: the owner, who has the caller's limit, may be the first to notice.
func (e *CallError) Is(target error) bool {
	return target == e.Outcome || target == context.DeadlineExceeded && e.Failure.Code == events.CallTimeout
}

func (e *CallError) Unwrap() error { return e.Err }

// ErrUnknownServer says that the session sees no server of that id.
var ErrUnknownServer = errors.New("unknown server")

// ServerError tells why a server is not ready and not expected to be by itself.
type ServerError struct {
	Server events.ServerID
	State  projections.State
	// Failure is its cause, or nil: nothing went wrong with a server that is
	// stopped.
	Failure *projections.Fault
}

func newServerError(n *projections.Status) error {
	return errors.WithStack(&ServerError{Server: n.ID, State: n.State, Failure: n.Failure})
}

func (e *ServerError) Error() string {
	why := ""
	if e.Failure != nil {
		why = ": " + e.Failure.Error()
	}
	return fmt.Sprintf("server %s is %s%s", e.Server, e.State, why)
}

func (e *ServerError) Unwrap() error {
	if e.Failure == nil {
		return nil
	}
	return e.Failure.Failure
}
