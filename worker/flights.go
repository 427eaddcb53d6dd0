package worker

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/events/callwire"
)

// flight is a call that the worker is at, and its exchange with the server.
type flight struct {
	exchange

	desk    *desk
	request *callwire.Request
	began   time.Time
	// sent says that the call has its turn.
	sent   atomic.Bool
	cancel context.CancelFunc
	// by is who cancelled the call, if it was not its caller.
	by atomic.Pointer[string]
}

// cancelledBy says who cancelled the call.
func (f *flight) cancelledBy() string {
	switch by := f.by.Load(); {
	case by == nil:
		return "cancelled by the caller"
	case *by == "":
		return "cancelled by somebody else than the caller"
	default:
		return "cancelled by " + *by
	}
}

// board has the calls that a worker is at.
type board struct {
	mu      sync.Mutex // guards flights
	flights map[*flight]struct{}
}

func (b *board) add(f *flight) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.flights == nil {
		b.flights = make(map[*flight]struct{})
	}
	b.flights[f] = struct{}{}
}

func (b *board) remove(f *flight) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.flights, f)
}

// all returns the calls, the longest first.
func (b *board) all() []*flight {
	b.mu.Lock()
	defer b.mu.Unlock()
	all := make([]*flight, 0, len(b.flights))
	for f := range b.flights {
		all = append(all, f)
	}
	slices.SortFunc(all, func(f, g *flight) int {
		return cmp.Or(f.began.Compare(g.began), strings.Compare(f.request.ID, g.request.ID))
	})
	return all
}

// list tells of the calls.
func (b *board) list() callwire.CallsResult {
	all := b.all()
	listed := all[:min(len(all), callwire.MaxListed)]
	r := callwire.CallsResult{Calls: make([]callwire.InFlight, len(listed)), More: len(all) - len(listed)}
	for i, f := range listed {
		r.Calls[i] = f.tell()
	}
	return r
}

func (f *flight) tell() callwire.InFlight {
	state := callwire.CallWaiting
	if f.sent.Load() {
		state = callwire.CallSent
	}
	d := f.desk
	return callwire.InFlight{
		Call: f.request.ID, Server: d.address.Server, Instance: d.address.Instance,
		Method: cmp.Or(f.request.Method, callwire.CallTool),
		Tool:   d.conn.scrub.text(f.request.Tool, callwire.MaxText),
		Actor:  f.request.Actor, Began: f.began, State: state,
	}
}

// cancel cancels the calls of an id, which their callers have chosen, and says
// whether there was one.
func (b *board) cancel(id, by string) bool {
	found := false
	for _, f := range b.all() {
		if f.request.ID == id {
			f.by.Store(&by)
			f.cancel()
			found = true
		}
	}
	return found
}

// serveCalls answers requests about calls in flight until the context ends.
func (h *host) serveCalls(ctx context.Context) {
	subject := events.CallsSubject(h.options.Fleet, h.options.ID)
	h.serve(ctx, subject, func(_ context.Context, r *callwire.Request, _ func(callwire.FrameKind, []byte)) ([]byte, error) {
		switch r.Tool {
		case callwire.ListCalls:
			return json.Marshal(h.board.list())
		case callwire.CancelCall:
			var q callwire.CancelRequest
			if err := json.Unmarshal(r.Arguments, &q); err == nil && q.Call != "" {
				return json.Marshal(callwire.CancelResult{Cancelled: h.board.cancel(q.Call, r.Actor)})
			}
		}
		return nil, notUnderstood("this is no request about calls")
	})
}

// notUnderstood is the answer to a request that is for somebody else.
func notUnderstood(why string) error {
	return &callwire.Error{Outcome: callwire.NotExecuted, Failure: events.NewFailure(events.OtherFailure, events.PhaseRun, why)}
}
