package web

import (
	"net/http"
	"strconv"

	"github.com/go-json-experiment/json"

	"github.com/toolfleet/toolfleet/controller/request"
	"github.com/toolfleet/toolfleet/events"
)

// Code says what is wrong. Those of a [guard.Refusal] and of a [request.Error] are
// codes, too.
type Code string

// The codes that are of this package alone.
const (
	CodeNotFound     Code = "not_found"           // there is nothing of that name
	CodeMethod       Code = "method_not_allowed"  // the path has other methods
	CodeParameter    Code = "invalid_parameter"   // a query parameter is none, or has no such value
	CodePosition     Code = "invalid_position"    // a position in the history is none
	CodeFuture       Code = "future_position"     // it lies after the last event
	CodeBody         Code = "invalid_body"        // the body is not the JSON that it should be
	CodeContentType  Code = "content_type"        // the body is not application/json
	CodeTooLarge     Code = "too_large"           // the body is too long
	CodeNotAllowed   Code = "declare_not_allowed" // the operator does not allow it
	CodeStreams      Code = "too_many_streams"    // as many are open as there may be, of all or of one principal
	CodeHistory      Code = "history_unavailable" // the history cannot be read now
	CodeNoController Code = "no_controller"       // nothing was changed
	CodeUncertain    Code = "outcome_unknown"     // whether something was changed is not known
	CodeNotReady     Code = "not_ready"           // what the process stands on is not well
)

// Problem is an error as RFC 9457 has it.
type Problem struct {
	// Title is the status in words.
	Title  string `json:"title"`
	Status int    `json:"status"`
	Code   Code   `json:"code"`
	// Detail says what is wrong, and Hint what helps, for people.
	Detail string `json:"detail"`
	Hint   string `json:"hint,omitzero"`

	// Problems are the reasons why a definition cannot be accepted, and Seq the
	// event that says so.
	Problems []events.Problem `json:"problems,omitempty"`
	Seq      events.Seq       `json:"seq,omitzero"`
	// Request is the id to repeat a request with.
	Request events.RequestID `json:"request,omitzero"`
	// Checks are those that failed, with what is wrong.
	Checks map[string]string `json:"checks,omitempty"`
}

const problemType = "application/problem+json"

// write answers a request with the problem.
func (p *Problem) write(w http.ResponseWriter) {
	p.Title = http.StatusText(p.Status)
	data, err := json.Marshal(p, json.Deterministic(true))
	if err != nil {
		data = nil // unreachable unless a text is no valid UTF-8
	}
	w.Header().Set("Content-Type", problemType)
	send(w, p.Status, data)
}

func notFound(detail string) *Problem {
	return &Problem{Status: http.StatusNotFound, Code: CodeNotFound, Detail: clean(detail), Hint: "see /openapi.json"}
}

// statuses are those of requests that are not granted.
var statuses = map[request.Code]int{
	request.UnknownServer:     http.StatusNotFound,
	request.InvalidDefinition: http.StatusUnprocessableEntity,
	request.InvalidRequest:    http.StatusBadRequest,
	request.TooLarge:          http.StatusRequestEntityTooLarge,
	request.HistoryFull:       http.StatusInsufficientStorage,
	request.Unavailable:       http.StatusServiceUnavailable,
}

// refused returns a request that was not granted as a problem.
func refused(e *request.Error, id string) *Problem {
	p := &Problem{Status: http.StatusConflict, Code: Code(e.Code), Detail: e.Message, Problems: e.Problems, Seq: e.Seq}
	if status, ok := statuses[e.Code]; ok {
		p.Status = status
	}
	switch e.Code {
	case request.UnknownServer:
		p.Hint = "GET /v1/servers lists those that there are"
	case request.ServerDisabled:
		p.Hint = "POST /v1/servers/" + id + ":enable"
	case request.ServerStopped:
		p.Hint = "POST /v1/servers/" + id + ":start"
	case request.RequestReused:
		p.Hint = "choose another Idempotency-Key"
	default: // the message says it
	}
	return p
}

// quote shows what a client sent: as JSON does, and cut.
func quote(s string) string {
	const most = 80
	if len(s) > most {
		s = s[:most] + "…"
	}
	return strconv.QuoteToASCII(s)
}

// clean returns text that may come from a client without what is no valid UTF-8,
// or has no place in a line.
func clean(s string) string {
	q := quote(s)
	return q[1 : len(q)-1]
}
