package events_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/errors"

	"github.com/toolfleet/toolfleet/events"
)

// history is a stream of messages; the first has sequence 1.
type history struct {
	t     testing.TB
	msgs  []events.Message
	links map[events.Chain]events.Link
}

func newHistory(t testing.TB) *history {
	return &history{t: t, links: make(map[events.Chain]events.Link)}
}

// add appends an event, linked to the one before it.
func (h *history) add(c events.Chain, b events.Body) {
	e := sample(c, b)
	e.ID = events.EventID(fmt.Sprintf("id-%d", len(h.msgs)+1))
	e.Prev = h.links[c]
	h.foreign(encode(h.t, e))
}

// foreign appends a message as it is.
func (h *history) foreign(m events.Message) {
	h.msgs = append(h.msgs, m)
	if _, c, err := events.ParseEventSubject(m.Subject); err == nil {
		h.links[c] = events.LinkOf(m)
	}
}

func (h *history) records() []events.Record {
	records := make([]events.Record, len(h.msgs))
	for i, m := range h.msgs {
		records[i] = events.Read(m, events.Seq(i+1))
	}
	return records
}

// mixed is a history of several chains.
func mixed(t testing.TB) *history {
	h := newHistory(t)
	h.add(server, events.Declared{Definition: localDefinition()})
	h.add(instance, events.Assigned{Worker: "host-a", Incarnation: "i-1", Epoch: 1})
	h.add(worker, events.Joined{Host: "host-a", Incarnation: "i-1"})
	h.add(instance, events.Connecting{Attempt: 1, Generation: 1, Definition: digestA})
	h.add(instance, events.Connected{Protocol: "2025-11-25", Era: "handshake"})
	h.add(server, events.Disabled{})
	h.add(instance, events.HasStopped{How: "closed"})
	return h
}

// verify returns where a verifier stops, or 0.
func verify(v *events.Verifier, records []events.Record) (events.Seq, error) {
	for i := range records {
		if err := v.Advance(&records[i]); err != nil {
			return records[i].Seq, err
		}
	}
	return 0, nil
}

func wantIncomplete(t *testing.T, at events.Seq, err error, want events.Seq) {
	t.Helper()
	if at != want || want != 0 && !errors.Is(err, events.ErrHistoryIncomplete) || want == 0 && err != nil {
		t.Errorf("stopped at %d with %v, want %d", at, err, want)
	}
}

func TestVerifierAcceptsAWholeHistory(t *testing.T) {
	records := mixed(t).records()
	var v events.Verifier
	at, err := verify(&v, records)
	wantIncomplete(t, at, err, 0)
	diff(t, "position", events.Seq(7), v.Seq())
	diff(t, "tip of the instance", records[6].Tip(), v.Tip(instance))
	diff(t, "tip of a chain without events", events.Tip{}, v.Tip(fleet))
}

// A cold start goes on from the tips of a view; without tips it takes the first
// event of each chain on trust, but no other.
func TestVerifierGoesOn(t *testing.T) {
	records := mixed(t).records()
	tips := map[events.Chain]events.Tip{
		server: records[0].Tip(), instance: records[3].Tip(), worker: records[2].Tip(),
	}
	given := maps.Clone(tips)
	at, err := verify(events.NewVerifier(4, tips), records[4:])
	wantIncomplete(t, at, err, 0)
	diff(t, "tips of the caller", given, tips)

	at, err = verify(events.NewVerifier(4, nil), records[4:])
	wantIncomplete(t, at, err, 0)

	tips[instance] = records[1].Tip() // as if an event had been lost since
	at, err = verify(events.NewVerifier(4, tips), records[4:])
	wantIncomplete(t, at, err, 5)

	delete(tips, instance) // a chain without a tip begins anew
	at, err = verify(events.NewVerifier(4, tips), records[4:])
	wantIncomplete(t, at, err, 5)

	for _, prev := range []events.Link{"00", ""} { // trust is for the first event only
		altered := slices.Clone(records)
		altered[6].Prev = prev
		at, err = verify(events.NewVerifier(4, nil), altered[4:])
		wantIncomplete(t, at, err, 7)
	}
	altered := slices.Clone(records)
	altered[1].Prev = "00" // nothing is before the beginning
	at, err = verify(events.NewVerifier(0, nil), altered)
	wantIncomplete(t, at, err, 2)
}

func TestVerifierReportsAGap(t *testing.T) {
	for i := range 6 {
		records := mixed(t).records()
		lost := records[i].Seq
		var v events.Verifier
		at, err := verify(&v, slices.Delete(records, i, i+1))
		wantIncomplete(t, at, err, lost+1)
		if !strings.Contains(err.Error(), fmt.Sprintf("event %d is missing", lost)) {
			t.Errorf("the error does not name %d: %v", lost, err)
		}
		diff(t, "position after the error", lost-1, v.Seq())
	}
}

// Sequences that close over a lost event do not hide it.
func TestVerifierReportsALossWithoutAGap(t *testing.T) {
	h := mixed(t)
	h.msgs = slices.Delete(h.msgs, 3, 4)
	at, err := verify(new(events.Verifier), h.records())
	wantIncomplete(t, at, err, 4)
}

func TestVerifierReportsARepeat(t *testing.T) {
	records := mixed(t).records()
	at, err := verify(new(events.Verifier), slices.Insert(records, 2, records[1]))
	wantIncomplete(t, at, err, 2)
}

func TestVerifierReportsASwappedPair(t *testing.T) {
	h := mixed(t)
	h.msgs[3], h.msgs[4] = h.msgs[4], h.msgs[3]
	at, err := verify(new(events.Verifier), h.records())
	wantIncomplete(t, at, err, 4)

	records := mixed(t).records()
	records[3], records[4] = records[4], records[3]
	at, err = verify(new(events.Verifier), records)
	wantIncomplete(t, at, err, 5)
}

// What is no event has its place, and its successor links to it.
func TestVerifierStepsOverForeignMessages(t *testing.T) {
	h := mixed(t)
	h.foreign(events.Message{Subject: instance.Subject(events.DefaultFleet), Data: []byte("not an event")})
	h.foreign(events.Message{Subject: "tf.evt.default.nothing.of.ours", Data: []byte("on no chain")})
	h.add(instance, events.Released{})
	records := h.records()
	at, err := verify(new(events.Verifier), records)
	wantIncomplete(t, at, err, 0)

	h.msgs[7].Data = []byte("Not an event")
	at, err = verify(new(events.Verifier), h.records())
	wantIncomplete(t, at, err, 10)
}

func TestCheckLink(t *testing.T) {
	records := mixed(t).records()
	if err := events.CheckLink(&records[3], records[1].Tip()); err != nil {
		t.Error(err)
	}
	if err := events.CheckLink(&records[3], events.Tip{}); !errors.Is(err, events.ErrHistoryIncomplete) {
		t.Error(err)
	}
}

// Whatever bit of a stored message is flipped (in the name or value of a header
// of the format, or in the body), its successor tells, or the message itself.
func TestAFlippedBitIsFound(t *testing.T) {
	h := newHistory(t)
	h.add(instance, events.Assigned{Worker: "host-a", Incarnation: "i-1", Epoch: 1})
	h.add(instance, events.Connecting{Attempt: 1, Generation: 1, Definition: digestA})
	h.add(instance, events.HasStopped{How: "closed"})
	const middle = 1
	original := h.msgs[middle]
	flips := 0
	check := func(what string, m events.Message) {
		flips++
		h.msgs[middle] = m
		at, err := verify(new(events.Verifier), h.records())
		if !errors.Is(err, events.ErrHistoryIncomplete) || at != 2 && at != 3 {
			t.Errorf("%s: stopped at %d with %v", what, at, err)
		}
	}
	for name := range original.Header {
		for flipped := range flip(name) {
			m := clone(original)
			m.Header[flipped] = m.Header[name]
			delete(m.Header, name)
			check("name "+name+" became "+flipped, m)
		}
		for flipped := range flip(original.Header[name][0]) {
			m := clone(original)
			m.Header[name] = []string{flipped}
			check("value of "+name+" became "+flipped, m)
		}
	}
	for flipped := range flip(string(original.Data)) {
		m := clone(original)
		m.Data = []byte(flipped)
		check("body became "+flipped, m)
	}
	if flips < 4000 {
		t.Errorf("only %d flips", flips)
	}
}

// flip yields the text with each of its bits flipped.
func flip(s string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for i := range len(s) {
			for bit := range 8 {
				b := []byte(s)
				b[i] ^= 1 << bit
				if !yield(string(b)) {
					return
				}
			}
		}
	}
}

func clone(m events.Message) events.Message {
	m.Header = maps.Clone(m.Header)
	m.Data = slices.Clone(m.Data)
	return m
}
