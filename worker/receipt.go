package worker

import (
	"context"
	"net/http"
	"sync"
	"sync/atomic"
)

// receipt is what the round trip saw of one request, and of what it was
// redirected to. The MCP library sends answers to the server's own requests
// under the context of the request whose stream they came on; those have no
// part in it.
type receipt struct {
	// written says that there was a connection to send the request on.
	written atomic.Bool

	mu      sync.Mutex // guards what follows
	taken   bool
	status  int
	hint    string
	failure *rpcError
}

type receiptKey struct{}

// withReceipt has the round trip note what it sees of the next request.
func withReceipt(ctx context.Context, rec *receipt) context.Context {
	return context.WithValue(ctx, receiptKey{}, rec)
}

// receiptOf returns the receipt of a request, or one that nobody looks at.
func receiptOf(r *http.Request) *receipt {
	rec, ok := r.Context().Value(receiptKey{}).(*receipt)
	if !ok {
		return &receipt{}
	}
	rec.mu.Lock()
	defer rec.mu.Unlock()
	if redirected := r.Response != nil; rec.taken && !redirected {
		return &receipt{}
	}
	rec.taken = true
	return rec
}

// note notes the head of an answer.
func (rec *receipt) note(resp *http.Response) {
	rec.mu.Lock()
	defer rec.mu.Unlock()
	rec.status, rec.hint = resp.StatusCode, resp.Header.Get("WWW-Authenticate")
}

// fail notes the JSON-RPC error in an answer.
func (rec *receipt) fail(e *rpcError) {
	rec.mu.Lock()
	defer rec.mu.Unlock()
	rec.failure = e
}

// give hands what was noted to the exchange that the request belongs to.
func (rec *receipt) give(x *exchange) {
	rec.mu.Lock()
	defer rec.mu.Unlock()
	if rec.written.Load() {
		x.written.Store(true)
	}
	x.status, x.hint = rec.status, rec.hint
	x.answered(nil, rec.failure)
}
