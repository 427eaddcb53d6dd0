package gateway

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"time"
)

// earlyByte is how long an answer may take without a sign of life. Usual calls are
// answered sooner, as plain JSON, which is cheaper; and the least patient clients
// and proxies give up after a few seconds.
const earlyByte = time.Second

// exchange is the answer to one POST: JSON, or a stream of events that begins with
// the first notification, or when the answer takes long. The request is served by
// the goroutine of the POST, so that what is answered soon needs no other.
type exchange struct {
	stream *stream
	// cancel ends the request of a client that is gone, or does not read.
	cancel context.CancelCauseFunc
	// streams says that the client takes a stream.
	streams bool

	early *time.Timer

	mu    sync.Mutex // guards what follows
	ended bool
	// What a stream has: what is to be written, and channels that are closed when
	// nothing more is pushed, or written.
	queue        *queue
	last, pumped chan struct{}
}

func newExchange(s *stream, r *http.Request, cancel context.CancelCauseFunc) *exchange {
	x := &exchange{stream: s, cancel: cancel}
	if x.streams = strings.Contains(r.Header.Get("Accept"), "text/event-stream"); x.streams {
		x.early = time.AfterFunc(earlyByte, func() { x.begin(nil) })
	}
	return x
}

// notify sends a notification, if the client takes any here.
func (x *exchange) notify(frame []byte) {
	if x.streams {
		x.begin(frame)
	}
}

// begin has the stream written, with a first frame or without.
func (x *exchange) begin(frame []byte) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.ended {
		return // what comes after the answer is nobody's
	}
	begun := x.queue != nil
	if !begun {
		x.queue, x.last, x.pumped = newQueue(), make(chan struct{}), make(chan struct{})
	}
	if frame != nil {
		x.queue.push(frame)
	}
	if !begun {
		go func() {
			defer close(x.pumped)
			if err := x.pump(); err != nil {
				x.cancel(err)
			}
		}()
	}
}

// pump writes notifications until there are no more. Its error is that the client
// is gone, or does not read.
func (x *exchange) pump() error {
	if err := x.stream.first(x.queue.take()); err != nil {
		return err
	}
	return x.stream.follow(x.queue, x.last)
}

// end writes the answer, after what came before it; none for a request that was
// cancelled.
func (x *exchange) end(frame []byte, status int) {
	defer x.stream.end()
	begun := x.settle()
	switch {
	case frame == nil && x.streams:
		_ = x.stream.begin() // a stream that ends
	case frame == nil:
		x.stream.w.WriteHeader(http.StatusAccepted)
	case begun:
		_ = x.stream.event(frame) // a client that is gone gets none
	default:
		_ = x.stream.json(status, frame)
	}
}

// settle waits until all notifications are written, and says whether the stream
// has begun.
func (x *exchange) settle() bool {
	if !x.streams {
		return false
	}
	x.early.Stop()
	x.mu.Lock()
	x.ended = true
	pumped := x.pumped
	x.mu.Unlock()
	if pumped == nil {
		return false
	}
	close(x.last)
	<-pumped
	return true
}
