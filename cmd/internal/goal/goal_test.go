package goal_test

import (
	"strings"
	"testing"
	"time"

	"github.com/toolfleet/toolfleet/cmd/internal/goal"
	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/projections"
)

func status(state projections.State, change func(*projections.Status)) *projections.Status {
	s := &projections.Status{
		ID: "s", State: state, Want: events.Running, Tools: 1, Definition: "d",
		Instances: []projections.InstanceStatus{{State: state, Generation: 5, Definition: "d"}},
	}
	if change != nil {
		change(s)
	}
	return s
}

func failed(seq events.Seq) func(*projections.Status) {
	return func(s *projections.Status) {
		s.Failure = &projections.Fault{Failure: events.NewFailure(events.StartupCrash, events.PhaseHandshake, "it ended"), Seq: seq}
		s.Instances[0].Failure = s.Failure
	}
}

// before says that the instance began because of an earlier event than the goal's.
func before(change func(*projections.Status)) func(*projections.Status) {
	return func(s *projections.Status) {
		change(s)
		s.Instances[0].Generation = 3
	}
}

func on(w events.WorkerID) func(*projections.Status) {
	return func(s *projections.Status) { s.Instances[0].Worker = w }
}

func TestGoals(t *testing.T) {
	want := func(w events.Want) func(*projections.Status) { return func(s *projections.Status) { s.Want = w } }
	for _, tt := range []struct {
		name  string
		goal  goal.Goal
		s     *projections.Status
		words string
		err   string
	}{
		{"ready", goal.Ready(0), status(projections.Ready, nil), "ready, 1 tool", ""},
		{"degraded", goal.Ready(5), status(projections.Degraded, nil), "degraded, 1 tool", ""},
		{"not yet anew", goal.Ready(6), status(projections.Ready, nil), "", ""},
		{"starting", goal.Ready(5), status(projections.Listing, nil), "", ""},
		{"failed since", goal.Ready(5), status(projections.BackingOff, failed(6)), "", "startup_crash"},
		{"failed with last words", goal.Ready(5), status(projections.BackingOff, func(s *projections.Status) {
			failed(6)(s)
			s.Failure.StderrTail = "starting\nError: DB_URL not set\n"
		}), "", "it ended; its last words: Error: DB_URL not set"},
		{"failed before", goal.Ready(5), status(projections.BackingOff, failed(4)), "", ""},
		{"parked before", goal.Ready(5), status(projections.Parked, before(failed(4))), "", ""},
		{"parked by what began before", goal.Ready(5), status(projections.Parked, before(failed(6))), "", ""},
		{"parked since", goal.Ready(5), status(projections.Parked, failed(6)), "", "parked: startup_crash"},
		{"no credentials before", goal.Ready(5), status(projections.AuthRequired, before(failed(4))), "", ""},
		{"hangs before it begins anew", goal.Ready(5), status(projections.Failed, before(func(s *projections.Status) {
			s.Instances[0].Failure = &projections.Fault{Failure: events.NewFailure(events.StopHung, events.PhaseStop, ""), Seq: 6}
		})), "", "stop_hung"},
		{"waited for, and tried again", goal.Ready(0), status(projections.BackingOff, failed(4)), "", ""},
		{"waited for, and given up", goal.Ready(0), status(projections.Parked, failed(4)), "", "parked: startup_crash"},
		{"waited for, and probed", goal.Ready(0), status(projections.Parked, func(s *projections.Status) {
			failed(4)(s)
			s.Instances[0].Next = &projections.Next{At: time.Unix(1, 0)}
		}), "", ""},
		{"disabled", goal.Ready(0), status(projections.Disabled, nil), "", "disabled"},
		{"stopped", goal.Ready(0), status(projections.Stopped, want(events.Stopped)), "", "it is stopped"},
		{"not started yet", goal.Ready(5), status(projections.Stopped, nil), "", ""},
		{"no credentials", goal.Ready(0), status(projections.AuthRequired, nil), "", "credentials"},
		{"ready, but gone", goal.Ready(0), nil, "", "not have it"},

		{"settled", goal.Settled(5), status(projections.Ready, nil), "ready, 1 tool", ""},
		{"settled without a new connection", goal.Settled(9), status(projections.Ready, nil), "ready, 1 tool", ""},
		{"corrected, and not tried yet", goal.Settled(5), status(projections.Parked, before(failed(4))), "", ""},
		{"another secret, and not connected anew", goal.Settled(9), status(projections.Ready, func(s *projections.Status) { s.Updating = true }), "", ""},
		{"not settled", goal.Settled(9), status(projections.Ready, func(s *projections.Status) { s.Definition = "new" }), "", ""},
		{"created, and failed", goal.Settled(5), status(projections.BackingOff, failed(6)), "", "startup_crash"},
		{"settled and stopped", goal.Settled(9), status(projections.Stopped, want(events.Stopped)), "stopped", ""},
		{"rolled back", goal.Settled(9), status(projections.Ready, func(s *projections.Status) {
			s.Rollback = &projections.Rollback{Updated: 9, Failure: events.NewFailure(events.StartupCrash, "", "")}
		}), "", "former definition is back: startup_crash"},
		{"settled, but gone", goal.Settled(9), nil, "", "not have it"},

		{"stopping", goal.Stopped, status(projections.Stopping, nil), "", ""},
		{"is stopped", goal.Stopped, status(projections.Stopped, nil), "stopped", ""},
		{"is disabled", goal.Stopped, status(projections.Disabled, nil), "disabled", ""},
		{"hangs", goal.Stopped, status(projections.Failed, func(s *projections.Status) {
			s.Failure = &projections.Fault{Failure: events.NewFailure(events.StopHung, events.PhaseStop, "")}
		}), "", "stop_hung"},
		{"stopped, but gone", goal.Stopped, nil, "", "not have it"},

		{"moved", goal.On("b", 5), status(projections.Ready, on("b")), "ready on b, 0 tools", ""},
		{"not moved so far", goal.On("b", 5), status(projections.Ready, on("a")), "", ""},
		{"moved, and starting", goal.On("b", 5), status(projections.Connecting, on("b")), "", ""},
		{"moved, and failed", goal.On("b", 5), status(projections.BackingOff, failed(6)), "", "startup_crash"},
		{"moved, but gone", goal.On("b", 5), nil, "", "not have it"},

		{"gone", goal.Gone, nil, "gone", ""},
		{"withdrawn", goal.Gone, status(projections.Withdrawn, nil), "gone", ""},
		{"not gone", goal.Gone, status(projections.Stopping, nil), "", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			words, err := tt.goal(tt.s)
			if words != tt.words || (err != nil) != (tt.err != "") || err != nil && !strings.Contains(err.Error(), tt.err) {
				t.Errorf("got %q, %v; want %q, %q", words, err, tt.words, tt.err)
			}
		})
	}
}
