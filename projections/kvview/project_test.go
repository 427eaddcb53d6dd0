package kvview

import (
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/projections"
)

func TestProjectWritesTheFolds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		f.someLife(2)
		f.ready("s1", "1", toolsJSON(InlineLimit+1, "huge"))
		f.declare("gone")
		f.say(events.ServerChain("gone"), events.Withdrawn{})
		f.projectAll()
		v := f.verify()
		if v.position.Seq != f.history.Seq() || v.position.Log == "" || v.position.Fold != projections.Version {
			t.Errorf("position %+v, want %d", v.position, f.history.Seq())
		}
		want := []string{
			"fleet", "prompts.s0.0", "resources.s0.0", "server.gone", "server.s0", "server.s1", "status.s0.0", "status.s1.0", "status.s1.1",
			"tools.s0.0", "tools.s1.0", "tools.s1.1", "worker.w",
		}
		if diff := cmp.Diff(want, v.keys()); diff != "" {
			t.Errorf("keys (-want +got):\n%s", diff)
		}
		for k, inline := range map[string]bool{"tools.s0.0": true, "tools.s1.1": false} {
			k, _ := parseKey(k)
			if got := strings.Contains(v.raw[k], "12345678901234567890"); got != inline {
				t.Errorf("%s holds its tools as they were sent: %t, want %t", k, got, inline)
			}
		}
	})
}

func TestProjectFollows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		stop := f.project(f.log, nil)
		f.await(0)
		f.someLife(3)
		f.await(f.history.Seq())
		before := f.verify()
		f.say(events.InstanceChain("s1", "0"), events.Degraded{Failure: events.NewFailure(events.PingTimeout, events.PhaseRun, "")})
		f.await(f.history.Seq())
		after := f.verify()
		if diff := cmp.Diff([]string{"status.s1.0"}, after.changedSince(before)); diff != "" {
			t.Errorf("written for one event (-want +got):\n%s", diff)
		}
		if err := stop(); err != nil {
			t.Errorf("Project: %v, want nil when its context ends", err)
		}
	})
}

func TestProjectResumes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		f.someLife(5)
		f.projectAll()
		before := f.verify()
		f.say(events.ServerChain("s3"), events.Disabled{})
		f.say(events.InstanceChain("s3", "0"), events.Stopping{})
		f.say(events.InstanceChain("s3", "0"), events.HasStopped{How: "closed"})
		f.projectAll()
		after := f.verify()
		if diff := cmp.Diff([]string{"server.s3", "status.s3.0"}, after.changedSince(before)); diff != "" {
			t.Errorf("written after a restart (-want +got):\n%s", diff)
		}
		f.projectAll()
		again := f.verify()
		if diff := cmp.Diff([]string(nil), again.changedSince(after)); diff != "" {
			t.Errorf("written when nothing happened (-want +got):\n%s", diff)
		}
	})
}
