// Package audit checks that a history is one that a fleet can have: whole, linked,
// in order, and with one owner of an instance after the other.
//
// It is pure. What the events say is not judged, only whether they could have been
// appended where they stand.
package audit

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"

	"github.com/toolfleet/toolfleet/events"
)

// Fault is something that cannot be in a good history.
type Fault struct {
	// Seq is the event that is at fault, or where one is missing.
	Seq events.Seq `json:"seq"`
	// What is wrong, for people.
	What string `json:"what"`
}

// MostFaults is how many faults are kept; more are only counted.
const MostFaults = 100

// Auditor is given the events of a history, from the first one on. The zero
// Auditor is ready.
type Auditor struct {
	verifier events.Verifier
	faults   []Fault
	count    int
	// chains are instances, with who owns them.
	chains map[events.Chain]*ownership
	// ids are those of all events so far; awaited are causes that were named and
	// not seen, with the first event that names them.
	ids     map[id]events.Seq
	awaited map[id]events.Seq

	// Events counts what was checked; Unknown are those of kinds or versions that
	// this build does not know, and Undecodable are messages that are no events:
	// they have their place in the history all the same, and are no faults.
	Events, Unknown, Undecodable int
	// LastUndecodable is the last such message.
	LastUndecodable events.Seq
}

// ownership is what an instance's chain says of its owner.
type ownership struct {
	epoch events.Epoch
	owner events.WorkerID // "" between two
}

// Apply checks the next event.
func (a *Auditor) Apply(r *events.Record) {
	if a.ids == nil {
		a.chains, a.ids, a.awaited = make(map[events.Chain]*ownership), make(map[id]events.Seq), make(map[id]events.Seq)
	}
	a.Events++
	if err := a.verifier.Advance(r); err != nil {
		a.fault(r.Seq, "%v", err)
		// A new beginning, so that one fault is told of once.
		a.verifier = *events.NewVerifier(r.Seq, nil)
	}
	switch r.Body.(type) {
	case events.Undecodable:
		a.Undecodable++
		a.LastUndecodable = r.Seq
		return // nothing that it says can be trusted
	case events.Unknown:
		a.Unknown++
	default:
	}
	a.order(r)
	if r.Chain.Kind() == events.OfInstance {
		a.ownership(r)
	}
}

func (a *Auditor) fault(seq events.Seq, format string, args ...any) {
	if a.count++; len(a.faults) < MostFaults {
		a.faults = append(a.faults, Fault{seq, fmt.Sprintf(format, args...)})
	}
}

// order checks that events stand after what they are because of, and once.
func (a *Auditor) order(r *events.Record) {
	own := idOf(string(r.ID))
	if first, twice := a.ids[own]; twice {
		a.fault(r.Seq, "event %d has the id of event %d", r.Seq, first)
		return
	}
	a.ids[own] = r.Seq
	if effect, early := a.awaited[own]; early {
		a.fault(effect, "event %d is because of event %d, which came later", effect, r.Seq)
		delete(a.awaited, own)
	}
	if r.Cause == "" {
		return
	}
	cause := idOf(r.Cause)
	if _, known := a.ids[cause]; !known {
		if _, named := a.awaited[cause]; !named {
			a.awaited[cause] = r.Seq
		}
	}
}

// id is an event's id, small: a long history has many of them, and text would keep
// the messages that it is a part of.
type id [16]byte

// idOf returns a UUID's own bytes, or the beginning of a hash of anything else.
func idOf(text string) (n id) {
	if len(text) == len("01941f29-7c00-7000-8000-000000000000") {
		plain := text[:8] + text[9:13] + text[14:18] + text[19:23] + text[24:]
		if _, err := hex.Decode(n[:], []byte(plain)); err == nil {
			return n
		}
	}
	sum := sha256.Sum256([]byte(text))
	copy(n[:], sum[:])
	return n
}

// ownership checks the epochs of an instance's chain.
func (a *Auditor) ownership(r *events.Record) {
	o := a.chains[r.Chain]
	if o == nil {
		o = &ownership{}
		a.chains[r.Chain] = o
	}
	if b, ok := r.Body.(events.Assigned); ok {
		switch {
		case o.owner != "":
			a.fault(r.Seq, "event %d gives %s to %s, but %s has it", r.Seq, r.Chain, b.Worker, o.owner)
		case b.Epoch != o.epoch+1:
			a.fault(r.Seq, "event %d begins epoch %d of %s, after epoch %d", r.Seq, b.Epoch, r.Chain, o.epoch)
		case r.Epoch != b.Epoch:
			a.fault(r.Seq, "event %d begins epoch %d of %s, but is said under %d", r.Seq, b.Epoch, r.Chain, r.Epoch)
		}
		o.epoch, o.owner = b.Epoch, b.Worker
		return
	}
	switch {
	case r.Epoch != o.epoch:
		a.fault(r.Seq, "event %d of %s is said under epoch %d, when %d was in force", r.Seq, r.Chain, r.Epoch, o.epoch)
	case o.owner == "":
		a.fault(r.Seq, "event %d is said of %s when nobody had it", r.Seq, r.Chain)
	}
	switch r.Body.(type) {
	case events.Released, events.Lost:
		o.owner = ""
	default:
	}
}

// Last returns the sequence of the last event that was checked.
func (a *Auditor) Last() events.Seq { return a.verifier.Seq() }

// End checks the end of the history, and returns the faults in the order of their
// sequences, with how many there are: of more than [MostFaults] the others are not
// kept.
func (a *Auditor) End(head events.Head) (faults []Fault, count int) {
	if uint64(head.Seq) != head.Count {
		a.fault(head.Seq, "the stream ends at %d, but has %d events", head.Seq, head.Count)
	}
	slices.SortStableFunc(a.faults, func(x, y Fault) int { return cmp.Compare(x.Seq, y.Seq) })
	return a.faults, a.count
}
