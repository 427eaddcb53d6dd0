package keeper

import (
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/errors"

	"github.com/toolfleet/toolfleet/events/jetlog"
)

// within is how long the end of every descendant may take.
const within = 2 * time.Second

// case J1: no descendant outlives a worker that was killed.
func TestAKilledWorkerLeavesNothing(t *testing.T) {
	w, f := newOtherWorker(t), newFamily(t)
	w.spawnBrood(f)
	keeper := w.keeper()
	w.signal(syscall.SIGKILL)
	f.gone(within)
	eventually(t, "the end of the keeper", within, func() bool { return !strings.HasPrefix(commandLine(keeper), helperName) })
}

// A worker that ends in peace leaves nothing either.
func TestAWorkerThatEndsLeavesNothing(t *testing.T) {
	w, f := newOtherWorker(t), newFamily(t)
	w.spawnBrood(f)
	w.stdin.Close()
	if err := w.cmd.Wait(); err != nil {
		t.Error(err)
	}
	if left := f.alive(); len(left) > 0 {
		t.Errorf("processes %v are there when the worker has ended", left)
	}
}

// The lease ends for the children even if the worker cannot tell.
func TestAStoppedWorkerLosesItsChildrenWithTheLease(t *testing.T) {
	t.Parallel()
	w, f := newOtherWorker(t), newFamily(t)
	w.spawnBrood(f)
	keeper := w.keeper()
	w.say("lease 3000")
	w.say("spawn last true") // so that the lease was told
	w.see("exited last")
	w.signal(syscall.SIGSTOP)
	f.gone(within + 3*time.Second)
	w.signal(syscall.SIGCONT)
	if exit := w.see("exited children "); !strings.Contains(exit, "Lapsed:true") {
		t.Errorf("exited %s", exit)
	}
	w.say("spawn late true")
	if why := w.see("refused late "); !strings.Contains(why, ErrLapsed.Error()) {
		t.Errorf("refused: %s", why)
	}
	w.say("lease 3600000")
	w.say("spawn again %s", f.script("NAP & wait"))
	w.see("spawned again")
	f.grown(1)
	if now := w.keeper(); now != keeper {
		t.Errorf("keeper %d was replaced by %d, although it did nothing wrong", keeper, now)
	}
}

// A lease that is renewed in time ends for nobody.
func TestARenewedLeaseGoesOn(t *testing.T) {
	t.Parallel()
	w, f := newOtherWorker(t), newFamily(t)
	w.say("spawn a %s", f.script("NAP & wait"))
	w.see("spawned a")
	f.grown(1)
	for range 10 {
		w.say("lease 2000")
		time.Sleep(300 * time.Millisecond)
	}
	if len(f.alive()) != 1 {
		t.Error("a child died under a lease")
	}
	f.gone(within + 2*time.Second)
}

// The worker inherits what a dead keeper leaves, ends it, and goes on with
// another one.
func TestAKilledKeeperIsReplaced(t *testing.T) {
	w, f := newOtherWorker(t), newFamily(t)
	w.spawnBrood(f)
	keeper := w.keeper()
	send(t, keeper, syscall.SIGKILL)
	w.replaced(f, keeper)
}

// A keeper that does not answer is as good as dead.
func TestAStoppedKeeperIsReplaced(t *testing.T) {
	t.Parallel()
	w, f := newOtherWorker(t), newFamily(t)
	w.spawnBrood(f)
	keeper := w.keeper()
	began := time.Now()
	send(t, keeper, syscall.SIGSTOP)
	w.replaced(f, keeper)
	// It is asked within a second, and has two.
	if d := time.Since(began); d < maxSilence*tick || d > closeLimit-time.Second {
		t.Errorf("it was given up after %s", d)
	}
}

func (w *otherWorker) replaced(f family, keeper int) {
	w.t.Helper()
	if exit := w.see("exited children "); !strings.Contains(exit, "Lost:true") {
		w.t.Errorf("exited %s", exit)
	}
	f.gone(within)
	w.say("spawn again %s", f.script("NAP & wait"))
	w.see("spawned again")
	f.grown(1)
	if now := w.keeper(); now == keeper {
		w.t.Error("the keeper was not replaced")
	}
	if left := zombies(w.t, w.cmd.Process.Pid); len(left) > 0 {
		w.t.Errorf("the worker did not reap %v", left)
	}
	w.signal(syscall.SIGKILL)
	f.gone(within)
}

// A worker that was stopped itself does not blame its keeper.
func TestAWorkersOwnStandstillIsNotTheKeepers(t *testing.T) {
	t.Parallel()
	w, f := newOtherWorker(t), newFamily(t)
	w.say("spawn a %s", f.script("NAP & wait"))
	w.see("spawned a")
	keeper := w.keeper()
	w.signal(syscall.SIGSTOP)
	time.Sleep(maxSilence*tick + time.Second)
	w.signal(syscall.SIGCONT)
	w.say("spawn b true")
	w.see("exited b")
	time.Sleep(2 * tellEvery * tick)
	if w.keeper() != keeper || len(f.alive()) != 1 {
		t.Error("the keeper was replaced")
	}
}

// What a worker and its keeper left that were killed together is swept by the
// next one, and nothing else is.
func TestSweep(t *testing.T) {
	w, f, other, g := newOtherWorker(t), newFamily(t), newOtherWorker(t), newFamily(t)
	w.say("spawn a %s", f.script("NAP & setsid NAP & wait"))
	w.see("spawned a")
	other.say("spawn a %s", g.script("NAP & wait"))
	other.see("spawned a")
	f.grown(2)
	g.grown(1)
	keeper := w.keeper()
	w.signal(syscall.SIGSTOP) // so that it does not clean up
	send(t, keeper, syscall.SIGKILL)
	w.signal(syscall.SIGKILL)
	eventually(t, "the folder to be free", hangLimit, func() bool { return unlocked(t, w.dir) })
	if len(f.alive()) != 2 {
		t.Fatal("nothing was left to sweep")
	}
	killed, err := Sweep(w.folder)
	if err != nil || killed != 3 { // the shell is one, too
		t.Errorf("%d killed, %v", killed, err)
	}
	if len(f.alive()) != 0 || len(g.alive()) != 1 {
		t.Errorf("%d processes left of its own, %d of another folder's", len(f.alive()), len(g.alive()))
	}
	began := time.Now()
	if killed, err := Sweep(w.folder); killed != 0 || err != nil {
		t.Errorf("%d killed the second time, %v", killed, err)
	}
	if d := time.Since(began); d > time.Second {
		t.Errorf("a sweep of nothing took %s", d)
	}
}

// A worker that was started by its predecessor's server does not sweep itself.
func TestSweepSparesItsOwnLine(t *testing.T) {
	t.Setenv(Marker, "x/y") // of whatever is started from here on
	w, other := newOtherWorker(t), newOtherWorker(t)
	w.keeper() // which has no marker once it is there
	other.keeper()
	w.say("sweep x")
	if swept := w.see("swept "); swept != "1 <nil>" {
		t.Errorf("swept %s, want the other one alone", swept)
	}
	if err := other.cmd.Wait(); err == nil {
		t.Error("the other one was not swept")
	}
}

// What a process starts itself shows that process's marker for a moment.
func TestSweepSparesWhatItsOwnProcessStarts(t *testing.T) {
	t.Setenv(Marker, "x/y")
	w := newOtherWorker(t)
	w.keeper()
	w.say("busy x")
	if lost := w.see("lost "); lost != "0" {
		t.Errorf("it lost %s of its own", lost)
	}
}

func unlocked(t *testing.T, dir string) bool {
	t.Helper()
	f, err := jetlog.LockFolder(dir)
	if err != nil {
		if !errors.Is(err, jetlog.ErrFolderLocked) {
			t.Fatal(err)
		}
		return false
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
	return true
}

// The folder is free when worker and keeper are both gone.
func TestTheLockIsBoths(t *testing.T) {
	w, f := newOtherWorker(t), newFamily(t)
	w.spawnBrood(f)
	keeper := w.keeper()
	if unlocked(t, w.dir) {
		t.Fatal("the folder of a running worker is free")
	}
	send(t, keeper, syscall.SIGSTOP)
	w.signal(syscall.SIGKILL)
	_ = w.cmd.Wait()
	if unlocked(t, w.dir) || len(f.alive()) == 0 {
		t.Error("the folder is free while the keeper lives")
	}
	send(t, keeper, syscall.SIGCONT)
	eventually(t, "the folder to be free", hangLimit, func() bool { return unlocked(t, w.dir) })
	if left := f.alive(); len(left) > 0 {
		t.Errorf("the folder is free, and %v still run", left)
	}
}

// A terminal's signals do not reach the keeper, and it outlives those that a
// group of processes gets.
func TestTheKeeperIsInASessionOfItsOwn(t *testing.T) {
	w, f := newOtherWorker(t), newFamily(t)
	w.say("spawn a %s", f.script("trap '' TERM INT HUP; NAP & wait"))
	w.see("spawned a")
	f.grown(1)
	keeper := w.keeper()
	for _, p := range list(t) {
		if p.pid == keeper && (p.session != keeper || p.group != keeper) {
			t.Errorf("the keeper is in session %d and group %d", p.session, p.group)
		}
	}
	for _, s := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP} {
		send(t, keeper, s)
	}
	w.say("spawn b true")
	w.see("exited b")
	if w.keeper() != keeper || len(f.alive()) != 1 {
		t.Error("the keeper gave up")
	}
	if env := environ(t, keeper); env != "GOMAXPROCS=2\x00" {
		t.Errorf("the keeper's environment is %q", env)
	}
}
