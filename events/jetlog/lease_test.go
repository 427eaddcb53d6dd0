package jetlog_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/errors"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/toolfleet/toolfleet/events/eventstest"
	"github.com/toolfleet/toolfleet/events/jetlog"
)

// presence is the bucket of leases.
const presence = "tf-" + string(eventstest.Fleet) + "-presence"

// bootTime is a boot-time clock of the bubble, which can jump as after a
// suspended host's sleep.
type bootTime struct {
	began time.Time
	mu    sync.Mutex
	slept time.Duration
}

func newBootTime() *bootTime { return &bootTime{began: time.Now()} }

func (b *bootTime) now() time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	return time.Since(b.began) + b.slept
}

func (b *bootTime) jump(d time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.slept += d
}

// host is a process that takes leases, with a line to the broker that can be cut.
type host struct {
	log   *jetlog.Log
	line  *eventstest.Outage
	clock *bootTime
	id    jetlog.Holder
}

func newHost(t *testing.T, s *eventstest.Server, folder string, o ...nats.Option) *host {
	t.Helper()
	h := &host{line: s.Outage(), clock: newBootTime(), id: jetlog.Holder{Folder: folder, Incarnation: "1"}}
	o = append([]nats.Option{nats.InProcessServer(h.line), nats.ReconnectBufSize(-1)}, o...)
	h.log = open(t, s.Connect(folder, o...), &jetlog.Options{Clock: h.clock.now})
	return h
}

func (h *host) acquire(t *testing.T, key string, o *jetlog.LeaseOptions) *jetlog.Lease {
	t.Helper()
	x, err := h.log.Acquire(t.Context(), key, h.id, o)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

// running is a lease's Run.
type running struct {
	cancel context.CancelFunc
	result chan error
}

func run(t *testing.T, x *jetlog.Lease) *running {
	ctx, cancel := context.WithCancel(t.Context())
	r := &running{cancel: cancel, result: make(chan error, 1)}
	go func() { r.result <- x.Run(ctx) }()
	t.Cleanup(cancel)
	return r
}

func (r *running) stop() error {
	r.cancel()
	return <-r.result
}

// wait returns what Run returned, which must come within an hour of the bubble.
func (r *running) wait(t *testing.T) error {
	t.Helper()
	select {
	case err := <-r.result:
		return err
	case <-time.After(time.Hour):
		t.Fatal("Run goes on")
		return nil
	}
}

func (r *running) ended() (error, bool) {
	select {
	case err := <-r.result:
		return err, true
	default:
		return nil, false
	}
}

// tryAcquire asks once: while the key is held the answer comes at once.
func tryAcquire(t *testing.T, h *host, key string) (*jetlog.Lease, error) {
	t.Helper()
	x, err := h.log.Acquire(t.Context(), key, h.id, nil)
	if err != nil && !errors.Is(err, jetlog.ErrHeld) {
		t.Fatal(err)
	}
	return x, err
}

// waitUntilFree returns the lease as soon as the host gets it.
func waitUntilFree(t *testing.T, h *host, key string) *jetlog.Lease {
	t.Helper()
	for range 100 {
		if x, err := tryAcquire(t, h, key); err == nil {
			return x
		}
		time.Sleep(250 * time.Millisecond)
	}
	t.Fatal("the key stays held")
	return nil
}

func TestLeaseIsHeldWhileItIsRenewed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := eventstest.NewServer(t, nil)
		a, b := newHost(t, s, "a"), newHost(t, s, "b")
		x := a.acquire(t, "worker.w", nil)
		if d := x.Remaining(); d != 17*time.Second {
			t.Errorf("%s remain at first", d)
		}
		r := run(t, x)
		for range 600 {
			time.Sleep(100 * time.Millisecond)
			if d := x.Remaining(); d < 13*time.Second || d > 17*time.Second {
				t.Fatalf("%s remain", d)
			}
		}
		_, err := tryAcquire(t, b, "worker.w")
		held := (*jetlog.HeldError)(nil)
		if !errors.As(err, &held) || held.Holder != a.id || held.Key != "worker.w" {
			t.Fatalf("b got %v", err)
		}
		if err := r.stop(); err != nil {
			t.Errorf("Run returned %v when its context ended", err)
		}
		// It is not released: b has to wait until the key is gone, and by then a's
		// lease is over.
		began := time.Now()
		waitUntilFree(t, b, "worker.w")
		if d := time.Since(began); d < 16*time.Second || d > 21*time.Second {
			t.Errorf("b waited %s", d)
		}
		if x.Remaining() > 0 {
			t.Errorf("%s remain of a's lease, but b has it", x.Remaining())
		}
	})
}

func TestLeaseOfTheSameFolderIsTakenOverAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := eventstest.NewServer(t, nil)
		old, successor := newHost(t, s, "a"), newHost(t, s, "a")
		successor.id.Incarnation = "2"
		r := run(t, old.acquire(t, "leader", nil))
		synctest.Wait()
		began := time.Now()
		x := successor.acquire(t, "leader", nil)
		if d := time.Since(began); d > 0 {
			t.Errorf("the take-over took %s", d)
		}
		if err := r.wait(t); !errors.Is(err, jetlog.ErrLeaseLost) {
			t.Errorf("the former incarnation's Run returned %v", err)
		}
		if d := time.Since(began); d > 4*time.Second {
			t.Errorf("it noticed after %s", d)
		}
		if x.Remaining() <= 0 {
			t.Error("the successor's lease is over")
		}
	})
}

func TestLeaseIsFreeAfterItsRelease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := eventstest.NewServer(t, nil)
		a, b := newHost(t, s, "a"), newHost(t, s, "b")
		x := a.acquire(t, "leader", nil)
		r := run(t, x)
		time.Sleep(time.Minute)
		if err := r.stop(); err != nil {
			t.Fatal(err)
		}
		if err := x.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		if x.Remaining() > 0 {
			t.Error("the lease goes on after its release")
		}
		y := b.acquire(t, "leader", nil)
		// What is b's is left alone, now and when a's marker is long gone.
		if err := x.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		rb := run(t, y)
		time.Sleep(3 * time.Hour)
		if err, ended := rb.ended(); ended || y.Remaining() <= 0 {
			t.Errorf("b lost what a had released: %v", err)
		}
	})
}

// A key of the presence bucket is one of an ordinary KV bucket, for all who
// only look.
func TestLeaseIsSeenInTheBucket(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := eventstest.NewServer(t, nil)
		a := newHost(t, s, "a")
		js, err := jetstream.New(a.log.Conn())
		if err != nil {
			t.Fatal(err)
		}
		kv, err := js.KeyValue(t.Context(), presence)
		if err != nil {
			t.Fatal(err)
		}
		w, err := kv.WatchAll(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = w.Stop() }() // the connection ends as well
		next := func() jetstream.KeyValueEntry {
			for {
				if e := <-w.Updates(); e != nil {
					return e
				}
			}
		}
		x := a.acquire(t, "worker.w", nil)
		if e := next(); e.Key() != "worker.w" || string(e.Value()) != `{"folder":"a","incarnation":"1","attempt":1}` {
			t.Errorf("%s is %s", e.Key(), e.Value())
		}
		if err := x.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		if e := next(); e.Key() != "worker.w" || e.Operation() != jetstream.KeyValuePurge {
			t.Errorf("%s: %s after the release", e.Key(), e.Operation())
		}
		a.acquire(t, "leader", nil) // and let it expire
		if e := next(); e.Key() != "leader" || e.Operation() != jetstream.KeyValuePut {
			t.Errorf("%s: %s", e.Key(), e.Operation())
		}
		began := time.Now()
		if e := next(); e.Key() != "leader" || e.Operation() != jetstream.KeyValuePurge {
			t.Errorf("%s: %s", e.Key(), e.Operation())
		}
		if d := time.Since(began); d < 20*time.Second || d > 22*time.Second {
			t.Errorf("the key lived for %s", d)
		}
	})
}

// The clock of leases counts the time that a host sleeps.
func TestLeaseEndsWhileTheHostSleeps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := eventstest.NewServer(t, nil)
		a := newHost(t, s, "a")
		x := a.acquire(t, "worker.w", nil)
		r := run(t, x)
		time.Sleep(time.Minute)
		a.clock.jump(30 * time.Second)
		if x.Remaining() > 0 {
			t.Errorf("%s remain after a sleep of 30 s", x.Remaining())
		}
		// The broker did not sleep, or not as long: the key is still a's, and so
		// is the lease, once two renewals have shown it.
		time.Sleep(6 * time.Second)
		if err, ended := r.ended(); ended || x.Remaining() <= 0 {
			t.Errorf("the lease did not come back: %v", err)
		}
	})
}

func TestLeaseOptionsAreChecked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := eventstest.NewServer(t, nil)
		a := newHost(t, s, "a")
		for _, o := range []*jetlog.LeaseOptions{
			{TTL: 1500 * time.Millisecond, Hold: 100 * time.Millisecond},
			{TTL: 20 * time.Second, Hold: 20 * time.Second},
			{TTL: 10 * time.Second},
			{Hold: -1},
		} {
			if _, err := a.log.Acquire(t.Context(), "leader", a.id, o); err == nil {
				t.Errorf("%+v was accepted", *o)
			}
		}
		for _, key := range []string{"", "*", "worker.>", "a.b.c", "worker."} {
			if _, err := a.log.Acquire(t.Context(), key, a.id, nil); err == nil {
				t.Errorf("key %q was accepted", key)
			}
		}
		if _, err := a.log.Acquire(t.Context(), "leader", jetlog.Holder{Incarnation: "1"}, nil); err == nil {
			t.Error("a holder without a folder was accepted")
		}
	})
}
