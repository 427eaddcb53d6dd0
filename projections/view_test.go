package projections

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/errors"

	"github.com/toolfleet/toolfleet/events"
)

func TestViewLoadsWhatWasSetTogether(t *testing.T) {
	var v View[events.Seq]
	if s, seq := v.Load(); s != 0 || seq != 0 {
		t.Errorf("the zero View holds %d at %d", s, seq)
	}
	const last = 2000
	var readers sync.WaitGroup
	for range 4 {
		changes := v.Changes()
		readers.Go(func() {
			defer v.Forget(changes)
			var before events.Seq
			for range changes {
				s, seq := v.Load()
				if s != seq || s < before {
					t.Errorf("loaded %d at %d after %d", s, seq, before)
				}
				if before = s; s == last {
					return
				}
			}
		})
	}
	for n := events.Seq(1); n <= last; n++ {
		v.Set(n, n)
	}
	readers.Wait()
}

func TestViewChangesCoalesce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var v View[string]
		fast, slow := v.Changes(), v.Changes()
		<-fast
		<-slow
		for n, s := range []string{"a", "b", "c"} {
			v.Set(s, events.Seq(n+1))
			<-fast
		}
		<-slow
		if s, seq := v.Load(); s != "c" || seq != 3 {
			t.Errorf("loaded %s at %d", s, seq)
		}
		select {
		case <-slow:
			t.Error("a burst gave two signals")
		default:
		}
		v.Forget(slow)
		v.Set("d", 4)
		select {
		case <-slow:
			t.Error("a signal came after Forget")
		default:
		}
		<-fast
	})
}

func TestViewWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var v View[int]
		done := make(chan events.Seq, 3)
		for _, seq := range []events.Seq{0, 2, 5} {
			go func() {
				if err := v.Wait(t.Context(), seq); err != nil {
					t.Error(err)
				}
				done <- seq
			}()
		}
		arrived := func() (n int) {
			synctest.Wait()
			return len(done)
		}
		if n := arrived(); n != 1 {
			t.Errorf("at 0, %d waits are over", n)
		}
		v.Set(0, 1)
		if n := arrived(); n != 1 {
			t.Errorf("at 1, %d waits are over", n)
		}
		v.Set(0, 4)
		if n := arrived(); n != 2 {
			t.Errorf("at 4, %d waits are over", n)
		}
		v.Set(0, 5)
		if n := arrived(); n != 3 {
			t.Errorf("at 5, %d waits are over", n)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := v.Wait(ctx, 6); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Wait: %v, want the context's error", err)
		}
	})
}
