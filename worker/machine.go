package worker

import (
	"time"

	"github.com/toolfleet/toolfleet/events"
)

// Step returns the state after an input, and what is to be done. It is pure:
// the state that it was given stays as it is.
func Step(s State, in Input) (State, []Effect) {
	m := machine{State: s, at: in.At, rand: in.Rand}
	switch w := in.What.(type) {
	case Commanded:
		m.command(w.Command)
	case Leaving:
		m.leave(w.Reason)
	case LeaseChanged:
		m.lease(w.Held)
	case Elapsed:
		m.elapsed(w)
	case Disowned:
		if in.Ref.Epoch == m.Epoch {
			m.disowned()
		}
	default:
		if in.Ref == m.Ref {
			m.attempt(in.What)
		}
	}
	return m.State, m.effects
}

// machine is a State in the course of one Step.
type machine struct {
	State

	at      time.Time
	rand    float64
	effects []Effect
}

func (m *machine) do(e Effect) { m.effects = append(m.effects, e) }

func (m *machine) append(b events.Body) { m.do(Append{Ref: m.Ref, Body: b, Cause: m.cause()}) }

// cause is what led to the events of the current command.
func (m *machine) cause() string {
	if m.Command == nil {
		return ""
	}
	return m.Command.Cause
}

// attempt takes what happened to the current attempt.
func (m *machine) attempt(h Happening) {
	switch w := h.(type) {
	case Appended:
		m.appended(w.Kind)
	case Dialed:
		m.dialed(w)
	case Listed:
		m.listed(w)
	case ListChanged:
		m.listChanged(w.Kind)
	case PingUnknown:
		m.Pingless = true
	case StopHung:
		if m.Stage == Stopping {
			m.append(events.Failed{
				Failure: events.NewFailure(events.StopHung, events.PhaseStop, "still there after the grace period"),
				Attempt: m.Ref.Attempt,
			})
		}
	case Ended:
		m.ended(w)
	case Commanded, Leaving, LeaseChanged, Disowned, Elapsed:
		// unreachable unless Step's own switch lacks one of them.
	}
}

func (m *machine) command(c *events.Command) {
	if c.Epoch != m.Epoch || m.Command != nil && c.Older(m.Command) || m.Stage == Gone {
		return
	}
	m.Command = c
	switch {
	case m.Leaving:
		// It is stopping already, and what is wanted is the next worker's.
	case c.Want == events.Stopped:
		m.stop("commanded")
	default:
		m.run()
	}
}

func (m *machine) leave(reason string) {
	if m.Leaving || m.Stage == Gone {
		return
	}
	m.Leaving = true
	m.stop(reason)
}

// stop brings the instance to Stopped from wherever it is.
func (m *machine) stop(reason string) {
	switch m.Stage {
	case Stopped:
		if m.Answered {
			m.do(Finish{})
		}
	case Stopping:
		m.Next = ThenStop
	case Connecting, Listing, Ready:
		if m.Live {
			m.close(reason, ThenStop)
			return
		}
		m.stopped("idle")
	case Idle, BackingOff, Parked:
		m.stopped("idle")
	case Gone:
	}
}

// run brings the instance to a connection for the current command.
func (m *machine) run() {
	switch m.Stage {
	case Idle, Stopped:
		m.renew()
	case Stopping:
		if m.Next == ThenStop {
			m.Next = ThenConnect
		}
	case Parked:
		if m.differs() || m.Command.Generation > m.Running.Generation {
			m.renew() // something was asked of the server, which is worth a try
		} else {
			m.thaw()
		}
	case BackingOff:
		if m.differs() {
			m.renew()
		} else {
			m.thaw()
		}
	case Connecting, Listing, Ready:
		switch reason := "restart requested"; {
		case !m.differs():
		case m.Live:
			if m.Command.Restart <= m.Running.Restart {
				reason = "definition changed"
			}
			m.close(reason, ThenConnect)
		default:
			m.renew()
		}
	case Gone:
	}
}

// differs says whether the command wants another connection than the one that
// there is, or was last.
func (m *machine) differs() bool {
	return m.Running == nil || m.Command.Restart > m.Running.Restart ||
		!events.SameConnection(m.Command.Definition, m.Running.Definition)
}

// renew begins an attempt that no earlier failure counts against.
func (m *machine) renew() {
	m.Failures, m.Probes = 0, 0
	m.begin()
}

// begin writes that an attempt begins; it does once that is acknowledged.
func (m *machine) begin() {
	m.Timer = 0
	if m.Owed = !m.Leased; m.Owed {
		m.Stage = BackingOff
		return
	}
	m.Running = m.Command
	m.Ref = Ref{Epoch: m.Epoch, Generation: m.Command.Generation, Attempt: m.Ref.Attempt + 1}
	m.Stage, m.Answered, m.Next = Connecting, false, ""
	m.Lists = [listKinds]ListState{}
	m.append(events.Connecting{Attempt: m.Ref.Attempt, Generation: m.Ref.Generation, Definition: digestOf(m.Command)})
}

// close ends the connection in peace.
func (m *machine) close(reason string, next Next) {
	m.down()
	m.Stage, m.Next = Stopping, next
	m.append(events.Stopping{Reason: reason})
	m.do(Close{Ref: m.Ref})
}

// down notes that the instance is ready no longer.
func (m *machine) down() {
	switch {
	case m.Stage == Ready:
		m.Timer = 0
		if m.at.Sub(m.ReadySince) >= stablePeriod(m.Running.Definition.RestartPolicy) {
			m.Failures = 0
		}
	case m.Stage == Listing && m.Lists[Tools].Offered:
		m.restarted() // the chain gets the list all the same, and makes the instance ready
	default:
		return
	}
	m.DownSince = m.at
}

// restarted appends the event of that kind if one is due.
func (m *machine) restarted() {
	if m.Restarting {
		var downtime time.Duration
		if !m.DownSince.IsZero() {
			downtime = max(0, m.at.Sub(m.DownSince))
		}
		m.append(events.Restarted{Attempt: m.Ref.Attempt, DowntimeMs: downtime.Milliseconds()})
	}
	m.Restarting, m.DownSince = false, time.Time{}
}

func (m *machine) stopped(how string) {
	m.Stage, m.Timer, m.Owed, m.Answered = Stopped, 0, false, false
	m.append(events.HasStopped{How: how})
}

func (m *machine) appended(k events.Kind) {
	list, isList := listOf(k)
	switch {
	case k == events.KindConnecting && m.Stage == Connecting && !m.Live:
		m.Live = true
		m.do(Connect{Ref: m.Ref, Command: m.Running})
	case k == events.KindToolsListed && m.Stage == Listing:
		m.ready()
	case isList && m.Stage == Ready:
		m.relisted(list)
	case k == events.KindStopped && m.Stage == Stopped:
		m.Answered = true
		m.do(Finish{})
	}
}

func (m *machine) dialed(w Dialed) {
	if m.Stage != Connecting || !m.Live {
		return
	}
	m.append(w.Connected)
	m.Stage = Listing
	m.list(Tools)
}

func (m *machine) list(k ListKind) {
	m.Lists[k].Relisting, m.Lists[k].Relist = true, false
	m.do(List{Ref: m.Ref, Kind: k})
}

// listed takes a complete list. The first one of a connection is written even if
// it is the last one of the chain again, since it says that the items are those
// of this connection; but where there are no resources, or prompts, and were
// none, nothing is.
func (m *machine) listed(w Listed) {
	l := &m.Lists[w.Kind]
	switch {
	case !m.lists(w.Kind):
	case w.Same && (l.Offered || w.Kind != Tools && w.Listing.Count == 0):
		m.relisted(w.Kind)
	default:
		l.Offered = true
		m.do(Append{Ref: m.Ref, Body: w.Kind.body(w.Listing), Blob: w.Blob, Cause: m.cause()})
	}
}

// lists says whether it is time for a list: for that of tools from the handshake
// on, for others when the instance is ready.
func (m *machine) lists(k ListKind) bool { return m.Stage == Ready || m.Stage == Listing && k == Tools }

// relisted ends a list, and begins the one that has to follow it.
func (m *machine) relisted(k ListKind) {
	l := &m.Lists[k]
	if l.Relisting = l.Relist; l.Relist {
		m.list(k)
	}
}

func (m *machine) listChanged(k ListKind) {
	switch {
	case !m.lists(k):
	case m.Lists[k].Relisting:
		m.Lists[k].Relist = true
	default:
		m.list(k)
	}
}

// ready follows the acknowledgement of a connection's first complete list.
func (m *machine) ready() {
	m.Stage, m.ReadySince, m.Worked, m.Probes = Ready, m.at, true, 0
	m.do(Serve{Ref: m.Ref})
	m.watch()
	m.restarted()
	m.relisted(Tools)
	for _, k := range others {
		m.list(k)
	}
}

func (m *machine) ended(w Ended) {
	if !m.Live {
		return
	}
	m.Live = false
	switch m.Stage {
	case Stopping:
		switch m.Next {
		case ThenConnect:
			m.renew()
		case ThenWait:
			m.await()
		case ThenStop:
			m.stopped(w.How)
		}
	case Gone:
		m.do(Finish{})
	case Connecting, Listing, Ready:
		m.failed(w)
	case Idle, BackingOff, Parked, Stopped:
		// unreachable unless a stage without a connection is live.
	}
}

func (m *machine) disowned() {
	if m.Stage == Gone {
		return
	}
	m.Stage, m.Timer, m.Owed = Gone, 0, false
	if m.Live {
		m.do(Close{Ref: m.Ref, Now: true})
		return
	}
	m.do(Finish{})
}

// digestOf returns the digest of a command's definition.
func digestOf(c *events.Command) events.Digest {
	if c.Digest != "" || c.Definition == nil {
		return c.Digest
	}
	return c.Definition.Digest()
}
