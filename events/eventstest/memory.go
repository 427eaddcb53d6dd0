package eventstest

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/cockroachdb/errors"

	"github.com/toolfleet/toolfleet/events"
)

// Memory is the history of a fleet, its commands and its blobs, in memory. It
// keeps the contract of package jetlog as far as [Conformance] checks it: what
// is stored are encoded messages, so that every reader decodes for itself. Its
// methods may be called at any time, and take effect before they return.
type Memory struct {
	fleet events.FleetID

	mu       sync.Mutex // guards what follows; never held while something waits
	log      events.LogID
	created  time.Time
	messages []events.Message // that of sequence n is at n-1
	bytes    uint64
	subjects map[string][]events.Seq
	ids      map[events.EventID]events.Seq
	commands commandStore
	blobs    map[events.Digest][]byte
	full     bool
	outage   OutageMode
	changed  chan struct{} // closed, and replaced, at every change
}

// OutageMode is what a [Memory] does during an outage.
type OutageMode int

// The modes of an outage. In all but NoOutage nothing is answered or delivered:
// calls wait until the outage or their context ends. Appends whose context ends
// return [events.ErrUncertain].
const (
	NoOutage OutageMode = iota
	// Unreachable stores nothing.
	Unreachable
	// AnswersLost stores what is appended.
	AnswersLost
)

// NewMemory returns an empty history.
func NewMemory(fleet events.FleetID) *Memory {
	m := &Memory{fleet: fleet, blobs: make(map[events.Digest][]byte), changed: make(chan struct{})}
	m.reset()
	return m
}

// reset begins a new history. The lock is held, or nobody else has m yet.
func (m *Memory) reset() {
	now := time.Now()
	if !now.After(m.created) {
		now = m.created.Add(time.Nanosecond) // histories have different ids
	}
	m.created, m.log = now, events.NewLogID(now, 0)
	m.refill(nil)
}

// refill replaces the messages. The lock is held, or nobody else has m yet.
func (m *Memory) refill(messages []events.Message) {
	m.messages, m.bytes = nil, 0
	m.subjects, m.ids = make(map[string][]events.Seq), make(map[events.EventID]events.Seq)
	for _, msg := range messages {
		m.store(msg)
	}
}

// Open returns the history as one who appends to it sees it. The writer becomes
// part of the source of events.
func (m *Memory) Open(writer string) *MemoryLog { return &MemoryLog{m: m, writer: writer} }

// SetFull makes every append of a new event fail with [events.ErrHistoryFull],
// or ends that.
func (m *Memory) SetFull(full bool) { m.change(func() { m.full = full }) }

// SetOutage begins or, with [NoOutage], ends an outage.
func (m *Memory) SetOutage(mode OutageMode) { m.change(func() { m.outage = mode }) }

// Regress takes away every event after a position, as a damaged store does.
func (m *Memory) Regress(to events.Seq) {
	m.change(func() { m.refill(m.messages[:min(to, m.last())]) })
}

// Recreate replaces the history by an empty one.
func (m *Memory) Recreate() { m.change(m.reset) }

// Inject stores a message as it is, whatever it holds.
func (m *Memory) Inject(msg events.Message) (seq events.Seq) {
	m.change(func() { seq = m.store(msg) })
	return seq
}

// change runs f under the lock and wakes everyone who waits.
func (m *Memory) change(f func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f()
	close(m.changed)
	m.changed = make(chan struct{})
}

// store is called in change.
func (m *Memory) store(msg events.Message) events.Seq {
	m.messages = append(m.messages, msg)
	m.bytes += uint64(len(msg.Data))
	seq := m.last()
	m.subjects[msg.Subject] = append(m.subjects[msg.Subject], seq)
	if r := events.Read(msg, seq); r.ID != "" {
		m.ids[r.ID] = seq
	}
	return seq
}

// last returns the last sequence. The lock is held.
func (m *Memory) last() events.Seq { return events.Seq(len(m.messages)) }

// next returns the first event of a subject after a position. The lock is held.
func (m *Memory) next(subject string, after events.Seq) (events.Record, bool) {
	all := m.subjects[subject]
	i, _ := slices.BinarySearch(all, after+1)
	if i == len(all) {
		return events.Record{}, false
	}
	return events.Read(m.messages[all[i]-1], all[i]), true
}

// ends returns the last sequence of a subject, or 0. The lock is held.
func (m *Memory) ends(subject string) events.Seq {
	all := m.subjects[subject]
	if len(all) == 0 {
		return 0
	}
	return all[len(all)-1]
}

// look calls f under the lock as soon as there is no outage and f says that it
// is done, until then at every change.
func (m *Memory) look(ctx context.Context, f func() (done bool)) error {
	for {
		m.mu.Lock()
		done := m.outage == NoOutage && f()
		changed := m.changed
		m.mu.Unlock()
		if done {
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.Wrap(ctx.Err(), "no answer")
		case <-changed:
		}
	}
}

// once is look for what is answered at once.
func (m *Memory) once(ctx context.Context, f func()) error {
	if err := ctx.Err(); err != nil {
		return errors.Wrap(err, "not sent")
	}
	return m.look(ctx, func() bool {
		f()
		return true
	})
}

// write is once for what changes something.
func (m *Memory) write(ctx context.Context, f func()) error {
	err := m.once(ctx, func() {})
	if err == nil {
		m.change(f)
	}
	return err
}
