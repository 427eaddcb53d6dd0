package crash

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/toolfleet/toolfleet/controller/request"
	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/events/eventstest"
	"github.com/toolfleet/toolfleet/worker/mcptest"
)

func itoa(n int) string { return strconv.Itoa(n) }

// pids returns the numbers in a file of /proc; none where that is gone.
func pids(name string) (all []int) {
	data, _ := os.ReadFile(name)
	for f := range strings.FieldsSeq(string(data)) {
		if pid, err := strconv.Atoi(f); err == nil {
			all = append(all, pid)
		}
	}
	return all
}

// living returns those of the processes that have not ended. One that waits to
// be reaped has.
func living(of []int) (all []int) {
	for _, pid := range of {
		data, err := os.ReadFile(filepath.Join("/proc", itoa(pid), "stat"))
		if _, state, ok := bytes.Cut(data, []byte(") ")); err == nil && ok && state[0] != 'Z' {
			all = append(all, pid)
		}
	}
	return all
}

// Workers of a new fleet that start at the same time all join: one of them makes
// the fleet's identity, and the others do without.
func TestWorkersOfANewFleet(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	var all []*process
	for i := range 6 {
		all = append(all, r.prepare("worker", "w"+itoa(i)))
	}
	for _, p := range all {
		p.again()
	}
	for _, p := range all {
		if !p.joins() {
			t.Errorf("%s ended before it joined", p.worker)
		}
	}
	for _, p := range all {
		p.stop()
	}
}

// joins waits until a worker has joined, or has ended.
func (p *process) joins() bool {
	ctx, cancel := context.WithTimeout(p.r.t.Context(), within)
	defer cancel()
	go func() {
		select {
		case <-p.done:
			cancel()
		case <-ctx.Done():
		}
	}()
	for r, err := range p.r.log.Follow(ctx, 0, nil) {
		if err == nil && r.Chain == events.WorkerChain(p.worker) && r.Kind() == events.KindJoined {
			return true
		}
	}
	return false
}

// TestStandsStill stops a worker without ending it, for longer than its lease.
// Its keeper ends the servers before another worker starts them; when it goes on,
// it starts nothing that is not its own any more. It takes as long as the lease.
func TestStandsStill(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	c := r.start("controller", "c")
	w := map[events.WorkerID]*process{"w1": r.start("worker", "w1"), "w2": r.start("worker", "w2")}
	d := r.definition("s", mcptest.Script{Tools: []string{"one"}, Stubborn: true})
	d.GracePeriodMs = new(int64(300))
	r.ask(request.Declare, "s", d)
	r.ready("s")
	stopped := r.saw(0, "s", events.KindAssigned).Body.(events.Assigned).Worker
	w[stopped].signal(syscall.SIGSTOP)
	taken := r.saw(r.last, "s", events.KindLost)
	next := r.saw(taken.Seq, "s", events.KindToolsListed)
	w[stopped].signal(syscall.SIGCONT)
	eventstest.Expect(t, r.log, next.Seq, eventstest.On(events.WorkerChain(stopped), events.KindJoined)...)
	r.settled()
	r.starts("s", 2)
	r.ended(w["w1"], w["w2"], c)
}
