package worker

import (
	"sync"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/toolfleet/toolfleet/events/callwire"
)

// noticeQueue bounds notifications of one call that wait for the bus; what comes
// on top of it is left out.
const noticeQueue = 64

// listener passes on the notifications of one call. Most calls have none, and it
// costs them nothing.
type listener struct {
	send    func(callwire.FrameKind, []byte)
	sending sync.WaitGroup

	mu    sync.Mutex // guards what follows
	queue []notice
	// busy says that somebody sends what is in the queue.
	busy bool
}

// notice is a notification that belongs to a call.
type notice struct {
	kind   callwire.FrameKind
	params jsontext.Value
}

// hear takes a notification, without waiting until it is sent. Nobody may hear.
func (l *listener) hear(kind callwire.FrameKind, params jsontext.Value) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.queue) == noticeQueue {
		return
	}
	l.queue = append(l.queue, notice{kind, params})
	if !l.busy {
		l.busy = true
		l.sending.Go(l.pass)
	}
}

// pass sends until nothing is left.
func (l *listener) pass() {
	for {
		l.mu.Lock()
		if len(l.queue) == 0 {
			l.busy = false
			l.mu.Unlock()
			return
		}
		n := l.queue[0]
		l.queue = l.queue[1:]
		l.mu.Unlock()
		l.send(n.kind, n.params)
	}
}
