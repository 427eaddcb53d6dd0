package doctor_test

import (
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/errors"

	"github.com/toolfleet/toolfleet/cmd/internal/doctor"
	"github.com/toolfleet/toolfleet/cmd/internal/show"
	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/projections"
)

func TestBrokerAndMembers(t *testing.T) {
	one := func(c doctor.Check) []doctor.Check { return []doctor.Check{c} }
	stream := func(change func(*doctor.Stream)) []doctor.Stream {
		s := doctor.Stream{Name: "tf-f-events", Replicas: 3, Clustered: true, Leader: "n1"}
		if change != nil {
			change(&s)
		}
		return []doctor.Stream{s, {Name: "tf-f-commands", Replicas: 3, Clustered: true, Leader: "n2", Bytes: 10 << 20, MaxBytes: 100 << 20}}
	}
	workers := []show.Worker{
		{ID: "a", State: projections.WorkerJoined, Incarnation: "i"}, {ID: "b", State: projections.WorkerLost, Incarnation: "j"},
	}
	leases := func(age time.Duration, keys ...string) (all []doctor.Lease) {
		for _, k := range keys {
			all = append(all, doctor.Lease{Key: k, Incarnation: "i", Age: age})
		}
		return all
	}
	member := func(id string, recipients ...string) *projections.Worker {
		w := &projections.Worker{State: projections.WorkerJoined, Recipients: recipients}
		w.ID = events.WorkerID(id)
		return w
	}
	for _, tt := range []struct {
		name   string
		checks []doctor.Check
		want   string
	}{
		{"a server", one(doctor.NATS("nats://h:4222", "2.15.3", time.Millisecond)), "ok nats://h:4222, version 2.15.3, answers in 1ms"},
		{"an old server", one(doctor.NATS("nats://h:4222", "2.10.29", 0)), "fail nats://h:4222, version 2.10.29, answers in 0s: leases need NATS 2.11"},
		{"a server of another kind", one(doctor.NATS("nats://h:4222", "next", 0)), "ok nats://h:4222, version next"},

		{"replicas", doctor.Replicas(stream(nil)), "ok 3 replicas of each stream"},
		{"one without a leader", doctor.Replicas(stream(func(s *doctor.Stream) { s.Leader = "" })), "fail tf-f-events has no leader"},
		{"one that is behind", doctor.Replicas(stream(func(s *doctor.Stream) { s.Behind = []string{"n3"} })), "warn tf-f-events: behind or offline: n3"},
		{"one in a cluster", doctor.Replicas(stream(func(s *doctor.Stream) { s.Replicas = 1 })), "warn tf-f-events has one replica, in a cluster"},
		{"unequal ones", doctor.Replicas(stream(func(s *doctor.Stream) { s.Replicas = 5 })), "warn some streams have 3, others 5"},

		{"limits", doctor.Limits(stream(nil), 10<<20, 1<<30), "ok 10 MiB stored, below every limit"},
		{"a stream that fills up", doctor.Limits([]doctor.Stream{{Name: "s", Bytes: 85 << 20, MaxBytes: 100 << 20}}, 0, 0), "warn s: 85 % of 100 MiB"},
		{"a full stream", doctor.Limits([]doctor.Stream{{Name: "s", Bytes: 95 << 20, MaxBytes: 100 << 20}}, 0, 0), "fail s: 95 % of 100 MiB"},
		{"the history is told of elsewhere", doctor.Limits([]doctor.Stream{{Name: "tf-f-events", Bytes: 99, MaxBytes: 100}}, 0, 0), "ok 0 MiB"},
		{"an account that fills up", doctor.Limits(nil, 900<<20, 1000<<20), "warn the account's storage: 90 % of 1000 MiB"},

		{"permissions", one(doctor.Permissions(stream(nil), nil)), "ok all streams"},
		{
			"a stream that may not be read", one(doctor.Permissions([]doctor.Stream{{Name: "KV_tf-f-secrets", Err: errors.New("timeout")}}, []string{"permissions violation"})),
			"warn cannot be read: KV_tf-f-secrets (permissions violation)",
		},
		{"something refused", one(doctor.Permissions(nil, []string{"x"})), "warn something was refused (x)"},

		{"sync always, as the server says", one(doctor.Durability("", &doctor.Sync{Always: true}, 1)), "ok always"},
		{"a short interval", one(doctor.Durability("", &doctor.Sync{Interval: 200 * time.Millisecond}, 1)), "ok one replica, written every 200ms"},
		{"a long interval", one(doctor.Durability("", &doctor.Sync{Interval: 2 * time.Minute}, 1)), "warn one replica, written every 2m0s: that is what a crash"},
		{"a cluster's interval", one(doctor.Durability("", &doctor.Sync{Interval: 2 * time.Minute}, 3)), "ok 3 replicas: what one loses, the others have; a crash of all of them at once can lose the last 2m0s"},

		{"clocks", one(doctor.Clock("this host", 20*time.Millisecond)), "ok this host differs from NATS by 20ms"},
		{"a slow clock", one(doctor.Clock("worker a", -5*time.Second)), "warn the clock of worker a is 5s behind that of NATS"},
		{"a clock an hour off", one(doctor.Clock("worker a", time.Hour)), "warn the clock of worker a is 1h0m0s ahead of that of NATS: times in the history are not to be believed"},

		{"leases", doctor.Leases(leases(2*time.Second, "worker.a", "leader"), workers, 1), "ok renewed: leader 2s ago, worker.a 2s ago"},
		{"no leader", doctor.Leases(leases(0, "worker.a"), workers, 1), "fail no controller leads"},
		{"no controllers at all are told of elsewhere", doctor.Leases(leases(0, "worker.a"), workers, 0), "ok renewed"},
		{"a late one", doctor.Leases(leases(15*time.Second, "worker.a", "leader"), workers, 1), "warn worker.a was last renewed 15s ago; warn leader was last"},
		{"a worker without one", doctor.Leases(leases(0, "leader"), workers, 1), "warn worker a is there by the history, but holds no lease"},
		{"one of another life", doctor.Leases([]doctor.Lease{{Key: "worker.a", Incarnation: "k"}, {Key: "leader"}}, workers, 1), "warn the lease of worker a is that of another life"},

		{"no secrets", doctor.Identities("", nil), "ok the fleet has no secrets"},
		{"all can read them", doctor.Identities("age1", []*projections.Worker{member("a", "age0", "age1")}), "ok 1 worker can read"},
		{"some cannot", doctor.Identities("age1", []*projections.Worker{member("a", "age1"), member("b")}), "warn servers with secrets cannot run on: b"},

		{"lists", one(doctor.Lists(&doctor.Blobs{Stored: 3})), "ok 3 lists of tools"},
		{"orphans", one(doctor.Lists(&doctor.Blobs{Stored: 3, Orphans: 2, OrphanBytes: 4 << 10})), "ok 3 lists of tools, resources or prompts stored; no event refers to 2 of them (4 KiB)"},
		{"one that is gone", one(doctor.Lists(&doctor.Blobs{Missing: []string{"github.0"}})), "fail not in the store, so their tools cannot be offered: github.0"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var got []string
			for _, c := range tt.checks {
				got = append(got, string(c.Verdict)+" "+c.Message)
				if c.Verdict != doctor.OK && c.WayOut == "" {
					t.Errorf("%s: no way out", c.Message)
				}
			}
			wants := strings.Split(tt.want, "; w")
			for i := range wants {
				if i > 0 {
					wants[i] = "w" + wants[i]
				}
				if len(got) != len(wants) || !strings.HasPrefix(got[i], wants[i]) {
					t.Fatalf("got %q, want %q", got, wants)
				}
			}
		})
	}
}
