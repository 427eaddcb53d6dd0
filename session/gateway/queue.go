package gateway

import "sync"

const (
	// maxWaiting and maxWaitingBytes bound the notifications that wait for a slow
	// reader. Calls with progress send some a second.
	maxWaiting      = 256
	maxWaitingBytes = 4 << 20
)

// queue holds the notifications of one stream until they are written. Whoever
// pushes does not wait: a queue that is full is over, and so is its stream.
type queue struct {
	// wake has one slot, filled when there is something to take.
	wake chan struct{}
	// over is closed at the end.
	over chan struct{}

	mu     sync.Mutex // guards what follows
	frames [][]byte
	bytes  int
	ended  bool
}

func newQueue() *queue {
	return &queue{wake: make(chan struct{}, 1), over: make(chan struct{})}
}

func (q *queue) push(frame []byte) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.ended {
		return
	}
	if len(q.frames) >= maxWaiting || len(q.frames) > 0 && q.bytes+len(frame) > maxWaitingBytes {
		q.finish()
		return
	}
	q.frames = append(q.frames, frame)
	q.bytes += len(frame)
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// take returns what was pushed and not taken yet.
func (q *queue) take() [][]byte {
	q.mu.Lock()
	defer q.mu.Unlock()
	frames := q.frames
	q.frames, q.bytes = nil, 0
	return frames
}

func (q *queue) end() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.finish()
}

func (q *queue) finish() {
	if !q.ended {
		q.ended = true
		close(q.over)
	}
}
