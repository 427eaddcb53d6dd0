package events

import (
	"maps"

	"github.com/cockroachdb/errors"
)

// Verifier proves, record by record, that a history is whole: positions follow
// each other without a gap, and each event links to its predecessor. The zero
// Verifier begins before the first event.
type Verifier struct {
	seq  Seq
	tips map[Chain]Tip
	// trusting accepts the first event of a chain without a known tip.
	trusting bool
}

// NewVerifier returns a Verifier for the history after a position. Tips are
// those of all chains at that position; without them (nil), the first event of
// each chain is taken on trust.
func NewVerifier(after Seq, tips map[Chain]Tip) *Verifier {
	return &Verifier{seq: after, tips: maps.Clone(tips), trusting: tips == nil && after > 0}
}

// Seq returns the position up to which the history is proven.
func (v *Verifier) Seq() Seq { return v.seq }

// Tip returns the last event of a chain that was seen, or the zero Tip.
func (v *Verifier) Tip(c Chain) Tip { return v.tips[c] }

// Advance takes the next record. Its error is marked [ErrHistoryIncomplete] and
// names the first sequence that is missing or does not link; the Verifier is
// then unchanged.
func (v *Verifier) Advance(r *Record) error {
	if r.Seq != v.seq+1 {
		return errors.Mark(errors.Newf("event %d is missing: %d follows %d", v.seq+1, r.Seq, v.seq), ErrHistoryIncomplete)
	}
	if r.Chain == (Chain{}) {
		v.seq = r.Seq // a stranger's message, on no chain
		return nil
	}
	tip, known := v.tips[r.Chain]
	// What cannot be decoded may have no link; its successor vouches for it.
	_, undecodable := r.Body.(Undecodable)
	if !undecodable && r.Prev != tip.Link && (known || !v.trusting) {
		return errors.Mark(errors.Newf("event %d of %s does not link to event %d: one of them was altered, or an event between them is lost",
			r.Seq, r.Chain, tip.Seq), ErrHistoryIncomplete)
	}
	if v.tips == nil {
		v.tips = make(map[Chain]Tip)
	}
	v.seq, v.tips[r.Chain] = r.Seq, r.Tip()
	return nil
}
