package jetlog_test

import (
	"context"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/errors"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/events/eventstest"
	"github.com/toolfleet/toolfleet/events/jetlog"
)

// oneServer runs f in a bubble with a server and a log.
func oneServer(t *testing.T, f func(t *testing.T, s *eventstest.Server, l *jetlog.Log)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := eventstest.NewServer(t, nil)
		f(t, s, open(t, s.Connect("client"), nil))
	})
}

// follower follows in the background until the sequence ends.
type follower struct {
	came chan events.Record
	end  chan error
}

func follow(ctx context.Context, l *jetlog.Log, after events.Seq, o *jetlog.FollowOptions) *follower {
	f := &follower{came: make(chan events.Record, 1000), end: make(chan error, 1)}
	go func() {
		for r, err := range l.Follow(ctx, after, o) {
			if err != nil {
				f.end <- err
				return
			}
			f.came <- r
		}
		f.end <- nil
	}()
	return f
}

// fails waits for the end, which must be that error, soon.
func (f *follower) fails(t *testing.T, want error) {
	t.Helper()
	select {
	case err := <-f.end:
		if !errors.Is(err, want) {
			t.Errorf("the follower ended with %v, not %v", err, want)
		}
	case <-time.After(eventstest.HangLimit):
		t.Errorf("the follower goes on, with no error")
	}
}

func deleteEvents(t *testing.T, l *jetlog.Log) {
	t.Helper()
	js, err := jetstream.New(l.Conn())
	if err != nil {
		t.Fatal(err)
	}
	if err := js.DeleteStream(t.Context(), jetlog.StreamName(l.Fleet(), "events")); err != nil {
		t.Fatal(err)
	}
}

func TestADeletedStreamIsARegression(t *testing.T) {
	oneServer(t, func(t *testing.T, _ *eventstest.Server, l *jetlog.Log) {
		all := grow(t.Context(), t, l, github, events.Tip{}, 5)
		f := follow(t.Context(), l, 0, nil)
		for range all {
			<-f.came
		}
		deleteEvents(t, l)
		f.fails(t, events.ErrHistoryRegressed)

		ctx := limit(t)
		tip := all[4].Tip()
		if _, err := l.Append(ctx, move(github, 1), tip); !errors.Is(err, events.ErrHistoryRegressed) {
			t.Errorf("append: error %v, not ErrHistoryRegressed", err)
		}
		if _, err := l.Head(ctx); !errors.Is(err, events.ErrHistoryRegressed) {
			t.Errorf("head: error %v, not ErrHistoryRegressed", err)
		}
		if _, err := try(l.ReadChain(ctx, github, tip)); !errors.Is(err, events.ErrHistoryRegressed) {
			t.Errorf("read chain: error %v, not ErrHistoryRegressed", err)
		}
		if _, err := try(l.Follow(ctx, 5, nil)); !errors.Is(err, events.ErrHistoryRegressed) {
			t.Errorf("follow: error %v, not ErrHistoryRegressed", err)
		}
	})
}

func TestARecreatedStreamIsARegression(t *testing.T) {
	// The new history is shorter, as long, or longer than what was read.
	for name, n := range map[string]int{"empty": 0, "shorter": 3, "as long": 5, "longer": 9} {
		t.Run(name, func(t *testing.T) {
			oneServer(t, func(t *testing.T, s *eventstest.Server, l *jetlog.Log) {
				all := grow(t.Context(), t, l, github, events.Tip{}, 5)
				before := head(t.Context(), t, l)
				f := follow(t.Context(), l, 0, nil)
				for range all {
					<-f.came
				}
				time.Sleep(time.Second)
				deleteEvents(t, l)
				again := open(t, s.Connect("again"), nil)
				grow(t.Context(), t, again, github, events.Tip{}, n)
				f.fails(t, events.ErrHistoryRegressed)

				position := &jetlog.FollowOptions{Log: before.Log, Tips: tips(all)}
				follow(t.Context(), l, before.Seq, position).fails(t, events.ErrHistoryRegressed)
				after := head(t.Context(), t, l)
				if err := after.Check(events.Position{Log: before.Log, Seq: before.Seq}); !errors.Is(err, events.ErrHistoryRegressed) {
					t.Errorf("the head %+v passes for %+v", after, before)
				}
				if after.Log <= before.Log {
					t.Errorf("history %s follows %s", after.Log, before.Log)
				}
			})
		})
	}
}

func TestAnAppendToARecreatedStreamIsRefused(t *testing.T) {
	// With as many events in the new chain the sequence of the tip is there, but
	// it is that of another event.
	for name, n := range map[string]int{"empty": 0, "shorter": 3, "as long": 5} {
		t.Run(name, func(t *testing.T) {
			oneServer(t, func(t *testing.T, s *eventstest.Server, l *jetlog.Log) {
				tip := grow(t.Context(), t, l, github, events.Tip{}, 5)[4].Tip()
				deleteEvents(t, l)
				again := open(t, s.Connect("again"), nil)
				grow(t.Context(), t, again, github, events.Tip{}, n)
				synctest.Wait() // until the log has heard of the deletion
				r, err := l.Append(limit(t), move(github, 6), tip)
				if err == nil {
					_, broken := try(again.ReadChain(t.Context(), github, events.Tip{}))
					t.Errorf("it was stored at %d; reading the chain now ends with: %v", r.Seq, broken)
				}
			})
		})
	}
}

// rewind stops the server, puts a copy of its store back and starts it again.
func rewind(t *testing.T, s *eventstest.Server, backup string) {
	t.Helper()
	s.Stop()
	if err := os.RemoveAll(s.Dir()); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(s.Dir(), os.DirFS(backup)); err != nil {
		t.Fatal(err)
	}
	s.Start()
	time.Sleep(time.Second) // connections are made again
}

// copyStore copies the store of a server that runs.
func copyStore(t *testing.T, s *eventstest.Server) string {
	t.Helper()
	s.Stop()
	backup := t.TempDir()
	if err := os.CopyFS(backup, os.DirFS(s.Dir())); err != nil {
		t.Fatal(err)
	}
	s.Start()
	time.Sleep(time.Second) // connections are made again
	return backup
}

func TestAHistoryThatLostItsEndIsARegression(t *testing.T) {
	oneServer(t, func(t *testing.T, s *eventstest.Server, l *jetlog.Log) {
		first := grow(t.Context(), t, l, github, events.Tip{}, 5)
		backup := copyStore(t, s)
		second := grow(t.Context(), t, l, github, first[4].Tip(), 5)
		before := head(t.Context(), t, l)
		f := follow(t.Context(), l, 0, nil)
		for range 10 {
			<-f.came
		}
		rewind(t, s, backup)
		f.fails(t, events.ErrHistoryRegressed)

		tip := second[4].Tip()
		follow(t.Context(), l, before.Seq, nil).fails(t, events.ErrHistoryRegressed)
		if _, err := try(l.ReadChain(t.Context(), github, tip)); !errors.Is(err, events.ErrHistoryRegressed) {
			t.Errorf("read chain: error %v, not ErrHistoryRegressed", err)
		}
		if _, err := l.Append(limit(t), move(github, 11), tip); !errors.Is(err, events.ErrHistoryRegressed) {
			t.Errorf("append: error %v, not ErrHistoryRegressed", err)
		}
		if h := head(t.Context(), t, l); !errors.Is(h.Check(events.Position{Log: before.Log, Seq: before.Seq}), events.ErrHistoryRegressed) {
			t.Errorf("the head %+v passes for %+v", h, before)
		}
	})
}

// TestAHistoryThatLostItsEndAndGrewAgainIsNoticed has the sequences of lost
// events used for others before the reader looks: on the same chain, on one that
// it does not know, or on both.
func TestAHistoryThatLostItsEndAndGrewAgainIsNoticed(t *testing.T) {
	other, new1, new2 := events.ServerChain("other"), events.ServerChain("new1"), events.ServerChain("new2")
	for name, regrow := range map[string]func(t *testing.T, l *jetlog.Log, tip events.Tip){
		"the same chain": func(t *testing.T, l *jetlog.Log, tip events.Tip) {
			grow(t.Context(), t, l, github, tip, 8)
		},
		"new chains": func(t *testing.T, l *jetlog.Log, _ events.Tip) {
			grow(t.Context(), t, l, new1, events.Tip{}, 5)
			grow(t.Context(), t, l, new2, events.Tip{}, 3)
		},
		"new chains, then the same": func(t *testing.T, l *jetlog.Log, tip events.Tip) {
			grow(t.Context(), t, l, new1, events.Tip{}, 5)
			grow(t.Context(), t, l, github, tip, 3)
		},
	} {
		for _, restarted := range []bool{false, true} {
			kind := ", by a follower that goes on"
			if restarted {
				kind = ", by a follower that comes back"
			}
			t.Run(name+kind, func(t *testing.T) {
				oneServer(t, func(t *testing.T, s *eventstest.Server, l *jetlog.Log) {
					o := s.Outage()
					far := open(t, s.Connect("far", inProcess(o)), nil)
					first := grow(t.Context(), t, l, github, events.Tip{}, 5)
					backup := copyStore(t, s)
					all := append(first, grow(t.Context(), t, l, other, events.Tip{}, 5)...)
					before := head(t.Context(), t, l)
					f := follow(t.Context(), far, 0, nil)
					for range all {
						<-f.came
					}
					o.Cut()
					rewind(t, s, backup)
					regrow(t, open(t, s.Connect("again"), nil), first[4].Tip())
					o.Restore()
					if restarted {
						f = follow(t.Context(), far, before.Seq, &jetlog.FollowOptions{Log: before.Log, Tips: tips(all)})
					}
					select {
					case err := <-f.end:
						if !errors.Is(err, events.ErrHistoryRegressed) && !errors.Is(err, events.ErrHistoryIncomplete) {
							t.Errorf("the follower ended with %v", err)
						}
					case <-time.After(eventstest.HangLimit):
						t.Errorf("the follower goes on, as if the events after %d were still what it read; then came %d", first[4].Seq, len(f.came))
					}
				})
			})
		}
	}
}
