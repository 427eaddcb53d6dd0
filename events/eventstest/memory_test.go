package eventstest_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/errors"

	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/events/eventstest"
	"github.com/toolfleet/toolfleet/events/jetlog"
)

var github = events.ServerChain("github")

func enabled() events.Event { return events.Event{Chain: github, Body: events.Enabled{}} }

// inMemory runs f in a bubble with a history of one event.
func inMemory(t *testing.T, f func(t *testing.T, m *eventstest.Memory, l *eventstest.MemoryLog, first events.Record)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		m := eventstest.NewMemory(eventstest.Fleet)
		l := m.Open("writer")
		first, err := l.Append(t.Context(), enabled(), events.Tip{})
		if err != nil {
			t.Fatal(err)
		}
		f(t, m, l, first)
	})
}

func TestMemoryIsFull(t *testing.T) {
	inMemory(t, func(t *testing.T, m *eventstest.Memory, l *eventstest.MemoryLog, first events.Record) {
		m.SetFull(true)
		if _, err := l.Append(t.Context(), enabled(), first.Tip()); !errors.Is(err, events.ErrHistoryFull) {
			t.Errorf("error %v, not ErrHistoryFull", err)
		}
		again := first.Event
		if r, err := l.Append(t.Context(), again, events.Tip{}); err != nil || r.Seq != first.Seq {
			t.Errorf("what is stored is answered with %d, error %v", r.Seq, err)
		}
		m.SetFull(false)
		if _, err := l.Append(t.Context(), enabled(), first.Tip()); err != nil {
			t.Error(err)
		}
	})
}

func TestMemoryHasAnOutage(t *testing.T) {
	for name, c := range map[string]struct {
		mode   eventstest.OutageMode
		stored events.Seq
	}{
		"unreachable": {eventstest.Unreachable, 1}, "answers lost": {eventstest.AnswersLost, 2},
	} {
		t.Run(name, func(t *testing.T) {
			inMemory(t, func(t *testing.T, m *eventstest.Memory, l *eventstest.MemoryLog, first events.Record) {
				m.SetOutage(c.mode)
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				e := enabled()
				e.ID = "01890000-0000-7000-8000-000000000001"
				if _, err := l.Append(ctx, e, first.Tip()); !errors.Is(err, events.ErrUncertain) {
					t.Errorf("error %v, not ErrUncertain", err)
				}
				if _, err := l.Head(ctx); err == nil {
					t.Error("the head is known")
				}
				m.SetOutage(eventstest.NoOutage)
				if h, err := l.Head(t.Context()); err != nil || h.Seq != c.stored {
					t.Errorf("the head is %d, not %d; error %v", h.Seq, c.stored, err)
				}

				m.SetOutage(c.mode)
				began := time.Now()
				time.AfterFunc(10*time.Minute, func() { m.SetOutage(eventstest.NoOutage) })
				if r, err := l.Append(t.Context(), e, first.Tip()); err != nil || r.Seq != 2 {
					t.Errorf("stored at %d, not 2; error %v", r.Seq, err)
				}
				if d := time.Since(began); d != 10*time.Minute {
					t.Errorf("ten minutes took %s", d)
				}
			})
		})
	}
}

func TestMemoryRegresses(t *testing.T) {
	for name, regress := range map[string]func(m *eventstest.Memory){
		"loses its end": func(m *eventstest.Memory) { m.Regress(1) },
		"is recreated":  (*eventstest.Memory).Recreate,
	} {
		t.Run(name, func(t *testing.T) {
			inMemory(t, func(t *testing.T, m *eventstest.Memory, l *eventstest.MemoryLog, first events.Record) {
				before, err := l.Append(t.Context(), enabled(), first.Tip())
				if err != nil {
					t.Fatal(err)
				}
				end := make(chan error, 1)
				go func() {
					for _, err := range l.Follow(t.Context(), before.Seq, nil) {
						end <- err
					}
				}()
				synctest.Wait()
				regress(m)
				if err := <-end; !errors.Is(err, events.ErrHistoryRegressed) {
					t.Errorf("the follower ended with %v", err)
				}
				if _, err := l.Append(t.Context(), enabled(), before.Tip()); !errors.Is(err, events.ErrHistoryRegressed) {
					t.Errorf("append: error %v, not ErrHistoryRegressed", err)
				}
			})
		})
	}
}

// failing is a test that is expected to fail.
type failing struct {
	testing.TB
	said string
}

type failed struct{}

func (f *failing) Fatalf(format string, args ...any) {
	f.said = errors.Newf(format, args...).Error()
	panic(failed{})
}

func TestExpectTellsWhatCameInstead(t *testing.T) {
	inMemory(t, func(t *testing.T, _ *eventstest.Memory, l *eventstest.MemoryLog, first events.Record) {
		f := &failing{TB: t}
		func() {
			defer func() {
				if r := recover(); r != any(failed{}) {
					t.Fatalf("no failure: %v", r)
				}
			}()
			eventstest.Expect(f, l, 0, eventstest.On(github, events.KindEnabled, events.KindWithdrawn)...)
		}()
		want := "wanted withdrawn on server.github after 0: it did not come in 1m0s; what came:\n" +
			"      1  server.github                  enabled\n"
		if f.said != want {
			t.Errorf("it said %q, not %q", f.said, want)
		}
		found := eventstest.Expect(t, l, 0, eventstest.Want{
			That: func(r *events.Record) bool { return r.Seq == first.Seq }, Say: "the first",
		})
		if len(found) != 1 || found[0].ID != first.ID {
			t.Errorf("found\n%s", eventstest.Lines(found))
		}
	})
}

// A memory is read while it is written, in the way a view does.
func TestMemoryFollowsWithTips(t *testing.T) {
	inMemory(t, func(t *testing.T, _ *eventstest.Memory, l *eventstest.MemoryLog, first events.Record) {
		go func() {
			if _, err := l.Append(t.Context(), enabled(), first.Tip()); err != nil {
				t.Error(err)
			}
		}()
		for r, err := range l.Follow(t.Context(), first.Seq, &jetlog.FollowOptions{
			Tips: map[events.Chain]events.Tip{github: first.Tip()}, Until: 2,
		}) {
			if err != nil || r.Seq != 2 {
				t.Errorf("event %d, error %v", r.Seq, err)
			}
		}
	})
}
