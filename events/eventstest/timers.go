package eventstest

import (
	"sync"
	"time"
	_ "unsafe" // for go:linkname
)

// nats.go keeps the timers of ended waits in a pool of the whole process and
// takes them for the next wait. A timer of one bubble must not be used in
// another or outside: the runtime ends the program ("select on synctest channel
// from outside bubble"). So the pool is emptied wherever a bubble may begin or
// end. It is a struct with this one field.
//
//go:linkname natsTimers github.com/nats-io/nats%2ego.globalTimerPool
var natsTimers sync.Pool

// forgetTimers empties the pool for a server that may be in a bubble: one that
// listens is not, and may start beside others. In a bubble it first waits until
// all else is idle, so that no timer is put back later. It is why tests that use
// NATS do not run in parallel with a bubble that does.
func (s *Server) forgetTimers() {
	if s.c.Listen {
		return
	}
	// A bubble's clock moves on only when every other goroutine waits.
	time.Sleep(time.Nanosecond)
	natsTimers = sync.Pool{}
}
