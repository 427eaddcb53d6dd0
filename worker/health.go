package worker

import (
	"time"

	"github.com/toolfleet/toolfleet/events"
)

// maxAsked is how many questions in a row a server may leave unanswered, each
// for an interval.
const maxAsked = 2

// watch begins to check a connection that became ready.
func (m *machine) watch() {
	m.Asked, m.Pingless = 0, false
	if d := m.Running.Definition.HealthCheckInterval(); d > 0 {
		m.sleep(d)
	}
}

// check asks a server of which nothing was heard for an interval. The second
// question is no ping: a server may ignore that and be well.
func (m *machine) check(w Elapsed) {
	interval := m.Running.Definition.HealthCheckInterval()
	quiet := max(0, m.at.Sub(w.Heard))
	if m.Asked > 0 && !w.Heard.Before(m.AskedAt) {
		m.Pingless = m.Pingless || m.Asked == maxAsked
		m.Asked = 0
	}
	switch {
	case quiet < interval:
		m.sleep(interval - quiet)
	case w.Busy:
		m.Asked = 0
		m.sleep(interval)
	case m.Asked < maxAsked:
		m.do(Ask{Ref: m.Ref, Ping: m.Asked == 0 && !m.Pingless})
		m.Asked, m.AskedAt = m.Asked+1, m.at
		m.sleep(interval)
	default:
		m.Timer = 0
		m.do(Break{Ref: m.Ref, Failure: events.NewFailure(events.PingTimeout, events.PhaseRun,
			"nothing was heard of the server for "+quiet.Round(time.Millisecond).String())})
	}
}
