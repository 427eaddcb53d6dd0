package jetlog_test

import (
	"context"
	"fmt"
	"iter"
	"testing"

	"github.com/google/uuid"

	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/events/eventstest"
	"github.com/toolfleet/toolfleet/events/jetlog"
)

var github = events.ServerChain("github")

// move returns an event that can be told from others by its number.
func move(c events.Chain, n int) events.Event {
	return events.Event{Chain: c, Body: events.MoveRequested{Worker: events.WorkerID(fmt.Sprintf("w%d", n))}}
}

func newID() events.EventID { return events.EventID(uuid.Must(uuid.NewV7()).String()) }

// limit returns a context that lasts as long as the kit waits.
func limit(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), eventstest.HangLimit)
	t.Cleanup(cancel)
	return ctx
}

// grow appends n events to a chain, the first after the tip.
func grow(ctx context.Context, t *testing.T, l *jetlog.Log, c events.Chain, tip events.Tip, n int) []events.Record {
	t.Helper()
	var all []events.Record
	for i := range n {
		r, err := l.Append(ctx, move(c, i+1), tip)
		if err != nil {
			t.Fatal(err)
		}
		all, tip = append(all, r), r.Tip()
	}
	return all
}

// read reads to the end of a sequence, which must not be an error.
func read[T any](t *testing.T, seq iter.Seq2[T, error]) []T {
	t.Helper()
	all, err := try(seq)
	if err != nil {
		t.Fatalf("after %d of them: %v", len(all), err)
	}
	return all
}

// try reads to the end of a sequence, or to its error.
func try[T any](seq iter.Seq2[T, error]) (all []T, err error) {
	for x, err := range seq {
		if err != nil {
			return all, err
		}
		all = append(all, x)
	}
	return all, nil
}

// tips returns the ends of all chains after the records.
func tips(records []events.Record) map[events.Chain]events.Tip {
	m := make(map[events.Chain]events.Tip)
	for _, r := range records {
		m[r.Chain] = r.Tip()
	}
	return m
}

// head returns the end of the history.
func head(ctx context.Context, t *testing.T, l *jetlog.Log) events.Head {
	t.Helper()
	h, err := l.Head(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return h
}
