package projections

import (
	"unicode/utf8"

	"github.com/go-json-experiment/json"

	"github.com/toolfleet/toolfleet/events"
)

// RequestsKept is how many requests a chain remembers, the newest ones: a caller
// that repeats one does so within moments.
const RequestsKept = 64

// Requests are the last [RequestsKept] requests that caused an event of a
// chain, oldest first. One request is one decision per chain: of several events
// with the same id the first counts.
type Requests []Request

// Request is what a chain remembers of a request.
type Request struct {
	ID events.RequestID `json:"id"`
	// Seq is the event that the request caused.
	Seq events.Seq `json:"seq"`
	// Asked is the digest of what was asked ([Asked]); empty where the event
	// does not tell.
	Asked events.Digest `json:"asked,omitzero"`
}

// Verdict is what is known of a request's id.
type Verdict uint8

// The verdicts.
const (
	// NewRequest is an id that the chain does not remember.
	NewRequest Verdict = iota
	// RepeatedRequest is one that was answered before.
	RepeatedRequest
	// ReusedRequest is one that was used for something else: it is refused.
	ReusedRequest
)

// Find looks for a request; asked is the digest of what it asks for now ([Asked]).
// For one that is not new it returns the sequence of the event that its first use
// caused, else 0.
func (q Requests) Find(id events.RequestID, asked events.Digest) (events.Seq, Verdict) {
	id = requestKey(id)
	for i := range q {
		if q[i].ID != id {
			continue
		}
		if q[i].Asked == "" || q[i].Asked == asked {
			return q[i].Seq, RepeatedRequest
		}
		return q[i].Seq, ReusedRequest
	}
	return 0, NewRequest
}

// with returns the requests after an event.
func (q Requests) with(r *events.Record) Requests {
	if r.Correlation == "" || !asksSomething(r.Body) {
		return q
	}
	if _, verdict := q.Find(r.Correlation, ""); verdict != NewRequest {
		return q
	}
	old := q
	if len(old) >= RequestsKept {
		old = old[len(old)-RequestsKept+1:]
	}
	n := make(Requests, len(old), len(old)+1)
	copy(n, old)
	return append(n, Request{ID: requestKey(r.Correlation), Seq: r.Seq, Asked: Asked(r.Body)})
}

// maxRequestID bounds the ids kept as they are.
const maxRequestID = 128

// requestKey returns an id in the form that it is kept in: ids that are long
// or no text are kept as their digest.
func requestKey(id events.RequestID) events.RequestID {
	if len(id) <= maxRequestID && utf8.ValidString(string(id)) {
		return id
	}
	return events.RequestID("#" + events.DigestOf([]byte(id)))
}

// asksSomething says whether events of the body's kind answer a request. Others
// carry the id of the request that they are a consequence of.
func asksSomething(b events.Body) bool {
	switch b.(type) {
	case events.Declared, events.Updated, events.Enabled, events.Disabled, events.Withdrawn,
		events.Rejected, events.RestartRequested, events.StartRequested, events.StopRequested,
		events.MoveRequested, events.Draining, events.Cordoned, events.Uncordoned,
		events.Frozen, events.Unfrozen, events.Discovered, events.SourceFailed:
		return true
	default:
		return false
	}
}

// Asked returns the digest of what the request asked for that such an event
// answers. A definition counts for itself, whether it was declared or replaced
// another one. For a rejection, which does not hold what was asked, it is
// empty.
func Asked(b events.Body) events.Digest {
	switch b := b.(type) {
	case events.Rejected:
		return ""
	case events.Declared:
		return askedFor("definition", &b.Definition)
	case events.Updated:
		return askedFor("definition", &b.To)
	default:
		return askedFor(string(events.KindOf(b)), b)
	}
}

func askedFor(what string, value any) events.Digest {
	data, err := json.Marshal(value, json.Deterministic(true))
	if err != nil {
		return "" // unreachable unless a body holds text that passed no decoder
	}
	canonical, err := events.CanonicalDigest(data)
	if err != nil {
		return "" // unreachable: what was just written is JSON
	}
	return events.DigestOf([]byte(what + "\n" + string(canonical)))
}
