package controller

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/projections"
)

// at is a number of seconds on the clock of leases.
func at(seconds float64) time.Duration { return time.Duration(seconds * float64(time.Second)) }

// workersAs returns workers that have joined, each under an incarnation.
func workersAs(incarnations ...string) func(yield func(*projections.Worker) bool) {
	return func(yield func(*projections.Worker) bool) {
		for _, i := range incarnations {
			id, _, _ := strings.Cut(i, "-")
			w := &projections.Worker{ID: events.WorkerID(id), State: projections.WorkerJoined, Incarnation: events.Incarnation(i)}
			if !yield(w) {
				return
			}
		}
	}
}

// watching is a vigil over worker a, whose key was renewed for the last time as
// message 7, at 100 s; this controller has been steady since 50 s.
func watching() (*vigil, steady) {
	v := newVigil(20 * time.Second)
	v.begin(at(60))
	v.saw("a", 5, true, at(96))
	v.expect(workersAs("a-1"), at(97))
	v.saw("a", 7, true, at(100))
	return &v, steady{at(50), true}
}

// The three conditions of a lost worker, one by one.
func TestVigil(t *testing.T) {
	for name, c := range map[string]struct {
		// then is what happens after 100 s; it returns when the key is read, and
		// with what answer.
		then func(v *vigil, own *steady) (begun time.Duration, found events.Seq, there bool)
		// suspected says that the key is to be read then.
		suspected, lost bool
	}{
		"silent for a TTL, and gone": {func(v *vigil, _ *steady) (time.Duration, events.Seq, bool) {
			v.saw("a", 9, false, at(120.2))
			return at(121), 9, false
		}, true, true},
		"not silent for a TTL": {func(v *vigil, _ *steady) (time.Duration, events.Seq, bool) {
			v.saw("a", 9, false, at(101)) // the broker's clock was set
			return at(119), 9, false
		}, false, false},
		"the key is there still": {func(*vigil, *steady) (time.Duration, events.Seq, bool) {
			return at(121), 7, true
		}, true, false},
		"a renewal that was not seen": {func(*vigil, *steady) (time.Duration, events.Seq, bool) {
			return at(121), 8, true
		}, true, false},
		"an end that was not seen, with a renewal before it perhaps": {func(*vigil, *steady) (time.Duration, events.Seq, bool) {
			return at(121), 9, false
		}, true, false},
		"the mark of the end is gone, too": {func(v *vigil, _ *steady) (time.Duration, events.Seq, bool) {
			v.saw("a", 9, false, at(120.2))
			return at(4000), 0, false
		}, true, true},
		"own renewals only since": {func(v *vigil, own *steady) (time.Duration, events.Seq, bool) {
			v.saw("a", 9, false, at(120.2))
			own.since = at(101.5)
			return at(121), 9, false
		}, false, false},
		"own renewals since, for a TTL": {func(v *vigil, own *steady) (time.Duration, events.Seq, bool) {
			v.saw("a", 9, false, at(120.2))
			own.since = at(101.5)
			return at(121.5), 9, false
		}, true, true},
		"own renewals are not acknowledged": {func(v *vigil, own *steady) (time.Duration, events.Seq, bool) {
			v.saw("a", 9, false, at(120.2))
			own.ok = false
			return at(200), 9, false
		}, false, false},
		"the watch began again": {func(v *vigil, _ *steady) (time.Duration, events.Seq, bool) {
			v.saw("a", 9, false, at(120.2))
			v.begin(at(120.5))
			return at(121), 9, false
		}, false, false},
		"the watch began again, when the mark of the end was gone": {func(v *vigil, own *steady) (time.Duration, events.Seq, bool) {
			v.begin(at(5000))
			own.since = at(5000)
			return at(5020), 0, false
		}, true, true},
		"it joined again": {func(v *vigil, _ *steady) (time.Duration, events.Seq, bool) {
			v.saw("a", 9, false, at(120.2))
			v.expect(workersAs("a-2"), at(120.9)) // whose key is on its way
			return at(121), 9, false
		}, false, false},
		"it has left": {func(v *vigil, _ *steady) (time.Duration, events.Seq, bool) {
			v.saw("a", 9, false, at(120.2))
			v.expect(workersAs(), at(120.9))
			return at(141), 9, false
		}, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			v, own := watching()
			begun, found, there := c.then(v, &own)
			suspected := slices.Contains(v.suspects(own, begun), "a")
			if suspected != c.suspected {
				t.Errorf("suspected: %t", suspected)
			}
			// Also an answer that was not asked for.
			v.found("a", found, there, begun, own, begun+at(0.1))
			if lost := v.lost()["a"] == "a-1"; lost != c.lost {
				t.Errorf("lost: %t", lost)
			}
		})
	}
}

// One that was never seen is given a TTL, too.
func TestVigilOverAWorkerThatWasNeverSeen(t *testing.T) {
	v := newVigil(20 * time.Second)
	own := steady{0, true}
	v.begin(at(100))
	v.expect(workersAs("a-1"), at(103))
	if all := v.suspects(own, at(122)); len(all) > 0 {
		t.Errorf("suspected after 19 s: %v", all)
	}
	if all := v.suspects(own, at(123)); !slices.Equal(all, []events.WorkerID{"a"}) {
		t.Errorf("suspected after 20 s: %v", all)
	}
	v.found("a", 4, false, at(123), own, at(124)) // its end came before the watch
	if len(v.lost()) > 0 || len(v.suspects(own, at(143))) > 0 {
		t.Error("what may have been a renewal was not waited for")
	}
	v.found("a", 4, false, at(144), own, at(144))
	if !maps.Equal(v.lost(), Lost{"a": "a-1"}) {
		t.Errorf("lost: %v", v.lost())
	}
}

// What is lost is lost until it joins again, and nothing is kept of workers that
// are not expected.
func TestVigilAfterALoss(t *testing.T) {
	v, own := watching()
	v.saw("a", 9, false, at(120))
	v.found("a", 9, false, at(121), own, at(121))
	v.begin(at(122))
	v.saw("a", 11, true, at(123)) // it is about to join again
	v.expect(workersAs("a-1"), at(124))
	if !maps.Equal(v.lost(), Lost{"a": "a-1"}) || len(v.suspects(own, at(200))) > 0 {
		t.Errorf("lost: %v; suspected: %v", v.lost(), v.suspects(own, at(200)))
	}
	v.expect(workersAs("a-2"), at(125))
	if len(v.lost()) > 0 {
		t.Errorf("lost: %v", v.lost())
	}
	v.saw("a", 12, false, at(126))
	v.expect(workersAs(), at(127))
	if len(v.keys) > 0 {
		t.Errorf("kept: %v", v.keys)
	}
}

// Whatever the broker's clock does to a key, and however the watch breaks, an
// incarnation that may act is never lost: a worker may act for 17 s after the
// last renewal that it sent, and what it sent is seen, or missed by a watch that
// ends.
func TestVigilNeverLosesWhoMayAct(t *testing.T) {
	losses := 0
	rapid.Check(t, func(t *rapid.T) {
		v := newVigil(20 * time.Second)
		var now, sent, ownSent time.Duration
		var last, told events.Seq // of the key
		there, own := false, steady{}
		v.begin(now)
		for range rapid.IntRange(1, 300).Draw(t, "steps") {
			now += time.Duration(rapid.IntRange(100, 6000).Draw(t, "ms")) * time.Millisecond
			// This controller's own renewals.
			if rapid.IntRange(0, 9).Draw(t, "own") > 0 {
				if own.ok = now-ownSent <= 10*time.Second; !own.ok {
					own = steady{now, true}
				}
				ownSent = now
			}
			own.ok = own.ok && now-ownSent <= 10*time.Second
			switch rapid.SampledFrom([]string{"renew", "end", "tell", "break", "find", "silence"}).Draw(t, "what") {
			case "renew":
				if last > 0 && !there {
					break // a key that is gone is taken by another incarnation only
				}
				last, there, sent = last+1, true, now
			case "end": // whenever the broker's clock says so
				if there {
					last, there = last+1, false
				}
			case "tell":
				if last > told+1 || last > told && rapid.Bool().Draw(t, "missed") {
					v.begin(now)
				}
				v.saw("a", last, there, now)
				told = last
			case "break":
				v.begin(now)
			case "find":
				v.expect(workersAs("a-1"), now)
				for _, w := range v.suspects(own, now) {
					v.found(w, last, there, now, own, now+time.Millisecond)
				}
			}
			if lost := len(v.lost()) > 0; lost && last > 0 && now-sent < 17*time.Second {
				t.Fatalf("lost %s after it renewed", now-sent)
			} else if lost {
				losses++
				return
			}
		}
	})
	if losses == 0 {
		t.Error("none was lost ever, which proves nothing")
	}
}
