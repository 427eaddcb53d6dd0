package gateway

import (
	"crypto/rand"
	"sync"
	"time"
)

// sessions are the clients over HTTP. Who leaves one out is not told whether it
// does not exist or is another's.
type sessions struct {
	max  int
	idle time.Duration

	mu   sync.Mutex // guards what follows
	byID map[string]*seat
}

// seat is a client's place among the sessions.
type seat struct {
	id        string
	principal string
	client    *client
	// expire is called, without a lock, when the session was ended for others.
	expire func()
	inUse  int
	since  time.Time // when inUse became 0
	timer  *time.Timer
}

func newSessions(limit int, idle time.Duration) *sessions {
	return &sessions{max: limit, idle: idle, byID: make(map[string]*seat)}
}

// add makes a client's session and returns it in use; false if there are too many
// that are in use. Expire is called when it has been idle for too long, or has to
// make room.
func (s *sessions) add(principal string, c *client, expire func()) (*seat, bool) {
	n := &seat{id: rand.Text(), principal: principal, client: c, expire: expire, inUse: 1}
	gone, ok := s.enter(n)
	if gone != nil {
		gone.expire()
	}
	return n, ok
}

// enter gives a session a place, if need be that of another one, which is gone.
func (s *sessions) enter(n *seat) (gone *seat, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.byID) >= s.max {
		if gone = s.idlest(n.principal); gone == nil {
			return nil, false
		}
		gone.timer.Stop()
		delete(s.byID, gone.id)
	}
	n.timer = time.AfterFunc(s.idle, func() {
		if s.removeIdle(n) {
			n.expire()
		}
	})
	s.byID[n.id] = n
	return gone, true
}

// idlest returns the session that has been idle for the longest time: one of the
// principal if there is any, so that who opens many closes its own.
func (s *sessions) idlest(principal string) (found *seat) {
	for _, n := range s.byID {
		switch {
		case n.inUse > 0:
		case found == nil, n.principal == principal && found.principal != principal:
			found = n
		case (n.principal == principal) == (found.principal == principal) && n.since.Before(found.since):
			found = n
		}
	}
	return found
}

// use returns a principal's session. The caller releases it.
func (s *sessions) use(id, principal string) (*seat, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.byID[id]
	if n == nil || n.principal != principal {
		return nil, false
	}
	n.inUse++
	return n, true
}

func (s *sessions) release(n *seat) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n.inUse--
	if n.inUse == 0 && s.byID[n.id] == n {
		n.since = time.Now()
		n.timer.Reset(s.idle)
	}
}

func (s *sessions) remove(n *seat) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n.timer.Stop()
	delete(s.byID, n.id)
}

// removeIdle removes a session unless it was used since the timer was set.
func (s *sessions) removeIdle(n *seat) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n.inUse > 0 || time.Since(n.since) < s.idle || s.byID[n.id] != n {
		return false
	}
	delete(s.byID, n.id)
	return true
}

func (s *sessions) clear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, n := range s.byID {
		n.timer.Stop()
		delete(s.byID, id)
	}
}
