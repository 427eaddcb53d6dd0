package projections

import (
	"strings"
	"time"

	"github.com/toolfleet/toolfleet/events"
)

// Progress is how far a fold has come on its chain, and what it could not read
// there. It is part of every state.
type Progress struct {
	// Tip is the last event that was folded.
	events.Tip
	// Updated is the time of the last event that changed more than the tip.
	Updated time.Time `json:"updated,omitzero"`
	// Unknown counts events of kinds or versions that this build does not know;
	// LastUnknown is the ce-type of the last of them.
	Unknown     int    `json:"unknown,omitzero"`
	LastUnknown string `json:"lastUnknown,omitzero"`
	// Undecodable counts messages that are no valid events.
	Undecodable int `json:"undecodable,omitzero"`
}

// At returns the last event that was folded.
func (p *Progress) At() events.Tip { return p.Tip }

// advance moves the tip to the record, or returns false for one that was
// folded before.
func (p *Progress) advance(r *events.Record) bool {
	if r.Seq <= p.Seq {
		return false
	}
	p.Tip = r.Tip()
	return true
}

// unreadable counts a record that says nothing to this build, and says whether
// it is one.
func (p *Progress) unreadable(r *events.Record) bool {
	switch b := r.Body.(type) {
	case events.Unknown:
		p.Unknown++
		p.LastUnknown = text(b.Type, maxName)
		p.Updated = when(r)
	case events.Undecodable:
		p.Undecodable++ // its time may be nonsense
	default:
		return false
	}
	return true
}

// when returns the time of an event in the form that JSON gives back.
func when(r *events.Record) time.Time { return r.Time.UTC().Round(0) }

// Bounds of the text that states keep, so that an entry always fits a message:
// the broker's default limit is 1 MiB, and an event has at most half of that.
const (
	maxName    = 256
	maxMessage = 4 << 10
	maxStderr  = 8 << 10
)

// text returns untrusted text as valid UTF-8 of at most limit bytes.
func text(s string, limit int) string {
	if len(s) > limit {
		s = s[:limit]
	}
	return strings.ToValidUTF8(s, "?")
}

// tail is text that keeps the end.
func tail(s string, limit int) string {
	if len(s) > limit {
		s = s[len(s)-limit:]
	}
	return text(s, limit)
}

// Fault is a failure with its place in the history: sequence and time of the
// event that reported it. Long text is cut.
type Fault struct {
	events.Failure
	Seq     events.Seq `json:"seq"`
	Time    time.Time  `json:"time,omitzero"`
	Attempt int        `json:"attempt,omitzero"`
	// Exit and Signal say how the process ended, if one did; StderrTail is the
	// end of its stderr.
	Exit       *int   `json:"exit,omitzero"`
	Signal     string `json:"signal,omitzero"`
	StderrTail string `json:"stderrTail,omitzero"`
}

func newFault(r *events.Record, f events.Failure) *Fault {
	f.Message = text(f.Message, maxMessage)
	return &Fault{Failure: f, Seq: r.Seq, Time: when(r), Attempt: r.Attempt}
}

// Rejection is a definition that could not be accepted.
type Rejection struct {
	// ID as it was given.
	ID string `json:"id"`
	// Seq of the rejected event, and its time.
	Seq  events.Seq `json:"seq"`
	Time time.Time  `json:"time,omitzero"`
	// Reasons are the first 16; the event has them all.
	Reasons []events.Problem `json:"reasons,omitempty"`
	Source  *events.Source   `json:"source,omitzero"`
}

// maxReasons bounds the reasons kept of one rejection; the event has them all.
const maxReasons = 16

func newRejection(r *events.Record, b events.Rejected) Rejection {
	reasons := b.Reasons[:min(len(b.Reasons), maxReasons):min(len(b.Reasons), maxReasons)]
	return Rejection{ID: text(b.ID, maxName), Seq: r.Seq, Time: when(r), Reasons: reasons, Source: b.Source}
}
