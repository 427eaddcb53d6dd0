package worker

import (
	"time"

	"github.com/toolfleet/toolfleet/events"
)

// leaseSpread is over how long restarts are spread after a lease came back, so
// that not every server of a host starts in the same instant.
const leaseSpread = 5 * time.Second

// failed takes the end of an attempt that nobody asked for.
func (m *machine) failed(w Ended) {
	m.down()
	m.Restarting = true
	if w.Failure.Code == events.AuthenticationNeeded {
		m.Stage, m.Timer = Parked, 0
		m.append(events.AuthRequired{Hint: w.Failure.Message})
		return
	}
	if m.Probes == 0 {
		m.append(events.Failed{
			Failure: w.Failure, Attempt: m.Ref.Attempt,
			Exit: w.Exit, Signal: w.Signal, StderrTail: w.Stderr,
		})
	}
	if w.Failure.Code == events.LeaseLost {
		m.await() // the server is not to blame
		return
	}
	m.Failures++
	d := m.Running.Definition
	v := decide(d.RestartPolicy, trouble{
		Failures: m.Failures, Probes: m.Probes, Retry: w.Failure.Retry,
		Remote: d.Transport() != events.Stdio, Worked: m.Worked, Rand: m.rand,
	})
	if v.Restart {
		m.restartAfter(v.Delay)
		return
	}
	m.Stage, m.Timer = Parked, 0
	m.append(events.Parked{Failure: w.Failure, ProbeMs: v.Delay.Milliseconds()})
	if v.Delay > 0 {
		m.sleep(v.Delay)
	}
}

func (m *machine) restartAfter(d time.Duration) {
	m.Stage, m.Owed = BackingOff, false
	m.append(events.RestartScheduled{DelayMs: d.Milliseconds(), Attempt: m.Ref.Attempt + 1})
	m.sleep(d)
}

func (m *machine) sleep(d time.Duration) {
	m.Timers++
	m.Timer = m.Timers
	m.do(Sleep{Timer: m.Timer, For: d})
}

// elapsed does what a timer was armed for. Whatever made it pointless has
// disarmed the timer.
func (m *machine) elapsed(w Elapsed) {
	if w.Timer == 0 || w.Timer != m.Timer {
		return
	}
	switch {
	case m.Stage == Ready:
		m.check(w)
		return
	case m.Command.Frozen:
		m.Timer, m.Owed = 0, true // until a command says otherwise
		return
	case m.Stage == Parked:
		m.Probes++
	}
	m.begin()
}

// thaw makes up for the attempt that came due while the instance was not to be
// started by itself.
func (m *machine) thaw() {
	if m.Owed && m.Leased && !m.Command.Frozen {
		m.await()
	}
}

func (m *machine) lease(held bool) {
	if held == m.Leased {
		return
	}
	m.Leased = held
	switch {
	case held:
		if m.Stage == BackingOff && m.Owed {
			m.await()
		}
	case m.Stage == Stopping || m.Stage == Gone:
		if m.Live {
			m.do(Close{Ref: m.Ref, Now: true})
		}
	case m.Stage == Connecting || m.Stage == Listing || m.Stage == Ready:
		m.lost()
	}
}

// lost ends an attempt because the lease did.
func (m *machine) lost() {
	m.down()
	m.Restarting = true
	m.append(events.Failed{
		Failure: events.NewFailure(events.LeaseLost, events.PhaseRun, "the worker's lease ended"),
		Attempt: m.Ref.Attempt,
	})
	if !m.Live {
		m.await()
		return
	}
	m.Stage, m.Next = Stopping, ThenWait
	m.do(Close{Ref: m.Ref, Now: true})
}

// await begins again when the lease holds.
func (m *machine) await() {
	switch {
	case !m.Leased:
		m.Stage, m.Timer, m.Owed = BackingOff, 0, true
	case m.Ref.Attempt == 0:
		m.begin()
	default:
		m.restartAfter(time.Duration(m.rand * float64(leaseSpread)))
	}
}
