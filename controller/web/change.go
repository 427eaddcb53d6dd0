package web

import (
	"context"
	"crypto/rand"
	"io"
	"mime"
	"net/http"
	"strings"
	"time"

	"github.com/cockroachdb/errors"
	"github.com/go-json-experiment/json"

	"github.com/toolfleet/toolfleet/controller/request"
	"github.com/toolfleet/toolfleet/events"
)

const (
	// askWithin bounds a request to the controllers.
	askWithin = 10 * time.Second
	// maxBody is more than any definition that fits an event.
	maxBody = 1 << 20
	// bodyWithin is how long a client has for the body.
	bodyWithin = 30 * time.Second
	// keyHeader makes a request safe to repeat.
	keyHeader = "Idempotency-Key"
)

// asking returns what serves a verb that needs no definition. Its body is not
// looked at.
func asking(v request.Verb) func(*Handler, http.ResponseWriter, *http.Request, *caller) {
	return func(h *Handler, w http.ResponseWriter, r *http.Request, c *caller) {
		if _, problem := body(w, r); problem != nil {
			problem.write(w)
			return
		}
		h.ask(w, r, c, &request.Request{Verb: v})
	}
}

// declare asks for a server of the definition in the body.
func (h *Handler) declare(w http.ResponseWriter, r *http.Request, c *caller) {
	data, problem := body(w, r)
	if problem != nil {
		problem.write(w)
		return
	}
	if !h.o.AllowDeclare {
		(&Problem{
			Status: http.StatusForbidden, Code: CodeNotAllowed, Detail: "servers cannot be declared over HTTP",
			Hint: "toolfleet apply declares them; the operator can allow it here: --http-allow-declare",
		}).write(w)
		return
	}
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		(&Problem{
			Status: http.StatusUnsupportedMediaType, Code: CodeContentType, Detail: "the content type is not application/json",
			Hint: "send the definition as JSON, with Content-Type: application/json",
		}).write(w)
		return
	}
	d := &events.Definition{}
	if err := json.Unmarshal(data, d); err != nil {
		// The error's text may quote a secret.
		(&Problem{
			Status: http.StatusBadRequest, Code: CodeBody, Detail: "the body is not the JSON of a definition" + at(err),
			Hint: "toolfleet get definitions ID -o json shows one",
		}).write(w)
		return
	}
	d.Source = &events.Source{Provider: "http", Name: "HTTP"} // where it came from is not for the client to say
	h.ask(w, r, c, &request.Request{Verb: request.Declare, Definition: d})
}

// at says where in a body an error is.
func at(err error) string {
	var e *json.SemanticError
	if errors.As(err, &e) && e.JSONPointer != "" {
		return ", at " + clean(string(e.JSONPointer))
	}
	return ""
}

// body reads a body within its limits.
func body(w http.ResponseWriter, r *http.Request) ([]byte, *Problem) {
	// Where the connection can; the server takes it off at the end of the body.
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(bodyWithin))
	data, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	var long *http.MaxBytesError
	switch {
	case errors.As(err, &long):
		return nil, &Problem{Status: http.StatusRequestEntityTooLarge, Code: CodeTooLarge, Detail: "the body is longer than 1 MiB"}
	case err != nil:
		return nil, &Problem{Status: http.StatusBadRequest, Code: CodeBody, Detail: "the body did not arrive"}
	}
	return data, nil
}

// ask makes a request and answers with what became of it.
func (h *Handler) ask(w http.ResponseWriter, r *http.Request, c *caller, q *request.Request) {
	q.Server, q.Reason, q.Actor = c.id, r.URL.Query().Get("reason"), actor(c)
	q.ID = events.RequestID(strings.TrimSpace(r.Header.Get(keyHeader)))
	if q.ID == "" {
		q.ID = events.RequestID(rand.Text())
	}
	ctx, cancel := context.WithTimeout(r.Context(), askWithin)
	defer cancel()
	granted, err := h.Requests.Do(ctx, q)
	var e *request.Error
	switch {
	case err == nil:
		answer(w, http.StatusAccepted, granted)
	case errors.As(err, &e):
		refused(e, c.id).write(w)
	case errors.Is(err, events.ErrUncertain):
		(&Problem{
			Status: http.StatusGatewayTimeout, Code: CodeUncertain, Detail: "no controller answered in time: it may have been granted",
			Hint: "repeat it with the header " + keyHeader + ": " + clean(string(q.ID)), Request: q.ID,
		}).write(w)
	default:
		(&Problem{
			Status: http.StatusServiceUnavailable, Code: CodeNoController, Detail: "no controller answers: nothing was changed",
			Hint: "start a controller, or toolfleet up", Request: q.ID,
		}).write(w)
	}
}

// actor is who asks, as the history has it.
func actor(c *caller) string {
	if c.principal.Name == "" {
		return "http"
	}
	return "token:" + c.principal.Name
}
