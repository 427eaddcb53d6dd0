package eventstest

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestTheTimersAreThoseOfNATS fails when nats.go renames or changes its pool, of
// which the linker would make a variable of ours.
func TestTheTimersAreThoseOfNATS(t *testing.T) {
	nc := NewServer(t, nil).Connect("client")
	for range 100 { // a pool may lose what it is given
		if err := nc.Flush(); err != nil {
			t.Fatal(err)
		}
		if timer, ok := natsTimers.Get().(*time.Timer); ok && timer != nil {
			return
		}
	}
	t.Error("a flush leaves no timer in the pool")
}

func TestBubblesFollowEachOther(t *testing.T) {
	flush := func(t *testing.T) {
		t.Helper()
		if err := NewServer(t, nil).Connect("client").Flush(); err != nil {
			t.Error(err)
		}
	}
	for range 10 {
		synctest.Test(t, func(t *testing.T) { flush(t) })
		t.Run("outside", flush)
	}
}
