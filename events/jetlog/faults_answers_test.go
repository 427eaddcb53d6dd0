package jetlog_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/errors"
	"github.com/nats-io/nats.go"

	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/events/eventstest"
	"github.com/toolfleet/toolfleet/events/jetlog"
)

// far is a log behind a switch, and near one that is always reachable.
type far struct {
	*jetlog.Log
	outage *eventstest.Outage
	near   *jetlog.Log
	server *eventstest.Server
}

func inBubble(t *testing.T, f func(t *testing.T, far *far)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := eventstest.NewServer(t, nil)
		o := s.Outage()
		f(t, &far{
			Log:    open(t, s.Connect("far", nats.InProcessServer(o)), &jetlog.Options{Writer: "far"}),
			outage: o,
			near:   open(t, s.Connect("near"), &jetlog.Options{Writer: "near"}),
			server: s,
		})
	})
}

var eventSubjects = events.EventPrefix(eventstest.Fleet)

func TestLostAnswersAreFoundAgain(t *testing.T) {
	inBubble(t, func(t *testing.T, far *far) {
		var want []events.Record
		var tip events.Tip
		for i := range 20 {
			lost := far.outage.LoseAck(eventSubjects)
			if i%2 == 1 {
				lost = far.outage.LosePublish(eventSubjects)
			}
			r, err := far.Append(t.Context(), move(github, i), tip)
			if err != nil {
				t.Fatal(err)
			}
			<-lost
			want, tip = append(want, r), r.Tip()
		}
		if d := eventstest.Diff(want, read(t, far.near.Follow(t.Context(), 0, &jetlog.FollowOptions{Until: tip.Seq}))); d != "" {
			t.Errorf("the history (-appended +stored):\n%s", d)
		}
	})
}

func lostAnswersAreFoundAgain(t *testing.T, c *fleetOnACluster) {
	// An attempt waits seconds for its answer, so all are lost at the same time.
	const writers = 8
	ctx := limit(t)
	near := c.open(t, c.Connect("near"), nil)
	before := head(ctx, t, near).Seq
	var wg sync.WaitGroup
	for i := range writers {
		o := eventstest.NewOutage(nil)
		l := c.open(t, c.Connect("far", nats.SetCustomDialer(o)), nil)
		wg.Go(func() {
			chain := events.ServerChain(events.ServerID(fmt.Sprintf("s%d", i)))
			lost := o.LoseAck(events.EventPrefix(c.fleet))
			first, err := l.Append(ctx, move(chain, 1), events.Tip{})
			if err != nil {
				t.Error(err)
				return
			}
			<-lost
			if _, err := l.Append(ctx, move(chain, 2), first.Tip()); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	after := head(ctx, t, near).Seq
	if n := len(read(t, near.Follow(ctx, before, &jetlog.FollowOptions{Until: after}))); n != 2*writers {
		t.Errorf("%d events are stored, not %d", n, 2*writers)
	}
}

func TestALostAnswerWhoseContextEndsIsUncertain(t *testing.T) {
	inBubble(t, func(t *testing.T, far *far) {
		for name, lose := range map[string]func(string) <-chan struct{}{
			"answer": far.outage.LoseAck, "publish": far.outage.LosePublish,
		} {
			chain := events.ServerChain(events.ServerID(name))
			e := move(chain, 1)
			e.ID = newID()
			lost := lose(eventSubjects)
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			_, err := far.Append(ctx, e, events.Tip{})
			cancel()
			<-lost
			if !errors.Is(err, events.ErrUncertain) {
				t.Fatalf("lost %s: error %v, not ErrUncertain", name, err)
			}
			again, err := far.Append(t.Context(), e, events.Tip{})
			if err != nil {
				t.Fatalf("lost %s, again: %v", name, err)
			}
			if d := eventstest.Diff([]events.Record{again}, read(t, far.near.ReadChain(t.Context(), chain, events.Tip{}))); d != "" {
				t.Errorf("lost %s: the chain (-appended +stored):\n%s", name, d)
			}
		}
	})
}

func TestAConnectionThatIsClosedUnderAnAppendLeavesItUncertain(t *testing.T) {
	inBubble(t, func(t *testing.T, far *far) {
		lost := far.outage.LoseAck(eventSubjects)
		go func() {
			<-lost
			far.Conn().Close()
		}()
		_, err := far.Append(t.Context(), move(github, 1), events.Tip{})
		if !errors.Is(err, events.ErrUncertain) {
			t.Errorf("error %v, not ErrUncertain", err)
		}
		if n := len(read(t, far.near.ReadChain(t.Context(), github, events.Tip{}))); n != 1 {
			t.Errorf("%d events are stored, not 1", n)
		}
	})
}

func TestWhatOthersDoMeanwhileDoesNotHideALostAnswer(t *testing.T) {
	for name, meanwhile := range map[string]func(t *testing.T, far *far, ours events.Record){
		"another writer appends after it": func(t *testing.T, far *far, ours events.Record) {
			grow(t.Context(), t, far.near, github, ours.Tip(), 3)
		},
		"the stream becomes full": func(t *testing.T, far *far, _ events.Record) { fill(t, far.near) },
		"the duplicate window passes": func(t *testing.T, far *far, _ events.Record) {
			far.outage.Cut()
			time.Sleep(time.Hour)
			far.outage.Restore()
		},
		"the server is restarted": func(_ *testing.T, far *far, _ events.Record) {
			far.server.Stop()
			far.server.Start()
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, far *far) {
				lost := far.outage.LoseAck(eventSubjects)
				done := make(chan struct{})
				var r events.Record
				var err error
				go func() {
					defer close(done)
					r, err = far.Append(t.Context(), move(github, 1), events.Tip{})
				}()
				<-lost
				stored := read(t, far.near.ReadChain(t.Context(), github, events.Tip{}))
				meanwhile(t, far, stored[0])
				<-done
				if err != nil {
					t.Fatal(err)
				}
				if d := eventstest.Diff(stored, []events.Record{r}); d != "" {
					t.Errorf("the record (-stored +returned):\n%s", d)
				}
			})
		})
	}
}

func TestALostPublishWhosePlaceIsTakenConflicts(t *testing.T) {
	inBubble(t, func(t *testing.T, far *far) {
		lost := far.outage.LosePublish(eventSubjects)
		done := make(chan error)
		go func() {
			_, err := far.Append(t.Context(), move(github, 1), events.Tip{})
			done <- err
		}()
		<-lost
		theirs := grow(t.Context(), t, far.near, github, events.Tip{}, 1)
		var c *events.ConflictError
		if err := <-done; !errors.As(err, &c) {
			t.Fatalf("error %v is no conflict", err)
		}
		if d := eventstest.Diff(theirs, []events.Record{c.Found}); d != "" {
			t.Errorf("what is there (-stored +returned):\n%s", d)
		}
	})
}

func TestLostAnswersToCommandsAreFoundAgain(t *testing.T) {
	inBubble(t, func(t *testing.T, far *far) {
		a := events.Address{Worker: "w", Server: "s", Instance: "0"}
		var seen events.Seq
		for e := range events.Epoch(6) {
			prefix := events.CommandPrefix(eventstest.Fleet)
			lost := far.outage.LoseAck(prefix)
			if e%2 == 1 {
				lost = far.outage.LosePublish(prefix)
			}
			seq, err := far.PutCommand(t.Context(), a, &events.Command{Want: events.Stopped, Incarnation: "i", Epoch: e + 1}, seen)
			if err != nil {
				t.Fatal(err)
			}
			<-lost
			if seq != seen+1 {
				t.Errorf("command %d is stored at %d, after %d", e+1, seq, seen)
			}
			seen = seq
		}
		last, err := far.near.LastCommands(t.Context())
		if err != nil || len(last) != 1 || last[0].Seq != seen || last[0].Command.Epoch != 6 {
			t.Errorf("the last commands are %v, error %v", last, err)
		}
	})
}

func TestAnOutageOfTenMinutesDelaysButLosesNothing(t *testing.T) {
	for name, begin := range map[string]func(*eventstest.Outage){
		"cut": (*eventstest.Outage).Cut, "frozen": (*eventstest.Outage).Freeze,
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, far *far) {
				ctx, stop := context.WithCancel(t.Context())
				defer stop()
				var wg sync.WaitGroup
				var followed []events.Record
				wg.Go(func() {
					var err error
					if followed, err = try(far.Follow(ctx, 0, &jetlog.FollowOptions{Until: 33})); err != nil {
						t.Error(err)
					}
				})
				a := events.Address{Worker: "w", Server: "s", Instance: "0"}
				commands := make(chan events.CommandRecord, 10)
				wg.Go(func() {
					for r, err := range far.FollowCommands(ctx, "w") {
						if err != nil {
							t.Error(err)
						}
						if commands <- r; r.Seq == 2 {
							return
						}
					}
				})
				put := func(e events.Epoch, seen events.Seq) {
					if _, err := far.near.PutCommand(ctx, a, &events.Command{Want: events.Stopped, Incarnation: "i", Epoch: e}, seen); err != nil {
						t.Error(err)
					}
				}
				tip := grow(ctx, t, far.Log, github, events.Tip{}, 1)[0].Tip()
				put(1, 0)
				synctest.Wait()

				began := time.Now()
				begin(far.outage)
				time.AfterFunc(10*time.Minute, far.outage.Restore)
				wg.Go(func() {
					for i := range 2 {
						r, err := far.Append(ctx, move(github, i), tip)
						if err != nil {
							t.Error(err)
							return
						}
						tip = r.Tip()
					}
				})
				grow(ctx, t, far.near, events.ServerChain("other"), events.Tip{}, 30)
				put(2, 1)
				wg.Wait()

				if d := time.Since(began); d < 10*time.Minute || d > 11*time.Minute {
					t.Errorf("ten minutes took %s", d)
				}
				if d := eventstest.Diff(followed, read(t, far.near.Follow(ctx, 0, &jetlog.FollowOptions{Until: 33}))); d != "" {
					t.Errorf("the history (-followed +stored):\n%s", d)
				}
				if first, second := <-commands, <-commands; first.Seq != 1 || second.Seq != 2 {
					t.Errorf("commands %d and %d came, not 1 and 2", first.Seq, second.Seq)
				}
			})
		})
	}
}

// TestARequestThatIsLostIsMadeAgain loses what the log asks the broker besides
// publishing, under a context that lasts for long.
func TestARequestThatIsLostIsMadeAgain(t *testing.T) {
	const api = "$JS.API."
	for name, c := range map[string]struct {
		lost string
		ask  func(ctx context.Context, far *far, tip events.Tip) error
		// noAnswer says that what comes is no answer in the form of one.
		noAnswer bool
	}{
		"head": {lost: api + "STREAM.INFO.", ask: func(ctx context.Context, far *far, _ events.Tip) error {
			_, err := far.Head(ctx)
			return err
		}},
		"read chain": {lost: api + "STREAM.MSG.GET.", ask: func(ctx context.Context, far *far, _ events.Tip) error {
			_, err := try(far.ReadChain(ctx, github, events.Tip{}))
			return err
		}},
		"follow, its look at the head": {lost: api + "STREAM.INFO.", ask: func(ctx context.Context, far *far, tip events.Tip) error {
			_, err := try(far.Follow(ctx, 0, &jetlog.FollowOptions{Until: tip.Seq}))
			return err
		}},
		"follow, its consumer": {lost: api + "CONSUMER.CREATE.", ask: func(ctx context.Context, far *far, tip events.Tip) error {
			_, err := try(far.Follow(ctx, 0, &jetlog.FollowOptions{Until: tip.Seq}))
			return err
		}},
		"follow, its pull": {noAnswer: true, lost: api + "CONSUMER.MSG.NEXT.", ask: func(ctx context.Context, far *far, tip events.Tip) error {
			_, err := try(far.Follow(ctx, 0, &jetlog.FollowOptions{Until: tip.Seq}))
			return err
		}},
		"append, its look at a conflict": {lost: api + "STREAM.MSG.GET.", ask: func(ctx context.Context, far *far, _ events.Tip) error {
			_, err := far.Append(ctx, move(github, 9), events.Tip{})
			if errors.Is(err, events.ErrConflict) {
				return nil
			}
			return errors.Newf("error %v, not ErrConflict", err)
		}},
		"last commands": {lost: api + "STREAM.INFO.", ask: func(ctx context.Context, far *far, _ events.Tip) error {
			_, err := far.LastCommands(ctx)
			return err
		}},
		"purge": {lost: api + "STREAM.PURGE.", ask: func(ctx context.Context, far *far, _ events.Tip) error {
			return far.PurgeCommands(ctx, events.Address{Worker: "w", Server: "s", Instance: "0"}, 1)
		}},
		"put blob": {lost: "$O.", ask: func(ctx context.Context, far *far, _ events.Tip) error {
			_, err := far.PutBlob(ctx, []byte("data"))
			return err
		}},
		"get blob": {lost: api, ask: func(ctx context.Context, far *far, _ events.Tip) error {
			_, err := far.GetBlob(ctx, events.DigestOf([]byte("there")))
			return err
		}},
	} {
		for way, lose := range map[string]func(*eventstest.Outage, string) <-chan struct{}{
			"the answer": (*eventstest.Outage).LoseAck, "the request": (*eventstest.Outage).LosePublish,
		} {
			if way == "the answer" && c.noAnswer {
				continue
			}
			t.Run(name+", "+way, func(t *testing.T) {
				inBubble(t, func(t *testing.T, far *far) {
					tip := grow(t.Context(), t, far.near, github, events.Tip{}, 3)[2].Tip()
					if _, err := far.near.PutBlob(t.Context(), []byte("there")); err != nil {
						t.Fatal(err)
					}
					ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
					defer cancel()
					lost := lose(far.outage, c.lost)
					began := time.Now()
					if err := c.ask(ctx, far, tip); err != nil {
						t.Error(err)
					}
					if d := time.Since(began); d > time.Minute {
						t.Errorf("that took %s", d)
					}
					select {
					case <-lost:
					default:
						t.Error("nothing was lost")
					}
				})
			})
		}
	}
}
