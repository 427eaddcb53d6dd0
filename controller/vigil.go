package controller

import (
	"iter"
	"slices"
	"time"

	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/projections"
)

// vigil tells which workers are lost. It is told what is seen of their keys,
// when, and what the keys' leader answers; all times are of the clock of leases.
//
// An incarnation is lost when
//
//   - the last renewal of its key was seen a TTL ago, or longer. What might have
//     been missed counts as a renewal;
//   - a read that was begun after that found no key, and nothing that was not
//     seen;
//   - this controller's own renewals were acknowledged throughout that TTL.
//
// The broker ends keys by its own clock, which can be set; the first and the
// third condition do not trust it. The third also keeps a controller that was
// stopped or cut off from blaming others.
//
// A worker whose key was gone while it had joined is lost for good: it takes the
// key again under another incarnation only.
type vigil struct {
	ttl time.Duration
	// begun is when the present watch began.
	begun time.Duration
	keys  map[events.WorkerID]watched
}

// watched is what is known of a worker's key.
type watched struct {
	incarnation events.Incarnation
	// at is the last message that was seen, 0 if none was; there says that it is a
	// renewal.
	at    events.Seq
	there bool
	// seen is when the last renewal was seen, or may have been missed.
	seen time.Duration
	lost bool
}

// steady is what a controller knows of its own renewals: since when they have
// been acknowledged throughout; not ok when they are not.
type steady struct {
	since time.Duration
	ok    bool
}

func newVigil(ttl time.Duration) vigil {
	return vigil{ttl: ttl, keys: make(map[events.WorkerID]watched)}
}

// begin says that a watch of the keys begins. What happened since the one before
// it was not seen, and it tells anew what is there.
func (v *vigil) begin(now time.Duration) {
	v.begun = now
	for w, k := range v.keys {
		k.seen, k.at, k.there = now, 0, false
		v.keys[w] = k
	}
}

// expect says which workers have joined, and not left or been lost since. A new
// incarnation has just been seen.
func (v *vigil) expect(workers iter.Seq[*projections.Worker], now time.Duration) {
	expected := make(map[events.WorkerID]bool)
	for w := range workers {
		if !w.Present() {
			continue
		}
		expected[w.ID] = true
		if k := v.key(w.ID); k.incarnation != w.Incarnation {
			k.incarnation, k.seen, k.lost = w.Incarnation, now, false
			v.keys[w.ID] = k
		}
	}
	for w, k := range v.keys {
		switch {
		case expected[w]:
		case k.there: // it is about to join
			k.incarnation, k.lost = "", false
			v.keys[w] = k
		default:
			delete(v.keys, w)
		}
	}
}

// saw says that a message of a worker's key was seen: a renewal (there), or the
// key's end.
func (v *vigil) saw(w events.WorkerID, at events.Seq, there bool, now time.Duration) {
	k := v.key(w)
	if at <= k.at {
		return
	}
	k.at, k.there = at, there
	if there {
		k.seen = now
	}
	v.keys[w] = k
}

// suspects returns the workers whose keys have to be read, out of those that are
// expected.
func (v *vigil) suspects(own steady, now time.Duration) (all []events.WorkerID) {
	for w, k := range v.keys {
		if k.incarnation != "" && !k.lost && v.due(&k, own, now) {
			all = append(all, w)
		}
	}
	slices.Sort(all)
	return all
}

// found says what a read of a key that was begun then has answered.
func (v *vigil) found(w events.WorkerID, at events.Seq, there bool, begun time.Duration, own steady, now time.Duration) {
	k := v.key(w)
	switch {
	case there:
		v.saw(w, at, true, now)
		return
	case at == k.at || at == 0 && !k.there:
		// Nothing was stored that was not seen; the message of a key's end is itself
		// removed after a while.
		k.lost = v.due(&k, own, begun)
	case !k.there:
		k.at, k.seen = at, now
	default:
		return // the watch has yet to tell of it
	}
	v.keys[w] = k
}

// due says whether both the worker's silence and this controller's own presence
// have lasted for a TTL.
func (v *vigil) due(k *watched, own steady, now time.Duration) bool {
	return own.ok && now-max(k.seen, own.since) >= v.ttl
}

// lost returns the incarnations that are lost.
func (v *vigil) lost() Lost {
	all := make(Lost)
	for w, k := range v.keys {
		if k.lost {
			all[w] = k.incarnation
		}
	}
	return all
}

func (v *vigil) key(w events.WorkerID) watched {
	if k, ok := v.keys[w]; ok {
		return k
	}
	return watched{seen: v.begun}
}
