package keeper

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// sent returns what a ward has to send, and takes it.
func sent(w *ward) []message {
	out := w.out
	w.out = nil
	return out
}

func expect(t *testing.T, w *ward, want ...message) {
	t.Helper()
	if d := cmp.Diff(want, sent(w), cmp.AllowUnexported(message{})); d != "" {
		t.Errorf("sent (-want +got):\n%s", d)
	}
}

func expectRound(t *testing.T, got round, stop, term, kill []int) {
	t.Helper()
	if d := cmp.Diff(round{stop, term, kill}, got, cmp.AllowUnexported(round{})); d != "" {
		t.Errorf("round (-want +got):\n%s", d)
	}
}

// leased returns a ward under a lease until 100, at 0.
func leased() *ward {
	w := newWard()
	w.lease(1, 100, 0)
	w.out = nil
	return w
}

// grow starts a child of which nothing is to be sent.
func grow(w *ward, id uint64, pid int, mark string) {
	w.begin(id, 0, 0)
	w.spawned(id, pid, mark, 0)
	w.out = nil
}

func TestWardRefusesWithoutALease(t *testing.T) {
	w := newWard()
	if w.begin(1, 0, 0) || w.look(0) {
		t.Error("a child before the first lease")
	}
	expect(t, w, message{kind: hasRefused, id: 1, lapsed: true})
	w.lease(1, 100, 0)
	expect(t, w, message{kind: heardLease, id: 1})
	if !w.begin(2, 0, 99) {
		t.Error("no child under the lease")
	}
	w.refused(2, 13)
	expect(t, w, message{kind: hasRefused, id: 2, value: 13})
	if w.begin(3, 0, 100) {
		t.Error("a child after the lease")
	}
	if !w.begin(4, 200, 100) { // the request overtook the news
		t.Error("no child under the lease that the request tells")
	}
}

// An exit may be reaped before the spawn has returned; what is said of a child
// begins with its birth.
func TestWardTellsBirthBeforeExit(t *testing.T) {
	w := leased()
	w.begin(1, 0, 0)
	w.reaped(20, 7)
	w.reaped(99, 9) // an orphan
	w.spawned(1, 20, "f/a", 0)
	expect(t, w, message{kind: hasSpawned, id: 1, value: 20}, message{kind: hasExited, id: 1, value: 7})
	if len(w.early) != 0 || len(w.running) != 0 {
		t.Errorf("left: %v, %v", w.early, w.running)
	}
	w.begin(2, 0, 0)
	w.spawned(2, 99, "f/b", 0) // the number is used again
	expect(t, w, message{kind: hasSpawned, id: 2, value: 99})
}

func TestWardEndsAChild(t *testing.T) {
	w := leased()
	grow(w, 1, 20, "f/a")
	grow(w, 2, 30, "f/b")
	if w.look(0) {
		t.Error("there is something to do")
	}
	w.finish(1, 10, 0)
	w.finish(9, 10, 0) // there is none
	left := map[uint64][]int{1: {20, 21}, 2: {30}, 0: {40}}
	expectRound(t, w.sweep(left, w.tally, 9), nil, nil, nil)
	expectRound(t, w.sweep(left, w.tally, 10), nil, []int{20, 21}, nil)
	expectRound(t, w.sweep(left, w.tally, 11), nil, nil, nil)
	expectRound(t, w.sweep(left, w.tally, 20), []int{20, 21}, nil, nil)
	left[1] = append(left[1], 22) // forked before its parent was frozen
	expectRound(t, w.sweep(left, w.tally, 20), []int{22}, nil, nil)
	expectRound(t, w.sweep(left, w.tally, 20), nil, nil, []int{20, 21, 22})
	before := w.tally
	w.reaped(20, 9)
	w.sweep(map[uint64][]int{2: {30}}, before, 21) // 20 may have forked while the list was made
	expect(t, w, message{kind: hasExited, id: 1, value: 9})
	before = w.tally
	w.reaped(99, 0) // and so may what it left
	w.sweep(map[uint64][]int{2: {30}}, before, 22)
	expect(t, w)
	w.sweep(map[uint64][]int{2: {30}}, w.tally, 23)
	expect(t, w, message{kind: hasEnded, id: 1})
	if w.look(23) {
		t.Error("the other child is to be ended")
	}
}

// What forks faster than it is frozen is killed all the same.
func TestWardDoesNotFreezeForEver(t *testing.T) {
	w := leased()
	grow(w, 1, 20, "f/a")
	w.finish(1, 0, 0)
	for i := range maxFreeze {
		r := w.sweep(map[uint64][]int{1: {100 + i}}, w.tally, 0)
		if len(r.kill) > 0 != (i == maxFreeze-1) {
			t.Fatalf("round %d kills %v", i, r.kill)
		}
	}
}

func TestWardCondemnsAllWithTheLease(t *testing.T) {
	w := leased()
	grow(w, 1, 20, "f/a")
	w.begin(2, 0, 0) // still under way when the lease ends
	if w.look(99) || !w.look(100) {
		t.Error("the lease ends at 100")
	}
	w.spawned(2, 30, "f/b", 100)
	w.out = nil
	left := map[uint64][]int{1: {20}, 2: {30}, 0: {40}}
	expectRound(t, w.sweep(left, w.tally, 100), []int{20, 30, 40}, nil, nil)
	expectRound(t, w.sweep(left, w.tally, 100), nil, nil, []int{20, 30, 40})
	w.reaped(20, 9)
	w.reaped(30, 9)
	expect(t, w, message{kind: hasExited, id: 1, value: 9, lapsed: true}, message{kind: hasExited, id: 2, value: 9, lapsed: true})
	w.lease(2, 200, 110)
	if !w.begin(3, 0, 110) {
		t.Error("the lease is back")
	}
	w.spawned(3, 50, "f/c", 110)
	if w.children[3].ending || w.lapsed {
		t.Error("the new child is condemned")
	}
}

// What belongs to no child is ended with the last one, but nothing is taken for
// that which may be a child that was just started.
func TestWardEndsStrays(t *testing.T) {
	w := leased()
	grow(w, 1, 20, "f/a")
	w.reaped(20, 0)
	w.finish(1, 0, 0)
	stray := map[uint64][]int{0: {40}}
	w.begin(2, 0, 0)
	expectRound(t, w.sweep(stray, w.tally, 0), nil, nil, nil)
	w.refused(2, 2)
	expectRound(t, w.sweep(stray, tally{begun: 1}, 0), nil, nil, nil) // listed before it began
	expectRound(t, w.sweep(stray, w.tally, 0), []int{40}, nil, nil)
	expectRound(t, w.sweep(stray, w.tally, 0), nil, nil, []int{40})
	if !w.look(0) {
		t.Error("a stray is forgotten")
	}
	w.sweep(nil, w.tally, 0)
	if w.look(0) {
		t.Error("there is something to do")
	}
}

func TestWardCloses(t *testing.T) {
	w := leased()
	grow(w, 1, 20, "f/a")
	w.begin(2, 0, 0)
	w.close(0)
	if w.begin(3, 0, 0) || w.empty() {
		t.Error("it is not closing")
	}
	w.spawned(2, 30, "f/b", 0)
	w.sweep(map[uint64][]int{1: {20}, 2: {30}}, w.tally, 0)
	expectRound(t, w.sweep(map[uint64][]int{1: {20}, 2: {30}}, w.tally, 0), nil, nil, []int{20, 30})
	w.reaped(20, 9)
	w.reaped(30, 9)
	before := w.tally
	w.reaped(40, 9) // a stray
	w.sweep(nil, before, 0)
	if w.empty() || !w.look(0) {
		t.Error("a look that proves nothing is enough")
	}
	w.sweep(nil, w.tally, 0)
	if !w.empty() {
		t.Errorf("left: %+v", w)
	}
}

// A stray that was stopped is killed, even if strays are not to be killed any
// more.
func TestWardLeavesNothingStopped(t *testing.T) {
	w := leased()
	expectRound(t, w.sweep(map[uint64][]int{0: {40}}, w.tally, 0), []int{40}, nil, nil)
	grow(w, 1, 20, "f/a")
	if !w.look(0) {
		t.Error("it is forgotten")
	}
	expectRound(t, w.sweep(map[uint64][]int{0: {40, 41}}, w.tally, 0), nil, nil, []int{40})
	if w.look(0) {
		t.Error("there is something to do")
	}
}

// Whose a process was is remembered, whatever it shows later.
func TestOwnersAreRemembered(t *testing.T) {
	w := leased()
	grow(w, 1, 20, "f/a")
	grow(w, 2, 30, "f/b")
	look := func(mark string, all ...process) map[uint64][]int {
		return w.owners(all, children(all, 10), map[int]string{21: mark})
	}
	child, orphan := process{pid: 21, parent: 20, start: 5}, process{pid: 21, parent: 10, start: 5}
	look("", process{pid: 20, parent: 10}, child)
	w.reaped(20, 0)
	for _, mark := range []string{"", "f/b"} {
		if got := look(mark, orphan); !slices.Equal(got[1], []int{21}) || w.stranger {
			t.Errorf("marked %q, %v", mark, got)
		}
	}
	another := orphan
	another.start = 6 // the number is used again
	if got := look("f/b", another); !slices.Equal(got[2], []int{21}) {
		t.Errorf("another process with the number: %v", got)
	}
	delete(w.children, 2)
	if got := look("f/a", another); !slices.Equal(got[1], []int{21}) {
		t.Errorf("after the end of its child: %v", got)
	}
}

// A process that shows no marker may be about to execute another program, and
// show one then.
func TestAStrangerIsLookedAtTwice(t *testing.T) {
	w := leased()
	grow(w, 1, 20, "f/a")
	w.reaped(20, 0)
	w.finish(1, 0, 0)
	w.out = nil
	all := []process{{pid: 21, parent: 10}}
	look := func() { w.sweep(w.owners(all, []int{21}, nil), w.tally, 0) }
	look()
	expect(t, w)
	look()
	expect(t, w, message{kind: hasEnded, id: 1})
}

func TestOwners(t *testing.T) {
	w := leased()
	grow(w, 1, 20, "f/a")
	grow(w, 2, 60, "f/b")
	all := append([]process{
		{pid: 60, parent: 10, group: 60},
		{pid: 61, parent: 60, ended: true},
		{pid: 70, parent: 10, group: 70},
		{pid: 71, parent: 70}, // marked
		{pid: 80, parent: 10, group: 80},
		{pid: 81, parent: 10, group: 81}, // unmarked, and marked by who is gone
	}, forest...)
	marks := map[int]string{70: "f/b", 81: "f/gone", 20: "f/b"} // a child's own marker does not count
	got := w.owners(all, children(all, 10), marks)
	want := map[uint64][]int{1: {20, 21, 22, 30, 31}, 2: {60, 70, 71}, 0: {80, 81}}
	sorted := cmp.Transformer("set", func(pids []int) map[int]bool {
		set := make(map[int]bool)
		for _, pid := range pids {
			set[pid] = true
		}
		return set
	})
	if d := cmp.Diff(want, got, sorted); d != "" {
		t.Errorf("owners (-want +got):\n%s", d)
	}
}

func TestExitOf(t *testing.T) {
	if x := exitOf(7<<8, true); x.Status != 7 || x.Signal != 0 || x.Lapsed {
		t.Errorf("status 7 is %+v", x) // it was not killed for the lease: it exited
	}
	if x := exitOf(9, true); x.Signal != 9 || !x.Lapsed {
		t.Errorf("killed is %+v", x)
	}
	if time.Duration(maxSilence)*tick != 2*time.Second {
		t.Error("the package says 2 s")
	}
}
