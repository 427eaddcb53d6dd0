package request

import (
	"fmt"

	"github.com/cockroachdb/errors"

	"github.com/toolfleet/toolfleet/events"
)

// Code says why a request was not granted.
type Code string

// The codes.
const (
	// UnknownServer: the fleet has no server of that id.
	UnknownServer Code = "unknown_server"
	// UnknownWorker: no worker of that id ever joined the fleet.
	UnknownWorker Code = "unknown_worker"
	// DoesNotFit: the server may not run on that worker, or there is no room.
	DoesNotFit Code = "does_not_fit"
	// Frozen: the fleet has to be unfrozen first.
	Frozen Code = "frozen"
	// ServerDisabled: the server has to be enabled first.
	ServerDisabled Code = "server_disabled"
	// ServerStopped: the server has to be started first.
	ServerStopped Code = "server_stopped"
	// InvalidDefinition: the id or the definition cannot be accepted.
	InvalidDefinition Code = "invalid_definition"
	// InvalidRequest: the request cannot be understood.
	InvalidRequest Code = "invalid_request"
	// RequestReused: the request's id was used for something else.
	RequestReused Code = "request_reused"
	// TooLarge: the definition is too large to be stored.
	TooLarge Code = "too_large"
	// HistoryFull: nothing can be added to the history.
	HistoryFull Code = "history_full"
	// Unavailable: the controller cannot answer now. The request may have been
	// granted; repeating it tells.
	Unavailable Code = "unavailable"
)

// The errors of requests, for errors.Is. What is returned is an [*Error].
var (
	ErrUnknownServer     = errors.New("the fleet has no such server")
	ErrUnknownWorker     = errors.New("the fleet has no such worker")
	ErrDoesNotFit        = errors.New("the server does not fit there")
	ErrFrozen            = errors.New("the fleet is frozen")
	ErrServerDisabled    = errors.New("the server is disabled")
	ErrServerStopped     = errors.New("the server is stopped")
	ErrInvalidDefinition = errors.New("the definition cannot be accepted")
	ErrInvalidRequest    = errors.New("the request cannot be understood")
	ErrRequestReused     = errors.New("the request's id was used for something else")
	ErrTooLarge          = errors.New("the definition is too large")
	ErrHistoryFull       = errors.New("nothing can be added to the history")
	ErrUnavailable       = errors.New("the controller cannot answer now")
)

var sentinels = map[Code]error{
	UnknownServer:     ErrUnknownServer,
	UnknownWorker:     ErrUnknownWorker,
	DoesNotFit:        ErrDoesNotFit,
	Frozen:            ErrFrozen,
	ServerDisabled:    ErrServerDisabled,
	ServerStopped:     ErrServerStopped,
	InvalidDefinition: ErrInvalidDefinition,
	InvalidRequest:    ErrInvalidRequest,
	RequestReused:     ErrRequestReused,
	TooLarge:          ErrTooLarge,
	HistoryFull:       ErrHistoryFull,
	Unavailable:       ErrUnavailable,
}

// Error is the answer to a request that was not granted.
type Error struct {
	Code Code `json:"code"`
	// Message is for people. It names the server and holds no secret.
	Message string `json:"message"`
	// Problems are the reasons why a definition cannot be accepted.
	Problems []events.Problem `json:"problems,omitempty"`
	// Seq is the rejected event, if there is one.
	Seq events.Seq `json:"seq,omitzero"`
}

func (e *Error) Error() string { return e.Message }

// Is makes an Error the sentinel of its code.
func (e *Error) Is(target error) bool { return sentinels[e.Code] == target }

// Errorf returns an Error without problems.
func Errorf(code Code, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
}
