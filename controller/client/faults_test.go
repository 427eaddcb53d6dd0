package client_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/errors"
	"github.com/nats-io/nats.go"

	"github.com/toolfleet/toolfleet/controller/client"
	"github.com/toolfleet/toolfleet/controller/request"
	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/events/eventstest"
)

func TestNoController(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := eventstest.NewServer(t, nil)
		c := client.New(s.Connect("client"), fleet, nil)
		_, err := c.Stop(within(t, 3100*time.Millisecond), "s", nil)
		if !errors.Is(err, client.ErrNoController) || !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, events.ErrUncertain) {
			t.Errorf("error is %v", err)
		}
		// A request waits for one to come.
		answered := make(chan error, 1)
		go func() {
			_, err := c.Stop(within(t, time.Minute), "s", nil)
			answered <- err
		}()
		time.Sleep(5 * time.Second) // fake time
		control(t, s, "one")
		if err := <-answered; !errors.Is(err, request.ErrUnknownServer) {
			t.Errorf("error is %v", err)
		}
	})
}

// Silence is not an answer.
func TestSilentController(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := eventstest.NewServer(t, nil)
		nc := s.Connect("silent")
		attempts := make(chan string, 100)
		if _, err := nc.Subscribe(request.Subject(fleet, request.Stop), func(m *nats.Msg) { attempts <- string(m.Data) }); err != nil {
			t.Fatal(err)
		}
		if err := nc.Flush(); err != nil {
			t.Fatal(err)
		}
		c := client.New(s.Connect("client"), fleet, &client.Options{AttemptTimeout: time.Second})
		_, err := c.Stop(within(t, 4*time.Second), "s", nil)
		if !errors.Is(err, events.ErrUncertain) || errors.Is(err, client.ErrNoController) {
			t.Errorf("error is %v", err)
		}
		synctest.Wait()
		if len(attempts) < 3 {
			t.Fatalf("%d attempts", len(attempts))
		}
		for first := <-attempts; len(attempts) > 0; {
			if again := <-attempts; again != first {
				t.Errorf("another request: %s, then %s", first, again)
			}
		}
	})
}

// Whatever is lost on the way, a request is granted once.
func TestLostMessages(t *testing.T) {
	for name, lose := range map[string]func(o *eventstest.Outage) <-chan struct{}{
		"request": func(o *eventstest.Outage) <-chan struct{} { return o.LosePublish("tf.api.") },
		"answer":  func(o *eventstest.Outage) <-chan struct{} { return o.LoseAck("tf.api.") },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := eventstest.NewServer(t, nil)
				control(t, s, "one")
				control(t, s, "two")
				o := s.Outage()
				c := client.New(s.Connect("client", nats.InProcessServer(o), nats.ReconnectBufSize(-1)), fleet, nil)
				ctx := within(t, time.Minute)
				if _, err := c.Declare(ctx, "s", &events.Definition{Command: "x"}, nil); err != nil {
					t.Fatal(err)
				}
				for range 5 {
					lost := lose(o)
					a, err := c.Restart(ctx, "s", nil)
					if err != nil {
						t.Fatal(err)
					}
					<-lost
					if a.Repeated != (name == "answer") {
						t.Errorf("answer is %+v", a)
					}
				}
				l := open(t, s.Connect("test"), "test")
				if all := eventstest.Stored(t, l, 0); len(all) != 6 {
					t.Errorf("stored:\n%s", eventstest.Lines(all))
				}
			})
		})
	}
}

// Requests go on while controllers come and go.
func TestControllersComeAndGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := eventstest.NewServer(t, nil)
		c := client.New(s.Connect("client"), fleet, nil)
		ctx := within(t, 10*time.Minute)
		stop := control(t, s, "zero")
		if _, err := c.Declare(ctx, "s", &events.Definition{Command: "x"}, nil); err != nil {
			t.Fatal(err)
		}
		var last events.Seq
		for _, name := range []string{"one", "two", "three"} {
			stop()
			answers := make(chan request.Answer, 3)
			for range cap(answers) {
				go func() {
					a, err := c.Restart(ctx, "s", nil)
					if err != nil {
						t.Error(err)
					}
					answers <- a
				}()
			}
			time.Sleep(time.Second) // fake time
			stop = control(t, s, name)
			for range cap(answers) {
				a := <-answers
				if a.Repeated {
					t.Errorf("answer is %+v", a)
				}
				last = max(last, a.Seq)
			}
		}
		if last != 10 {
			t.Errorf("the last event is %d, want 10", last)
		}
	})
}
