package jetlog

import (
	"context"
	"fmt"
	"maps"
	"time"

	"github.com/cockroachdb/errors"
	"github.com/nats-io/nats.go"

	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/events/callwire"
)

const (
	// maxArriving is how many requests of one subject may be incomplete at a time:
	// each takes up to [callwire.MaxResult] bytes of the owner's memory.
	maxArriving = 4
	// arriveWithin is how long the parts of a request may take in all. They are sent
	// one right after the other.
	arriveWithin = 10 * time.Second
)

// sender tells requests apart that have the same id. A caller's reply subject is
// known to nobody else, so that a stranger's parts belong to no other's request.
type sender struct{ id, reply string }

// arrival is a request of which parts are missing.
type arrival struct {
	assembly *callwire.Assembly
	first    *nats.Msg
	late     *time.Timer
}

// expect takes the first part of a request.
func (s *callServer) expect(r *callwire.Request, m *nats.Msg) {
	assembly, err := callwire.Assemble(r)
	if err != nil {
		s.refuse(m, r.ID, events.OtherFailure, err.Error())
		return
	}
	a, from := &arrival{assembly: assembly, first: m}, sender{r.ID, m.Reply}
	s.mu.Lock()
	why := ""
	switch {
	case len(s.arriving) >= maxArriving:
		why = fmt.Sprintf("%d requests that do not fit into one message are arriving: try again later", maxArriving)
	case s.arriving[from] != nil:
		why = "a call of that id is arriving"
	default:
		s.arriving[from] = a
		a.late = time.AfterFunc(arriveWithin, func() {
			s.abandon(from, a, fmt.Sprintf("its arguments did not all come within %s", arriveWithin))
		})
	}
	s.mu.Unlock()
	if why != "" {
		s.refuse(m, r.ID, events.OtherFailure, why)
	}
}

// part takes a further part; the last one begins the call.
func (s *callServer) part(ctx context.Context, m *nats.Msg) {
	f, err := callwire.DecodeFrame(eventsMessage(m))
	if err != nil {
		s.log.o.Logger.Debug("part of no call", "err", errors.Wrapf(err, "part at %s", m.Subject))
		return
	}
	from := sender{f.Call, m.Reply}
	s.mu.Lock()
	a := s.arriving[from]
	s.mu.Unlock()
	if a == nil {
		return // refused
	}
	r, err := a.assembly.Add(f)
	switch {
	case err != nil:
		s.abandon(from, a, err.Error())
	case r != nil && s.arrived(from, a):
		s.begin(ctx, r, a.first)
	}
}

// arrived forgets a request that is complete; false if it was abandoned meanwhile.
func (s *callServer) arrived(from sender, a *arrival) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.arriving[from] != a {
		return false
	}
	a.late.Stop()
	delete(s.arriving, from)
	return true
}

// abandon refuses a request that cannot become complete.
func (s *callServer) abandon(from sender, a *arrival, why string) {
	if s.arrived(from, a) {
		s.refuse(a.first, from.id, events.OtherFailure, why)
	}
}

// turnAway refuses what has not arrived at the end.
func (s *callServer) turnAway() {
	s.mu.Lock()
	left := maps.Clone(s.arriving)
	s.mu.Unlock()
	for from, a := range left {
		s.abandon(from, a, "the instance is stopping")
	}
}
