package jetlog_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/errors"

	"github.com/toolfleet/toolfleet/events/eventstest"
	"github.com/toolfleet/toolfleet/events/jetlog"
)

// sit runs a seat until it is left.
func (h *host) sit(t *testing.T, key string) (s *jetlog.Seat, leave func() error) {
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	s = h.log.NewSeat(key, nil)
	go func() { ended <- s.Run(ctx, h.id) }()
	t.Cleanup(cancel)
	return s, func() error {
		cancel()
		return <-ended
	}
}

func TestSeatIsTakenWheneverItIsFree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := eventstest.NewServer(t, nil)
		a, b := newHost(t, s, "a"), newHost(t, s, "b")
		one, leave := a.sit(t, "leader")
		synctest.Wait()
		two, _ := b.sit(t, "leader")
		time.Sleep(time.Minute)
		if !one.Held() || two.Held() {
			t.Fatalf("held by a: %t, by b: %t", one.Held(), two.Held())
		}
		if err := leave(); err != nil {
			t.Errorf("Run: %v", err)
		}
		time.Sleep(time.Second)
		if one.Held() || !two.Held() {
			t.Errorf("after a left: held by a: %t, by b: %t", one.Held(), two.Held())
		}
		// One that dies is followed when its key is gone.
		three, _ := a.sit(t, "leader")
		time.Sleep(time.Minute)
		b.line.Cut()
		died := time.Now()
		for !three.Held() {
			if two.Held() && time.Since(died) >= 17*time.Second {
				t.Fatal("b holds it for longer than it can be certain")
			}
			time.Sleep(100 * time.Millisecond)
		}
		if d := time.Since(died); d < 16*time.Second || d > 22*time.Second {
			t.Errorf("a has it again after %s", d)
		}
		// And it comes back.
		b.line.Restore()
		time.Sleep(10 * time.Second)
		if two.Held() || !three.Held() {
			t.Errorf("held by a: %t, by b: %t", three.Held(), two.Held())
		}
	})
}

func TestSeatIsSteadyWhileItIsRenewed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := eventstest.NewServer(t, nil)
		a := newHost(t, s, "a")
		x := a.log.NewSeat("controller.a", nil)
		if _, ok := x.Steady(); ok {
			t.Error("steady before it was taken")
		}
		x, _ = a.sit(t, "controller.a")
		synctest.Wait()
		first, ok := x.Steady()
		if !ok || first != a.clock.now() {
			t.Errorf("at first: since %s, %t", first, ok)
		}
		expect := func(what string, wantOK bool, want time.Duration) {
			t.Helper()
			if since, ok := x.Steady(); ok != wantOK || ok && (since < want || since > want+5*time.Second) {
				t.Errorf("%s: steady since %s, %t; want %s, %t", what, since, ok, want, wantOK)
			}
		}
		time.Sleep(10 * time.Minute)
		expect("after ten minutes", true, first)
		a.line.Cut()
		time.Sleep(4 * time.Second)
		a.line.Restore()
		time.Sleep(5 * time.Second)
		expect("after a hiccup", true, first)
		a.line.Cut()
		time.Sleep(11 * time.Second)
		expect("while it is cut off", false, 0)
		if !x.Held() {
			t.Error("the lease is over too soon")
		}
		a.line.Restore()
		back := a.clock.now()
		time.Sleep(5 * time.Second)
		expect("after it was cut off", true, back)
		a.clock.jump(30 * time.Second)
		expect("after a stop", false, 0)
		back = a.clock.now()
		time.Sleep(6 * time.Second) // it takes a second renewal to know
		expect("a while after a stop", true, back)
		// A key that is gone ends a presence, however short it was gone.
		end(t, s, "controller.a")
		back = a.clock.now()
		time.Sleep(10 * time.Second)
		expect("after the key was gone", true, back)
	})
}

// What keeps a lease from being taken at all is an error.
func TestSeatReportsFaults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := eventstest.NewServer(t, nil)
		a := newHost(t, s, "a")
		if err := a.log.NewSeat("no good", nil).Run(t.Context(), a.id); err == nil {
			t.Error("a bad key was accepted")
		}
		a.log.Conn().Close()
		if err := a.log.NewSeat("leader", nil).Run(t.Context(), a.id); err == nil || errors.Is(err, jetlog.ErrHeld) {
			t.Errorf("without a connection: %v", err)
		}
	})
}

// A key of one's own that somebody else keeps renewing is an error; one that
// a dead process left is waited for.
func TestSeatOfOnesOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := eventstest.NewServer(t, nil)
		a, b := newHost(t, s, "a"), newHost(t, s, "b")
		_, leave := a.sit(t, "controller.a")
		synctest.Wait()
		begun := time.Now()
		err := b.log.NewSeat("controller.a", &jetlog.SeatOptions{Own: true}).Run(t.Context(), b.id)
		if d := time.Since(begun); !errors.Is(err, jetlog.ErrHeld) || d < jetlog.LeaseTTL || d > 2*jetlog.LeaseTTL {
			t.Errorf("after %s: %v", d, err)
		}
		a.line.Cut()
		if err := leave(); err != nil {
			t.Error(err)
		}
		x := b.log.NewSeat("controller.a", &jetlog.SeatOptions{Own: true})
		ctx, cancel := context.WithTimeout(t.Context(), 2*jetlog.LeaseTTL)
		defer cancel()
		go func() {
			time.Sleep(jetlog.LeaseTTL + 2*time.Second)
			if !x.Held() {
				t.Error("not taken when it was free")
			}
		}()
		if err := x.Run(ctx, b.id); err != nil {
			t.Error(err)
		}
	})
}
