package web

import (
	"bytes"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/cockroachdb/errors"
	"github.com/go-json-experiment/json"

	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/projections/shape"
)

const (
	// maxPage and maxPageBytes bound a page of events, and maxLook how many are
	// read for one.
	maxPage      = 1000
	maxPageBytes = 4 << 20
	maxLook      = 100_000
)

// query is which events are wanted.
type query struct {
	ids, kinds []string
	limit      int
	// after is the position after which they begin, and head the end of the
	// history when they were asked for.
	after, head events.Seq
}

// events answers with a page of events, or with a stream of them.
func (h *Handler) events(w http.ResponseWriter, r *http.Request, c *caller) {
	q, problem := h.query(r)
	if problem != nil {
		problem.write(w)
		return
	}
	if strings.Contains(r.Header.Get("Accept"), "text/event-stream") {
		h.stream(w, r, q, c.principal.Name)
		return
	}
	h.page(w, r, q)
}

// query reads which events are wanted.
func (h *Handler) query(r *http.Request) (*query, *Problem) {
	values := r.URL.Query()
	q := &query{ids: values["id"], kinds: values["kind"], limit: maxPage}
	for _, id := range q.ids {
		if !h.Views.Knows(id) {
			return nil, &Problem{
				Status: http.StatusNotFound, Code: CodeNotFound, Detail: "the fleet has and had no server or worker " + quote(id),
				Hint: "GET /v1/servers and /v1/workers list those that there are",
			}
		}
	}
	for _, k := range q.kinds {
		if !slices.Contains(events.Kinds(), events.Kind(k)) && events.Kind(k) != shape.Undecodable {
			return nil, parameter("kind", k, "kinds are such as failed, ready or tools-listed: go doc ./events Kind has all")
		}
	}
	if text := values.Get("limit"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > maxPage {
			return nil, parameter("limit", text, fmt.Sprintf("use a number from 1 to %d", maxPage))
		}
		q.limit = n
	}
	head, err := h.History.Head(r.Context())
	if err != nil {
		return nil, unread()
	}
	q.head = head.Seq
	return q, h.place(r, q)
}

func parameter(name, value, hint string) *Problem {
	return &Problem{
		Status: http.StatusBadRequest, Code: CodeParameter, Detail: name + " has no value " + quote(value), Hint: hint,
	}
}

func unread() *Problem {
	return &Problem{
		Status: http.StatusServiceUnavailable, Code: CodeHistory, Detail: "the history cannot be read now",
		Hint: "try again; toolfleet doctor says more",
	}
}

// place finds where the events begin. Before the first event is at the first; the
// place after the last one is where those to come will be.
func (h *Handler) place(r *http.Request, q *query) *Problem {
	text := r.Header.Get("Last-Event-ID")
	if text != "" {
		last, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			return &Problem{
				Status: http.StatusBadRequest, Code: CodePosition, Detail: "Last-Event-ID " + quote(text) + " is no id of an event",
				Hint: "ids of events are sequences; the last one is " + q.last(),
			}
		}
		q.after = events.Seq(last)
	} else if text = r.URL.Query().Get("since"); text != "" {
		first, err := h.History.First(r.Context(), text)
		switch {
		case errors.Is(err, ErrPosition):
			return &Problem{
				Status: http.StatusBadRequest, Code: CodePosition, Detail: "since has no value " + quote(text),
				Hint: "use a sequence, a time (RFC 3339) or an age such as 15m; the last event is " + q.last(),
			}
		case errors.Is(err, ErrFuture):
			return q.ahead(text)
		case err != nil:
			return unread()
		}
		q.after = max(first, 1) - 1
	}
	if q.after > q.head {
		return q.ahead(text)
	}
	return nil
}

func (q *query) last() string { return strconv.FormatUint(uint64(q.head), 10) }

func (q *query) ahead(text string) *Problem {
	return &Problem{
		Status: http.StatusBadRequest, Code: CodeFuture, Detail: "the position " + clean(text) + " lies in the future: the last event is " + q.last(),
		Hint: "begin at " + q.last() + " or before, or leave since out for the beginning", Seq: q.head,
	}
}

// wants says whether an event is one of those that are wanted.
func (q *query) wants(r *events.Record) bool {
	kind := r.Kind()
	if _, broken := r.Body.(events.Undecodable); broken {
		kind = shape.Undecodable
	}
	return (len(q.kinds) == 0 || slices.Contains(q.kinds, string(kind))) &&
		(len(q.ids) == 0 || slices.ContainsFunc(q.ids, func(id string) bool {
			return string(r.Chain.Server()) == id || string(r.Chain.Worker()) == id
		}))
}

// page answers with the next events, and the way to those after them.
func (h *Handler) page(w http.ResponseWriter, r *http.Request, q *query) {
	all := bytes.NewBufferString("[")
	found, seen := 0, q.after
	for x, err := range h.History.Follow(r.Context(), q.after, q.head) {
		if err != nil {
			unread().write(w)
			return
		}
		if seen = x.Seq; q.wants(&x) {
			data, err := line(&x)
			if err != nil {
				unread().write(w) // unreachable unless a log has what no log has
				return
			}
			if found++; found > 1 {
				all.WriteByte(',')
			}
			all.Write(data)
		}
		if found == q.limit || all.Len() > maxPageBytes || seen-q.after >= maxLook {
			break
		}
	}
	if r.Context().Err() != nil {
		return // nobody is there
	}
	all.WriteByte(']')
	if seen < q.head {
		w.Header().Set("Link", "<"+next(r, seen+1)+`>; rel="next"`)
	}
	sayHow(w, seen)
	w.Header().Set("Content-Type", "application/json")
	send(w, http.StatusOK, all.Bytes())
}

// next returns the path of the page that begins at an event.
func next(r *http.Request, first events.Seq) string {
	values := r.URL.Query()
	values.Set("since", strconv.FormatUint(uint64(first), 10))
	return "/v1/events?" + values.Encode()
}

// line writes an event as one line of JSON.
func line(r *events.Record) ([]byte, error) {
	e, err := shape.NewEvent(r)
	if err != nil {
		return nil, err
	}
	return json.Marshal(&e, json.Deterministic(true))
}
