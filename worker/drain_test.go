package worker

import (
	"context"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/errors"

	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/events/eventstest"
)

// A worker that is to leave says so, and ends when nothing is left that runs: as
// soon as it was told to stop all of it, or when nobody tells it anything.
func TestWorkerLeaves(t *testing.T) {
	const after = 12 * time.Second
	unreachable := events.Definition{URL: "http://s.test/mcp"}
	stops := func(r *rig, _ events.Record) {
		time.Sleep(after)
		r.command("s", events.Command{Generation: 1})
	}
	for name, test := range map[string]struct {
		idle  bool // nothing runs
		then  func(r *rig, draining events.Record)
		lasts time.Duration
		says  string // on the worker's chain
		of    string // the last word on the instance's chain
	}{
		"nothing runs":   {true, nil, 0, "joined left", ""},
		"nobody answers": {false, func(*rig, events.Record) {}, patience, "joined draining left", "stopped"},
		"it is answered, and told to stop later": {
			false, func(r *rig, draining events.Record) {
				r.command("s", events.Command{Definition: &unreachable, Generation: 1, Cause: string(draining.ID)})
				stops(r, draining)
			}, after, "joined draining left", "stopped",
		},
		"it is told to stop": {
			false, func(r *rig, draining events.Record) {
				r.command("s", events.Command{Generation: 1, Cause: string(draining.ID)})
			}, 0, "joined draining left", "stopped",
		},
		"it is answered, and not taken over": {
			false, func(r *rig, draining events.Record) {
				r.command("s", events.Command{Definition: &unreachable, Generation: 1, Cause: string(draining.ID)})
			}, 20 * time.Second, "joined draining left", "stopped",
		},
		"what is said of something else is no answer": {false, func(r *rig, draining events.Record) {
			r.command("s", events.Command{Definition: &unreachable, Generation: 1, Cause: "another event"})
			stops(r, draining)
		}, patience, "joined draining left", "stopped"},
		"something new is too late": {false, func(r *rig, draining events.Record) {
			r.assign("t", 1)
			r.command("t", events.Command{Definition: &unreachable, Generation: 1})
			r.command("s", events.Command{Definition: &unreachable, Generation: 1, Cause: string(draining.ID)})
			stops(r, draining)
		}, after, "joined draining left", "stopped"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				leave := make(chan struct{})
				r := newRig(t)
				r.options.Leave, r.options.Limits.Handover = leave, 20*time.Second
				r.options.Dial = func(context.Context, string, string) (net.Conn, error) { return nil, errors.New("no host") }
				r.start()
				if !test.idle {
					r.run("s", unreachable)
					r.see("s", 0, events.KindFailed)
				}
				synctest.Wait()
				begun := time.Now()
				close(leave)
				if test.then != nil {
					go test.then(r, eventstest.Expect(t, r.log, 0, eventstest.On(events.WorkerChain(testWorker), events.KindDraining)...)[0])
				}
				<-r.ended
				if d := time.Since(begun); d < test.lasts || d > test.lasts+time.Second {
					t.Errorf("it left after %v, want %v", d, test.lasts)
				}
				if r.err != nil {
					t.Errorf("error is %v", r.err)
				}
				var says []string
				for _, rec := range r.stored() {
					if rec.Chain == events.WorkerChain(testWorker) {
						says = append(says, string(rec.Kind()))
					}
					if d, ok := rec.Body.(events.Draining); ok && d.Incarnation != testIncarnation {
						t.Errorf("draining is of %q", d.Incarnation)
					}
				}
				if got := strings.Join(says, " "); got != test.says {
					t.Errorf("the worker says %s, want %s", got, test.says)
				}
				if got := r.kinds("s"); !strings.HasSuffix(got, test.of) {
					t.Errorf("the instance's chain says %s", got)
				}
				if got := r.kinds("t"); got != "" && got != "assigned" {
					t.Errorf("the chain of what came too late says %s", got)
				}
				time.Sleep(after) // of fake time, for what the test does beside
			})
		})
	}
}

// A frozen instance is not started again by itself, and is when it is thawed.
func TestFrozenInstanceIsNotStartedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.options.Dial = func(context.Context, string, string) (net.Conn, error) { return nil, errors.New("no host") }
		r.start()
		d := events.Definition{URL: "http://s.test/mcp"}
		r.assign("s", 1)
		r.command("s", events.Command{Definition: &d, Generation: 1, Frozen: true})
		time.Sleep(10 * time.Minute) // of fake time
		want := "assigned connecting failed restart-scheduled"
		if got := r.kinds("s"); got != want {
			t.Errorf("the chain says %s", got)
		}
		r.lease.set(0) // which changes nothing
		time.Sleep(time.Minute)
		r.lease.set(time.Hour)
		time.Sleep(time.Minute)
		if got := r.kinds("s"); !strings.HasPrefix(got, want) || strings.Count(got, "connecting") != 1 {
			t.Errorf("after the lease was back the chain says %s", got)
		}
		r.command("s", events.Command{Definition: &d, Generation: 1})
		time.Sleep(leaseSpread)
		if got := r.kinds("s"); strings.Count(got, "connecting") < 2 {
			t.Errorf("thawed, the chain says %s", got)
		}
		// Stopping is allowed.
		r.command("s", events.Command{Definition: &d, Generation: 1, Frozen: true})
		r.command("s", events.Command{Generation: 2})
		synctest.Wait()
		if got := r.kinds("s"); !strings.HasSuffix(got, " stopped") {
			t.Errorf("the chain says %s", got)
		}
	})
}
