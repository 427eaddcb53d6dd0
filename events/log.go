package events

import (
	"fmt"
	"time"

	"github.com/cockroachdb/errors"
)

// The outcomes of an append, and the faults of a log, that callers decide on.
// Errors are marked with them: use errors.Is.
var (
	// ErrConflict says that the chain has an event after the tip that the
	// append stated: fold on, and decide again. The event was not stored. The
	// error is a [*ConflictError].
	ErrConflict = errors.New("conflict")
	// ErrUncertain says that the append may or may not have been stored, because
	// its context ended before the log's answer came. Appending the same event,
	// with the same ID and tip, again finds out.
	ErrUncertain = errors.New("outcome unknown")
	// ErrHistoryFull says that the stream has reached its limit of bytes, or the
	// server or account that of its storage. Nothing was stored.
	ErrHistoryFull = errors.New("history is full")
	// ErrHistoryRegressed says that the stream ends before a position that was
	// read from it, was deleted, or was created anew.
	ErrHistoryRegressed = errors.New("history regressed")
	// ErrHistoryIncomplete says that events are missing inside the stream, or do
	// not link to each other.
	ErrHistoryIncomplete = errors.New("history is incomplete")
)

// ConflictError tells what stands where an append wanted to be.
type ConflictError struct {
	Chain Chain
	// Expected is the tip that was stated.
	Expected Seq
	// Found is the first event of the chain after it.
	Found Record
}

// Error names the chain, the expected position and the event that is there.
func (e *ConflictError) Error() string {
	return fmt.Sprintf("append to %s after %d: %s %s is there at %d",
		e.Chain, e.Expected, e.Found.Kind(), e.Found.ID, e.Found.Seq)
}

// Is makes every ConflictError an [ErrConflict].
func (e *ConflictError) Is(target error) bool { return target == ErrConflict }

// LogID names one history: a stream, from its creation to its deletion or to a
// loss of its end. Later histories of a fleet have greater ids, as strings: the
// time of the stream's creation in UTC, to the nanosecond, and the number of
// losses, such as 20251125T090000.000000000Z.000.
type LogID string

// NewLogID returns the id of the history in a stream created at that time,
// after so many losses of its end.
func NewLogID(created time.Time, regressions int) LogID {
	return LogID(fmt.Sprintf("%s.%03d", created.UTC().Format("20060102T150405.000000000Z"), regressions))
}

// Head is the end of the history at one moment.
type Head struct {
	Log LogID
	// Seq of the last event; 0 if there is none.
	Seq Seq
	// Count of events; it equals Seq in a whole history.
	Count uint64
	// Bytes stored, and the limit; MaxBytes is 0 when there is none.
	Bytes, MaxBytes uint64
}

// Position is a place in a certain history; an empty Log is any history.
type Position struct {
	Log LogID `json:"log"`
	Seq Seq   `json:"seq"`
}

// Check returns an error marked [ErrHistoryRegressed] when the position cannot
// have been read from the history that h is the end of.
func (h Head) Check(p Position) error {
	switch {
	case p.Log != "" && p.Log != h.Log:
		return errors.Mark(errors.Newf("the history is %s, but %s was read before: the stream was created anew",
			h.Log, p.Log), ErrHistoryRegressed)
	case p.Seq > h.Seq:
		return errors.Mark(errors.Newf("the history ends at %d, but %d was read before", h.Seq, p.Seq),
			ErrHistoryRegressed)
	}
	return nil
}

// CommandRecord is a command as it is stored.
type CommandRecord struct {
	Address
	Command *Command
	// Seq is the command's position in the stream of commands.
	Seq Seq
}
