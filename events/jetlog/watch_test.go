package jetlog_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/events/eventstest"
	"github.com/toolfleet/toolfleet/events/jetlog"
)

// end stores the mark of a key's end, as the server does when its clock says so.
func end(t *testing.T, s *eventstest.Server, key string) {
	t.Helper()
	js, err := jetstream.New(s.Connect("marker"))
	if err != nil {
		t.Fatal(err)
	}
	_, err = js.PublishMsg(t.Context(), &nats.Msg{Subject: "$KV." + presence + "." + key, Header: nats.Header{
		"Nats-Marker-Reason": {"MaxAge"}, "Nats-Rollup": {"sub"}, "Nats-TTL": {"1h"},
	}})
	if err != nil {
		t.Fatal(err)
	}
}

// sights is what a watch told.
type sights struct {
	all    chan string
	ended  chan error
	cancel context.CancelFunc
}

func watchWorkers(t *testing.T, l *jetlog.Log) *sights {
	ctx, cancel := context.WithCancel(t.Context())
	w := &sights{make(chan string, 1000), make(chan error, 1), cancel}
	go func() {
		w.ended <- l.WatchWorkers(ctx, func(id events.WorkerID, at events.Seq, there bool) {
			w.all <- fmt.Sprintf("%s %d %t", id, at, there)
		})
	}()
	t.Cleanup(cancel)
	synctest.Wait()
	return w
}

func (w *sights) expect(t *testing.T, want ...string) {
	t.Helper()
	synctest.Wait()
	var got []string
	for len(w.all) > 0 {
		got = append(got, <-w.all)
	}
	if !slices.Equal(got, want) {
		t.Errorf("seen %q, want %q", got, want)
	}
}

func TestWatchWorkersTellsEveryMessage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := eventstest.NewServer(t, nil)
		a, b, c := newHost(t, s, "a"), newHost(t, s, "b"), newHost(t, s, "c")
		a.acquire(t, "worker.a", nil)         // 1
		c.acquire(t, "leader", nil)           // 2
		run(t, b.acquire(t, "worker.b", nil)) // 3, and 4 after 4 s
		w := watchWorkers(t, c.log)
		w.expect(t, "a 1 true", "b 3 true")
		time.Sleep(5 * time.Second)
		w.expect(t, "b 4 true")
		end(t, s, "worker.a") // 5
		w.expect(t, "a 5 false")
		at, there, err := c.log.FindWorker(t.Context(), "a")
		if at != 5 || there || err != nil {
			t.Errorf("found %d, %t, %v", at, there, err)
		}
		at, there, err = c.log.FindWorker(t.Context(), "b")
		if at != 4 || !there || err != nil {
			t.Errorf("found %d, %t, %v", at, there, err)
		}
		at, there, err = c.log.FindWorker(t.Context(), "nobody")
		if at != 0 || there || err != nil {
			t.Errorf("found %d, %t, %v", at, there, err)
		}
		watchWorkers(t, c.log).expect(t, "b 4 true", "a 5 false")
		w.cancel()
		if err := <-w.ended; err != nil {
			t.Errorf("the watch ended with %v", err)
		}
		c.log.Conn().Close()
		if _, _, err := c.log.FindWorker(t.Context(), "a"); err == nil {
			t.Error("found without a connection")
		}
	})
}

// A message that is gone before it was told of ends the watch: it may have been
// a renewal.
func TestWatchWorkersMissesNothingInSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := eventstest.NewServer(t, nil)
		a, c := newHost(t, s, "a"), newHost(t, s, "c")
		x := a.acquire(t, "worker.a", &jetlog.LeaseOptions{Every: time.Second})
		w := watchWorkers(t, c.log)
		w.expect(t, "a 1 true")
		r := run(t, x)
		c.line.Freeze()
		time.Sleep(1500 * time.Millisecond) // 2 is on its way
		if err := r.stop(); err != nil {
			t.Fatal(err)
		}
		c.line.Restore()
		time.Sleep(time.Second)
		w.expect(t, "a 2 true")

		c.line.Cut() // nothing is on its way while it is cut
		run(t, x)
		time.Sleep(5 * time.Second)
		end(t, s, "worker.a")
		c.line.Restore()
		if err := <-w.ended; err == nil {
			t.Error("the watch went on")
		}
		w.expect(t)
	})
}

// A watch in which nothing happens is given up: whoever watches renews a key.
func TestWatchWorkersEndsInSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := eventstest.NewServer(t, nil)
		c := newHost(t, s, "c")
		w := watchWorkers(t, c.log)
		begun := time.Now()
		if err := <-w.ended; err == nil || time.Since(begun) > 70*time.Second {
			t.Errorf("ended after %s: %v", time.Since(begun), err)
		}
	})
}
