package invariants

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/cockroachdb/errors"

	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/events/jetlog"
)

// Ledger has every event that somebody was told is stored. The zero Ledger is
// empty; it may be used by many goroutines.
type Ledger struct {
	mu    sync.Mutex // guards what follows
	acked map[events.Seq]events.EventID
	twice []string
}

func (l *Ledger) note(seq events.Seq, id events.EventID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.acked == nil {
		l.acked = make(map[events.Seq]events.EventID)
	}
	if before, ok := l.acked[seq]; ok && before != id {
		l.twice = append(l.twice, fmt.Sprintf("%d was acknowledged as %s and as %s", seq, before, id))
	}
	l.acked[seq] = id
}

// Len returns how many events were acknowledged.
func (l *Ledger) Len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.acked)
}

// Check is invariant 1: every acknowledged event is where it was said to be, in a
// history whose chains are whole.
func (l *Ledger) Check(ctx context.Context, log *jetlog.Log) error {
	l.mu.Lock()
	acked, wrong := maps.Clone(l.acked), slices.Clone(l.twice)
	l.mu.Unlock()
	stored, err := history(ctx, log) // which is not read before what it has to hold
	if err != nil {
		return err
	}
	for seq, id := range acked {
		switch {
		case seq > events.Seq(len(stored)):
			wrong = append(wrong, fmt.Sprintf("event %d (%s) was acknowledged, but the history ends at %d", seq, id, len(stored)))
		case stored[seq-1].ID != id:
			wrong = append(wrong, fmt.Sprintf("event %d was acknowledged as %s and is %s", seq, id, stored[seq-1].ID))
		}
	}
	return complain("1, no acknowledged event is lost", wrong)
}

// history returns all events, each proven to follow the one before.
func history(ctx context.Context, log *jetlog.Log) ([]events.Record, error) {
	head, err := log.Head(ctx)
	if err != nil || head.Seq == 0 {
		return nil, err
	}
	var all []events.Record
	for r, err := range log.Follow(ctx, 0, &jetlog.FollowOptions{Until: head.Seq}) {
		if err != nil {
			return nil, errors.Wrap(err, "read the history")
		}
		all = append(all, r)
	}
	return all, nil
}

func complain(invariant string, wrong []string) error {
	if len(wrong) == 0 {
		return nil
	}
	slices.Sort(wrong)
	return errors.Newf("invariant %s:\n\t%s", invariant, strings.Join(wrong, "\n\t"))
}
