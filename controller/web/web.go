package web

import (
	"context"
	"iter"
	"net/http"
	"slices"
	"strings"

	"github.com/cockroachdb/errors"

	"github.com/toolfleet/toolfleet/controller/request"
	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/guard"
	"github.com/toolfleet/toolfleet/projections/shape"
)

// Views are a fleet's views.
type Views interface {
	// Seq is how far they are.
	Seq() events.Seq
	// Servers are those that the fleet has, Workers those that it has or had, and
	// Tools those that a session is offered, each sorted by id or name.
	Servers() []shape.Server
	Workers() []shape.Worker
	Tools() []shape.Tool
	// Knows says whether the fleet has or had a server or worker of that id.
	Knows(id string) bool
}

// History is a fleet's history.
type History interface {
	Head(ctx context.Context) (events.Head, error)
	// Follow returns the events after a position, up to and including until, or
	// without end if that is 0.
	Follow(ctx context.Context, after, until events.Seq) iter.Seq2[events.Record, error]
	// First returns the sequence of the first event at or after a position as
	// people write it, or the one after the last event. Its error is marked
	// [ErrPosition] for what is no position, and [ErrFuture] for a time to come.
	First(ctx context.Context, position string) (events.Seq, error)
}

// The errors of [History].First.
var (
	ErrPosition = errors.New("no position")
	ErrFuture   = errors.New("a position in the future")
)

// Requests takes requests to a fleet's controllers. *client.Client does; of a
// definition, its literal secrets have to be moved out before.
type Requests interface {
	Do(ctx context.Context, q *request.Request) (request.Answer, error)
}

// Check is one thing that has to be well for a process to be ready.
type Check struct {
	Name string
	// Ask returns nil, or what is wrong, which everyone may read.
	Ask func(ctx context.Context) error
}

// Parts are what a [Handler] stands on. Where one is missing, what needs it
// is not found.
type Parts struct {
	Views    Views
	History  History
	Requests Requests
	// Checks of /readyz.
	Checks []Check
	// MCP serves /mcp; it has to be guarded itself. Metrics serves /metrics to who
	// may read.
	MCP, Metrics http.Handler
}

// Options of [New].
type Options struct {
	// Guard decides whose requests are served. Default one that serves nobody.
	Guard *guard.Guard
	// AllowDeclare lets who may change also declare: have workers run commands.
	AllowDeclare bool
	// Starting says that what is missing will be there.
	Starting bool
}

// Handler serves a fleet over HTTP.
type Handler struct {
	Parts
	o Options
	// streams has a place for each stream of events.
	streams *guard.Shares
}

// maxStreams bounds the streams of events that are open at a time: each reads the
// history by itself. maxStreamsEach are those of one principal.
const (
	maxStreams     = 64
	maxStreamsEach = 16
)

// New returns a handler.
func New(p Parts, o *Options) *Handler {
	h := &Handler{Parts: p, streams: guard.NewShares(maxStreams, maxStreamsEach)}
	if o != nil {
		h.o = *o
	}
	if h.o.Guard == nil {
		h.o.Guard = guard.New(nil)
	}
	return h
}

// ServeHTTP serves one request.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	protect(w.Header())
	path, id := template(r.URL.Path)
	methods := routes[path]
	switch {
	case len(methods) == 0 || !h.has(path) && !h.o.Starting:
		notFound("there is no " + r.URL.Path).write(w)
		return
	case !h.has(path):
		w.Header().Set("Retry-After", "1")
		(&Problem{Status: http.StatusServiceUnavailable, Code: CodeNotReady, Detail: "this process is starting", Hint: "try again"}).write(w)
		return
	}
	x, ok := methods[r.Method]
	if !ok {
		x, ok = methods[anyMethod]
	}
	if !ok {
		w.Header().Set("Allow", strings.Join(allowed(methods), ", "))
		(&Problem{Status: http.StatusMethodNotAllowed, Code: CodeMethod, Detail: r.Method + " is not served here"}).write(w)
		return
	}
	p, refused := h.admit(r, x.access)
	if refused != nil {
		refused.Header(w.Header())
		(&Problem{Status: refused.Status, Code: Code(refused.Code), Detail: refused.Reason, Hint: refused.Hint}).write(w)
		return
	}
	if unknown := unknownParameter(r, x.query); unknown != "" {
		(&Problem{
			Status: http.StatusBadRequest, Code: CodeParameter, Detail: "there is no parameter " + quote(unknown),
			Hint: hintOf(x.query),
		}).write(w)
		return
	}
	x.serve(h, w, r, &caller{id: id, principal: p})
}

// protect sets headers against what browsers do with answers.
func protect(h http.Header) {
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("X-Content-Type-Options", "nosniff")
}

// has says whether there is what a path needs.
func (h *Handler) has(path string) bool {
	switch path {
	case "/mcp":
		return h.MCP != nil
	case "/metrics":
		return h.Metrics != nil
	case "/v1/events":
		return h.History != nil && h.Views != nil
	default:
		return !strings.HasPrefix(path, "/v1/") || h.Views != nil && h.Requests != nil
	}
}

// access is who may send a request.
type access string

const (
	everyone access = "" // from anywhere
	nearby   access = "nearby"
	reads    access = access(guard.Read)
	changes  access = access(guard.Change)
)

// admit returns who sends a request, or why it is refused.
func (h *Handler) admit(r *http.Request, a access) (guard.Principal, *guard.Refusal) {
	switch a {
	case everyone:
		return guard.Principal{}, nil
	case nearby:
		return guard.Principal{}, h.o.Guard.CheckPlace(r)
	default:
		return h.o.Guard.Check(r, guard.Scope(a))
	}
}

// unknownParameter returns one that a route does not have.
func unknownParameter(r *http.Request, known []string) string {
	for name := range r.URL.Query() {
		if !slices.Contains(known, name) && !slices.Contains(known, anyQuery[0]) {
			return name
		}
	}
	return ""
}

func hintOf(known []string) string {
	if len(known) == 0 {
		return "it has no parameters"
	}
	return "the parameters are " + strings.Join(known, ", ")
}
