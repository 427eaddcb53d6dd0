package events

import (
	"maps"

	"github.com/cockroachdb/errors"
)

// Verifier proves, record by record, that a history is whole: positions follow
// each other without a gap, and each event links to its predecessor. The zero
// Verifier begins before the first event.
type Verifier struct {
	last Tip // of the history
	tips map[Chain]Tip
	// trusting accepts the first event of a chain without a known tip.
	trusting bool
}

// NewVerifier returns a Verifier for the history after a position. Tips are
// those of all chains at that position; without them (nil), the first event of
// each chain is taken on trust.
func NewVerifier(after Seq, tips map[Chain]Tip) *Verifier {
	v := &Verifier{last: Tip{Seq: after}, tips: maps.Clone(tips), trusting: tips == nil && after > 0}
	for _, tip := range tips {
		if tip.Seq == after {
			v.last = tip
		}
	}
	return v
}

// Seq returns the position up to which the history is proven.
func (v *Verifier) Seq() Seq { return v.last.Seq }

// Last returns the event at that position. Its link is "" when it is not known:
// before the first event, and where the position was given without tips.
func (v *Verifier) Last() Tip { return v.last }

// Tip returns the last event of a chain that was seen, or the zero Tip.
func (v *Verifier) Tip(c Chain) Tip { return v.tips[c] }

// Advance takes the next record. Its error is marked [ErrHistoryIncomplete] and
// names the first sequence that is missing or does not link; the Verifier is
// then unchanged.
func (v *Verifier) Advance(r *Record) error {
	if r.Seq != v.last.Seq+1 {
		return errors.Mark(errors.Newf("event %d is missing: %d follows %d", v.last.Seq+1, r.Seq, v.last.Seq), ErrHistoryIncomplete)
	}
	if r.Chain == (Chain{}) {
		v.last = r.Tip() // a stranger's message, on no chain
		return nil
	}
	if tip, known := v.tips[r.Chain]; known || !v.trusting {
		if err := CheckLink(r, tip); err != nil {
			return err
		}
	}
	if v.tips == nil {
		v.tips = make(map[Chain]Tip)
	}
	v.last, v.tips[r.Chain] = r.Tip(), r.Tip()
	return nil
}

// CheckLink returns nil if the record links to that tip of its chain, or else
// an error marked [ErrHistoryIncomplete]. A record that cannot be decoded may
// have no link: its successor vouches for it.
func CheckLink(r *Record, tip Tip) error {
	if _, undecodable := r.Body.(Undecodable); undecodable || r.Prev == tip.Link {
		return nil
	}
	return errors.Mark(errors.Newf("event %d of %s does not link to event %d: one of them was altered, or an event between them is lost",
		r.Seq, r.Chain, tip.Seq), ErrHistoryIncomplete)
}
