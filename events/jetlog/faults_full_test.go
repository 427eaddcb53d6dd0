package jetlog_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/cockroachdb/errors"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/events/eventstest"
	"github.com/toolfleet/toolfleet/events/jetlog"
)

// smallHistory is a limit that a few events reach.
const smallHistory = 64 << 10

func TestAFullStreamSaysSoAndGoesOnWhenItsLimitIsRaised(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := eventstest.NewServer(t, nil)
		goesOnWhenRaised(t, open(t, s.Connect("client"), &jetlog.Options{MaxBytes: smallHistory}))
	})
}

func goesOnWhenRaised(t *testing.T, l *jetlog.Log) {
	t.Helper()
	ctx := limit(t)
	full, tip, stored := exhaust(ctx, t, l)
	if h := head(ctx, t, l); h.MaxBytes != smallHistory || h.Bytes > smallHistory || h.Seq != tip.Seq {
		t.Errorf("the head of the full history is %+v", h)
	}
	if n := len(read(t, l.ReadChain(ctx, full.Chain, events.Tip{}))); n != stored {
		t.Errorf("the full history has %d events, not %d", n, stored)
	}
	if _, err := l.Append(ctx, full, tip); !errors.Is(err, events.ErrHistoryFull) {
		t.Errorf("again: error %v, not ErrHistoryFull", err)
	}
	raise(ctx, t, l, 1<<20)
	r, err := l.Append(ctx, full, tip)
	if err != nil {
		t.Fatalf("with the limit raised: %v", err)
	}
	if grow(ctx, t, l, full.Chain, r.Tip(), 3); len(read(t, l.ReadChain(ctx, full.Chain, events.Tip{}))) != stored+4 {
		t.Error("events are missing")
	}
}

// exhaust appends until the history is full. It returns the event that was
// refused and the tip it was for.
func exhaust(ctx context.Context, t *testing.T, l *jetlog.Log) (refused events.Event, tip events.Tip, stored int) {
	t.Helper()
	padding := events.WorkerID(strings.Repeat("x", 1000))
	for stored < 1000 {
		e := events.Event{Chain: github, ID: newID(), Body: events.MoveRequested{Worker: padding}}
		r, err := l.Append(ctx, e, tip)
		if err == nil {
			tip = r.Tip()
			stored++
			continue
		}
		if !errors.Is(err, events.ErrHistoryFull) {
			t.Fatalf("append after %d: error %v, not ErrHistoryFull", stored, err)
		}
		for _, word := range []string{jetlog.StreamName(l.Fleet(), "events"), "max-bytes", "raise"} {
			if !strings.Contains(err.Error(), word) {
				t.Errorf("the error does not say %q: %v", word, err)
			}
		}
		return e, tip, stored
	}
	t.Fatalf("%d events are not too many for %d bytes", stored, smallHistory)
	return refused, tip, stored
}

// raise changes the limit of the event stream.
func raise(ctx context.Context, t *testing.T, l *jetlog.Log, bytes int64) {
	t.Helper()
	edit(ctx, t, l, func(c *jetstream.StreamConfig) { c.MaxBytes = bytes })
}

// edit changes the configuration of the event stream, as an operator does.
func edit(ctx context.Context, t *testing.T, l *jetlog.Log, change func(c *jetstream.StreamConfig)) {
	t.Helper()
	js, err := jetstream.New(l.Conn())
	if err != nil {
		t.Fatal(err)
	}
	s, err := js.Stream(ctx, jetlog.StreamName(l.Fleet(), "events"))
	if err != nil {
		t.Fatal(err)
	}
	c := s.CachedInfo().Config
	change(&c)
	if _, err := js.UpdateStream(ctx, c); err != nil {
		t.Fatal(err)
	}
}

// fill makes the event stream full as it is.
func fill(t *testing.T, l *jetlog.Log) {
	t.Helper()
	ctx := limit(t)
	raise(ctx, t, l, int64(head(ctx, t, l).Bytes)+100)
	if _, err := l.Append(ctx, move(events.ServerChain("last"), 1), events.Tip{}); !errors.Is(err, events.ErrHistoryFull) {
		t.Fatalf("error %v, not ErrHistoryFull", err)
	}
}

func TestAServerWithoutStorageSaysThatTheHistoryIsFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := eventstest.NewServer(t, &eventstest.ServerOptions{MaxStore: smallHistory})
		exhaust(limit(t), t, open(t, s.Connect("client"), &jetlog.Options{MaxBytes: -1}))
	})
}
