package guard

import "net/http"

// Code says why a request is refused.
type Code string

// The codes.
const (
	UnknownHost   Code = "unknown_host"
	UnknownOrigin Code = "unknown_origin"
	NoToken       Code = "no_token"
	InvalidToken  Code = "invalid_token"
	MissingScope  Code = "missing_scope"
)

// Refusal is why a request is refused.
type Refusal struct {
	Status int
	Code   Code
	// Reason and Hint are for people: what is wrong, and the way out.
	Reason, Hint string
	// Challenge is the WWW-Authenticate header, or empty.
	Challenge string
}

var (
	unknownHost = &Refusal{
		Status: http.StatusForbidden, Code: UnknownHost, Reason: "this host name is not served",
		Hint: "use localhost, or have the operator list the name",
	}
	unknownOrigin = &Refusal{
		Status: http.StatusForbidden, Code: UnknownOrigin, Reason: "pages of this origin may not send requests",
		Hint: "have the operator list the origin",
	}
	noToken = &Refusal{
		Status: http.StatusUnauthorized, Code: NoToken, Reason: "a bearer token is needed",
		Hint:      "send the header Authorization: Bearer with the token that toolfleet token prints",
		Challenge: `Bearer realm="toolfleet"`,
	}
	invalidToken = &Refusal{
		Status: http.StatusUnauthorized, Code: InvalidToken, Reason: "nobody holds this token",
		Hint:      "use the one that toolfleet token prints now",
		Challenge: `Bearer realm="toolfleet", error="invalid_token"`,
	}
)

func missing(s Scope) *Refusal {
	return &Refusal{
		Status: http.StatusForbidden, Code: MissingScope, Reason: "the token lacks the scope " + string(s),
		Hint:      "use one that has it: toolfleet token --scope " + string(s),
		Challenge: `Bearer realm="toolfleet", error="insufficient_scope", scope="` + string(s) + `"`,
	}
}

// Header sets the headers that go with the refusal.
func (r *Refusal) Header(h http.Header) {
	if r.Challenge != "" {
		h.Set("WWW-Authenticate", r.Challenge)
	}
}

// Write answers a request with the refusal, as text.
func (r *Refusal) Write(w http.ResponseWriter) {
	r.Header(w.Header())
	http.Error(w, r.Reason+": "+r.Hint, r.Status)
}
