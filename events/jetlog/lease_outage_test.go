package jetlog_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/errors"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/toolfleet/toolfleet/events/eventstest"
	"github.com/toolfleet/toolfleet/events/jetlog"
)

func TestLeaseSurvivesALostAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := eventstest.NewServer(t, nil)
		a := newHost(t, s, "a")
		ends := make(chan time.Duration, 100)
		x := a.acquire(t, "worker.w", &jetlog.LeaseOptions{Renewed: func(end time.Duration) { ends <- end }})
		acquired := <-ends - 17*time.Second
		run(t, x)
		lost := a.line.LoseAck("$KV." + presence + ".")
		<-lost
		if d := a.clock.now() - acquired; d != 4*time.Second {
			t.Fatalf("the first renewal was %s after the acquisition", d)
		}
		sent := a.clock.now()
		time.Sleep(3 * time.Second)
		// The answer never came. The lease counts from when that renewal was sent
		// all the same, and not from when it was found.
		if end := <-ends; end != sent+17*time.Second {
			t.Errorf("the lease ends %s after the renewal was sent", end-sent)
		}
		if end := <-ends; end != sent+21*time.Second {
			t.Errorf("the next renewal puts the end off to %s", end-sent)
		}
	})
}

func TestLeaseComesBackWhileTheKeyIsItsOwn(t *testing.T) {
	for _, c := range []struct {
		outage, back time.Duration
		lost         bool
	}{
		{outage: 16 * time.Second, back: 0},
		{outage: 18 * time.Second, back: time.Second},
		// So late that the server may have begun to end the key: it takes a second
		// renewal to know.
		{outage: 19500 * time.Millisecond, back: 2 * time.Second},
		{outage: 25 * time.Second, lost: true},
		{outage: 10 * time.Minute, lost: true},
	} {
		t.Run(fmt.Sprint(c.outage), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := eventstest.NewServer(t, nil)
				a := newHost(t, s, "a")
				x := a.acquire(t, "worker.w", nil)
				r := run(t, x)
				time.Sleep(8*time.Second + time.Millisecond) // just renewed
				a.line.Cut()
				time.Sleep(c.outage)
				over := x.Remaining() <= 0
				if over != (c.outage > 17*time.Second) {
					t.Errorf("%s remain after an outage of %s", x.Remaining(), c.outage)
				}
				a.line.Restore()
				if c.lost {
					if err := r.wait(t); !errors.Is(err, jetlog.ErrLeaseLost) {
						t.Errorf("Run returned %v", err)
					}
					if x.Remaining() > 0 {
						t.Error("a lost lease goes on")
					}
					return
				}
				time.Sleep(c.back + 500*time.Millisecond)
				if err, ended := r.ended(); ended || x.Remaining() <= 0 {
					t.Errorf("the lease is not back after %s: %v", c.back, err)
				}
			})
		})
	}
}

// The server decides to end a key and stores the marker of it in two steps. A
// renewal that comes between is acknowledged, and then wiped by the marker.
func TestLeaseDoesNotCountARenewalThatAMarkerMayFollow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := eventstest.NewServer(t, nil)
		a := newHost(t, s, "a")
		x := a.acquire(t, "worker.w", nil)
		r := run(t, x)
		time.Sleep(8*time.Second + time.Millisecond)
		a.line.Cut()
		time.Sleep(19500 * time.Millisecond)

		nc := s.Connect("marker")
		js, err := jetstream.New(nc)
		if err != nil {
			t.Fatal(err)
		}
		const subject = "$KV." + presence + ".worker.w"
		stored := make(chan struct{}, 10)
		if _, err := nc.Subscribe(subject, func(*nats.Msg) { stored <- struct{}{} }); err != nil {
			t.Fatal(err)
		}
		if err := nc.Flush(); err != nil {
			t.Fatal(err)
		}
		a.line.Restore()
		<-stored
		_, err = js.PublishMsg(t.Context(), &nats.Msg{Subject: subject, Header: nats.Header{
			"Nats-Marker-Reason": {"MaxAge"}, "Nats-Rollup": {"sub"}, "Nats-TTL": {"1h"},
		}})
		if err != nil {
			t.Fatal(err)
		}
		for range 100 {
			if x.Remaining() > 0 {
				t.Fatal("the lease counts, but the key is gone")
			}
			time.Sleep(20 * time.Millisecond)
		}
		if err, ended := r.ended(); !ended || !errors.Is(err, jetlog.ErrLeaseLost) {
			t.Errorf("Run returned %v (%v)", err, ended)
		}
	})
}

func TestLeaseWaitsForTheBroker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := eventstest.NewServer(t, nil)
		a := newHost(t, s, "a")
		s.Stop()
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		if _, err := a.log.Acquire(ctx, "leader", a.id, nil); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("without a broker: %v", err)
		}
		time.AfterFunc(10*time.Minute, s.Start)
		if x := a.acquire(t, "leader", nil); x.Remaining() <= 0 {
			t.Error("acquired, but over")
		}
	})
}
