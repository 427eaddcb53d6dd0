package eventstest_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/toolfleet/toolfleet/events/eventstest"
)

// stream creates a stream of one subject, x.
func stream(t *testing.T, nc *nats.Conn, replicas int) jetstream.JetStream {
	t.Helper()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	_, err = js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "x", Subjects: []string{"x"}, Replicas: replicas})
	if err != nil {
		t.Fatal(err)
	}
	return js
}

func last(t *testing.T, js jetstream.JetStream) uint64 {
	t.Helper()
	s, err := js.Stream(t.Context(), "x")
	if err != nil {
		t.Fatal(err)
	}
	return s.CachedInfo().State.LastSeq
}

func TestServerKeepsItsStoreAndConnectionsOverARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := eventstest.NewServer(t, nil)
		nc := s.Connect("client")
		js := stream(t, nc, 1)
		if _, err := js.Publish(t.Context(), "x", nil); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		s.Stop()
		time.Sleep(10 * time.Minute)
		s.Start()
		if err := nc.FlushTimeout(time.Minute); err != nil {
			t.Fatal(err)
		}
		if n := last(t, js); n != 1 {
			t.Errorf("the stream ends at %d, not 1", n)
		}
		if d := time.Since(began); d < 10*time.Minute || d > 11*time.Minute {
			t.Errorf("ten minutes took %s", d)
		}
	})
}

func TestOutage(t *testing.T) {
	for _, c := range []struct {
		name string
		test func(t *testing.T, o *eventstest.Outage, nc *nats.Conn, js jetstream.JetStream)
	}{
		{"cut", func(t *testing.T, o *eventstest.Outage, nc *nats.Conn, js jetstream.JetStream) {
			o.Cut()
			synctest.Wait()
			if nc.IsConnected() {
				t.Error("still connected")
			}
			time.Sleep(10 * time.Minute)
			if nc.IsConnected() {
				t.Error("connected again")
			}
			o.Restore()
			if _, err := js.Publish(t.Context(), "x", nil); err != nil {
				t.Error(err)
			}
		}},
		{"break", func(t *testing.T, o *eventstest.Outage, nc *nats.Conn, js jetstream.JetStream) {
			o.Break()
			synctest.Wait() // a publish before the client notices would be lost
			if _, err := js.Publish(t.Context(), "x", nil); err != nil {
				t.Error(err)
			}
			if n := nc.Stats().Reconnects; n != 1 {
				t.Errorf("%d reconnects", n)
			}
		}},
		{"freeze", func(t *testing.T, o *eventstest.Outage, nc *nats.Conn, js jetstream.JetStream) {
			o.Freeze()
			time.AfterFunc(3*time.Second, o.Restore)
			began := time.Now()
			if _, err := js.Publish(t.Context(), "x", nil); err != nil {
				t.Error(err)
			}
			if d := time.Since(began); d != 3*time.Second {
				t.Errorf("the answer came after %s", d)
			}
			if n := nc.Stats().Reconnects; n != 0 {
				t.Errorf("%d reconnects", n)
			}
		}},
		{"lost answer", func(t *testing.T, o *eventstest.Outage, nc *nats.Conn, js jetstream.JetStream) {
			lost := o.LoseAck("x")
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			if _, err := js.Publish(ctx, "x", nil, jetstream.WithRetryAttempts(0)); err == nil {
				t.Error("there was an answer")
			}
			<-lost
			if n := last(t, js); n != 1 {
				t.Errorf("the stream ends at %d, not 1", n)
			}
		}},
		{"lost publish", func(t *testing.T, o *eventstest.Outage, nc *nats.Conn, js jetstream.JetStream) {
			lost := o.LosePublish("x")
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			if _, err := js.Publish(ctx, "x", nil, jetstream.WithRetryAttempts(0)); err == nil {
				t.Error("there was an answer")
			}
			<-lost
			if n := last(t, js); n != 0 {
				t.Errorf("the stream ends at %d, not 0", n)
			}
		}},
		{"frozen to the end", func(t *testing.T, o *eventstest.Outage, nc *nats.Conn, js jetstream.JetStream) {
			o.Freeze()
			if err := nc.Publish("x", make([]byte, 1000)); err != nil {
				t.Error(err)
			}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := eventstest.NewServer(t, nil)
				o := s.Outage()
				nc := s.Connect("client", nats.InProcessServer(o))
				c.test(t, o, nc, stream(t, nc, 1))
			})
		})
	}
}

func TestOutageOverTCP(t *testing.T) {
	s := eventstest.NewServer(t, &eventstest.ServerOptions{Listen: true})
	o := eventstest.NewOutage(nil)
	nc, err := nats.Connect(s.URL(), nats.SetCustomDialer(o), nats.ReconnectWait(10*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	js := stream(t, nc, 1)
	lost := o.LoseAck("x")
	// nats.go does not end a request when its connection breaks.
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := js.Publish(ctx, "x", nil, jetstream.WithRetryAttempts(0)); err == nil {
		t.Error("there was an answer")
	}
	<-lost
	if n := last(t, js); n != 1 {
		t.Errorf("the stream ends at %d, not 1", n)
	}
}

func TestProcessIsKilledAndStartedAgain(t *testing.T) {
	p := eventstest.StartProcess(t, nil)
	js := stream(t, p.Connect("client"), 1)
	for range 3 {
		if _, err := js.Publish(t.Context(), "x", nil); err != nil {
			t.Fatal(err)
		}
	}
	before := p.URL()
	p.Kill()
	p.Start()
	if p.URL() != before {
		t.Errorf("it was at %s and is at %s", before, p.URL())
	}
	js, err := jetstream.New(p.Connect("another"))
	if err != nil {
		t.Fatal(err)
	}
	if n := last(t, js); n != 3 {
		t.Errorf("the stream ends at %d, not 3", n)
	}
}

func TestClusterReplacesALeader(t *testing.T) {
	for name, o := range map[string]*eventstest.ClusterOptions{"stopped": nil, "killed": {Processes: true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			began := time.Now()
			c := eventstest.NewCluster(t, o)
			t.Logf("started in %s", time.Since(began).Round(time.Millisecond))
			js := stream(t, c.Connect("client"), 3)
			if _, err := js.Publish(t.Context(), "x", nil); err != nil {
				t.Fatal(err)
			}
			first := c.Leader("x")
			began = time.Now()
			if o == nil {
				c.Stop(first)
			} else {
				c.Kill(first)
			}
			if second := c.Leader("x"); second == first {
				t.Errorf("node %d leads, and is gone", second)
			}
			t.Logf("the next leader was there after %s", time.Since(began).Round(time.Millisecond))
			if n := last(t, js); n != 1 {
				t.Errorf("the stream ends at %d, not 1", n)
			}
			c.Start(first)
			c.WaitCurrent("x")
			t.Logf("whole again after %s", time.Since(began).Round(time.Millisecond))
		})
	}
}
