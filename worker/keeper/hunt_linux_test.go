package keeper

import (
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// settled is how long a test waits for the next hop of what should be dead.
const settled = 100 * time.Millisecond

// hopping is a script: a process that forks its successor and exits, so often,
// and sleeps in the end. Each is an orphan in a place of its own in the list.
func hopping(f family, hops int, pause string) string {
	return f.script(`h() { [ $1 -gt 0 ] || exec NAP; ` + pause + ` h $(($1 - 1)) & exit 0; }; h ` + strconv.Itoa(hops))
}

// hoppers returns the living processes of a script that hops, whatever they do.
func hoppers(f family) (pids []int) {
	f.t.Helper()
	for _, p := range list(f.t) {
		if !p.ended && strings.Contains(commandLine(p.pid), f.nap) {
			pids = append(pids, p.pid)
		}
	}
	return pids
}

// extinct fails if one lives, or comes to life.
func extinct(t *testing.T, f family) {
	t.Helper()
	for end := time.Now().Add(settled); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if left := hoppers(f); len(left) > 0 {
			for _, pid := range left {
				_ = syscall.Kill(pid, syscall.SIGKILL)
			}
			t.Fatalf("%v live", left)
		}
	}
}

// case J1: what becomes a daemon while its end is under way, as a fork whose
// parent exits and another one, is in no place in the list, but it is there.
func TestEndReachesWhatHops(t *testing.T) {
	k := newKeeper(t)
	for i := range 20 {
		f := newFamily(t)
		c, _ := spawn(t, k, "hop"+strconv.Itoa(i), hopping(f, 20+10*(i%10), ""))
		wait(t, c.Exited(), "the exit")
		c.End(0)
		wait(t, c.Ended(), "the end")
		extinct(t, f)
	}
}

// case J1: neither does the keeper end before it.
func TestAKeeperOutlivesWhatHops(t *testing.T) {
	for i := range 5 {
		w, f := newOtherWorker(t), newFamily(t)
		w.say("spawn hop %s", hopping(f, 300+50*i, ""))
		w.see("exited hop")
		keeper := w.keeper()
		w.signal(syscall.SIGKILL)
		eventually(t, "the end of the keeper", hangLimit, func() bool { return !strings.HasPrefix(commandLine(keeper), helperName) })
		extinct(t, f)
	}
}

// And neither does the worker say so that inherits it.
func TestAWorkerEndsWhatHops(t *testing.T) {
	for i := range 5 {
		w, f := newOtherWorker(t), newFamily(t)
		w.say("spawn hop %s", hopping(f, 300+50*i, ""))
		w.see("exited hop")
		send(t, w.keeper(), syscall.SIGKILL)
		w.see("ended hop")
		extinct(t, f)
	}
}

func TestSweepReachesWhatHops(t *testing.T) {
	for range 5 {
		f := newFamily(t)
		cmd := exec.Command("/bin/sh", "-c", hopping(f, 2000, "sleep 0.002;"))
		cmd.Env = []string{Marker + "=hop/a", "PATH=/bin:/usr/bin"}
		if err := cmd.Run(); err != nil {
			t.Fatal(err)
		}
		if killed, err := Sweep("hop"); err != nil || killed == 0 {
			t.Errorf("%d killed, %v", killed, err)
		}
		extinct(t, f)
	}
}

// What started after the list was made is looked at, and if it is nothing that
// counts, it may have been.
func TestASeekerSeesWhatIsNew(t *testing.T) {
	before, f := list(t), newFamily(t)
	start := func(env ...string) int {
		cmd := exec.Command("/bin/sleep", f.nap)
		cmd.Env = append([]string{"A=1"}, env...)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		})
		return cmd.Process.Pid
	}
	start()
	s := &seeker{folder: "new" + f.nap}
	if found, none, err := s.seek(before); len(found) > 0 || none || err != nil {
		t.Errorf("found %v, none: %t, %v", found, none, err)
	}
	s.doubts = maxDoubts
	if _, none, err := s.seek(before); !none || err != nil {
		t.Errorf("it doubts for ever: %v", err)
	}
	pid := start(Marker + "=" + s.folder + "/a")
	if found, _, err := s.seek(before); len(found) != 1 || found[0].pid != pid || s.doubts != 0 || err != nil {
		t.Errorf("found %v, not %d; %d doubts, %v", found, pid, s.doubts, err)
	}
}

// What is seen below a child is its, even if it has no marker and its parent
// ends before it, while others live.
func TestEndRemembersWhoseAProcessIs(t *testing.T) {
	k, f, g := newKeeper(t), newFamily(t), newFamily(t)
	other, _ := spawn(t, k, "other", g.script("NAP & wait"))
	g.grown(1)
	c, _ := spawn(t, k, "a", f.script(`env -i PATH="$PATH" setsid sh -c 'trap "" TERM; NAP; :' & wait`))
	f.grown(1)
	c.End(200 * time.Millisecond)
	wait(t, c.Exited(), "the exit")
	wait(t, c.Ended(), "the end")
	extinct(t, f)
	if len(g.alive()) != 1 {
		t.Error("another child's is dead")
	}
	other.End(0)
	wait(t, other.Ended(), "the end of the other")
}

// A process that was stopped, and turned out not to be meant, goes on.
func TestAHuntLeavesNothingStopped(t *testing.T) {
	f := newFamily(t)
	cmd := exec.Command("sleep", f.nap)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}()
	stopped := false
	killed, err := hunt(func(all []process) (found []process, none bool, err error) {
		if stopped {
			return nil, true, nil
		}
		stopped = true
		for _, p := range all {
			if p.pid == cmd.Process.Pid {
				found = append(found, p)
			}
		}
		return found, false, nil
	})
	if killed != 0 || err != nil {
		t.Errorf("%d killed, %v", killed, err)
	}
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(cmd.Process.Pid) + "/stat")
	if err != nil || !strings.Contains(string(stat), ") S ") && !strings.Contains(string(stat), ") R ") {
		t.Errorf("it does not go on: %s, %v", stat, err)
	}
}

// What was killed counts, even if it is found no more while it ends.
func TestAHuntCountsWhatItKilled(t *testing.T) {
	c := &chase{killed: make(map[identity]time.Time), stopped: make(map[identity]bool)}
	f := newFamily(t)
	cmd := exec.Command("sleep", f.nap)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Wait() }()
	var p process
	c.find = func(all []process) ([]process, bool, error) {
		p = all[slices.IndexFunc(all, func(p process) bool { return p.pid == cmd.Process.Pid })]
		return []process{p}, false, nil
	}
	for range 2 { // it is stopped, then killed
		if _, _, err := c.look(); err != nil {
			t.Fatal(err)
		}
	}
	c.release([]process{p}, nil)
	if len(c.killed) != 1 {
		t.Error("it is not counted")
	}
}

// One empty look proves nothing, and neither does a short series with a find in
// it.
func TestAHuntLooksAgain(t *testing.T) {
	looks := 0
	if _, err := hunt(func([]process) ([]process, bool, error) {
		looks++
		return nil, looks != 2, nil // something had ended
	}); err != nil {
		t.Error(err)
	}
	if looks != 5 {
		t.Errorf("%d looks", looks)
	}
}

// What cannot be killed is an error, not a reason to try for ever.
func TestAHuntGivesUp(t *testing.T) {
	t.Parallel()
	began := time.Now()
	_, err := hunt(func([]process) ([]process, bool, error) {
		return []process{{pid: 1 << 30}}, false, nil // there is no such process, so it stays
	})
	if err == nil || !strings.Contains(err.Error(), strconv.Itoa(1<<30)) {
		t.Error(err)
	}
	if d := time.Since(began); d < killLimit {
		t.Errorf("it gave up after %s", d)
	}
}
