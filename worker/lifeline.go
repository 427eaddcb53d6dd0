package worker

import (
	"sync"
	"time"

	"github.com/toolfleet/toolfleet/events"
)

// lifeline is how a connection ends, whatever it is made of. Its channels close
// in this order: over (it can no longer be used; end says why), perhaps hung
// (it would not go), gone (nothing of it is left; how says how).
type lifeline struct {
	*pulse

	over, hung, gone chan struct{}
	// shut and hard ask for the end: in peace, and by force.
	shut, hard chan struct{}

	mu    sync.Mutex // guards what follows; over, shut and hard close under it
	end   ending
	how   string
	grace time.Duration
}

// ending is why a connection is over. Its texts are as they came: not yet
// scrubbed.
type ending struct {
	code    events.Code
	message string
	retry   bool
	exit    *int
	signal  string
	stderr  string
}

// newEnding returns an ending that is tried again as its code says.
func newEnding(code events.Code, message string) ending {
	f := events.NewFailure(code, "", message)
	return ending{code: code, message: message, retry: f.Retry}
}

func (e ending) Error() string { return string(e.code) + ": " + e.message }

func newLifeline() *lifeline {
	return &lifeline{
		pulse: newPulse(),
		over:  make(chan struct{}), hung: make(chan struct{}), gone: make(chan struct{}),
		shut: make(chan struct{}), hard: make(chan struct{}),
	}
}

// Shut begins to close in peace. It does not wait.
func (l *lifeline) Shut(grace time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !closed(l.shut) {
		l.grace = grace
		close(l.shut)
	}
}

// Kill begins to close by force. It does not wait.
func (l *lifeline) Kill() {
	l.Shut(0)
	l.mu.Lock()
	defer l.mu.Unlock()
	if !closed(l.hard) {
		close(l.hard)
	}
}

// finish says that the connection is over; the first reason counts.
func (l *lifeline) finish(e ending) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !closed(l.over) {
		l.end = e
		close(l.over)
	}
}

// left says that nothing is left.
func (l *lifeline) left(how string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.how = how
	close(l.gone)
}

// End returns why the connection is over. It must be.
func (l *lifeline) End() ending {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.end
}

// How returns how the connection ended: see [events.HasStopped]. It must be gone.
func (l *lifeline) How() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.how
}

// period returns the grace that Shut gave, or otherwise.
func (l *lifeline) period(otherwise time.Duration) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if closed(l.shut) {
		return l.grace
	}
	return otherwise
}
