package callwire

import (
	"github.com/cockroachdb/errors"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/toolfleet/toolfleet/events"
)

// Outcome says what became of a call that has no result.
type Outcome string

// The outcomes.
const (
	// NotExecuted says that the server certainly did not see the call.
	NotExecuted Outcome = "not-executed"
	// Unknown says that the server may have executed the call, or a part of it.
	Unknown Outcome = "unknown"
	// Failed says that the server answered with an error.
	Failed Outcome = "failed"
	// Cancelled says that the caller cancelled the call; the server may have
	// executed a part of it.
	Cancelled Outcome = "cancelled"
)

// Error is the body of a [Failure] frame, and the error of a call. As JSON it is
// {"outcome", "code", "phase", "message", "retry", "rpcCode", "rpcData"}, of
// which only the first two are always there.
type Error struct {
	Outcome Outcome        `json:"outcome"`
	Failure events.Failure `json:",embed"`
	// RPCCode and RPCData are those of the server's JSON-RPC error, if it
	// answered with one.
	RPCCode int            `json:"rpcCode,omitzero"`
	RPCData jsontext.Value `json:"rpcData,omitzero"`
}

func (e *Error) Error() string { return "call " + string(e.Outcome) + ": " + e.Failure.Error() }

// Unwrap returns the Failure.
func (e *Error) Unwrap() error { return e.Failure }

// EncodeError returns the body of a [Failure] frame. RPCData that is no JSON is
// left out: it must not keep a caller from its answer.
func EncodeError(e *Error) []byte {
	data, err := json.Marshal(e)
	if err == nil {
		return data
	}
	whole := *e
	whole.RPCData = nil
	// Text that is not valid Unicode is written with replacement characters.
	data, err = json.Marshal(&whole, jsontext.AllowInvalidUTF8(true))
	if err != nil {
		return []byte(`{"outcome":"unknown","code":"other"}`) // unreachable: all that is left is text and numbers
	}
	return data
}

// DecodeError is the inverse of [EncodeError]. An outcome that this build does
// not know is [Unknown], which is always safe to assume.
func DecodeError(data []byte) (*Error, error) {
	var e Error
	if err := json.Unmarshal(data, &e); err != nil {
		return nil, errors.Wrap(err, "decode error frame")
	}
	switch e.Outcome {
	case NotExecuted, Unknown, Failed, Cancelled:
	default:
		e.Outcome = Unknown
	}
	return &e, nil
}
