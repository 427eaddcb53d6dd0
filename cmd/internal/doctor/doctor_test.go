package doctor_test

import (
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/errors"

	"github.com/toolfleet/toolfleet/cmd/internal/doctor"
	"github.com/toolfleet/toolfleet/cmd/internal/show"
	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/events/jetlog"
	"github.com/toolfleet/toolfleet/projections"
	"github.com/toolfleet/toolfleet/projections/kvview"
)

func TestChecks(t *testing.T) {
	now := time.Unix(1000, 0)
	at := func(seq events.Seq, age time.Duration) kvview.AsOf {
		return kvview.AsOf{Position: events.Position{Log: "l", Seq: seq}, Time: now.Add(-age)}
	}
	head := func(seq events.Seq, count, bytes uint64) events.Head {
		return events.Head{Seq: seq, Count: count, Bytes: bytes << 20, MaxBytes: 100 << 20}
	}
	one := func(c doctor.Check) []doctor.Check { return []doctor.Check{c} }
	for _, tt := range []struct {
		name   string
		checks []doctor.Check
		want   string
	}{
		{"streams", doctor.Streams(nil, nil), "ok as they were made"},
		{"a stream of the operator's", doctor.Streams([]jetlog.Deviation{{Stream: "s", Setting: "replicas", Have: "3", Want: "1"}}, nil), "warn s"},
		{"an unfit stream", doctor.Streams(nil, errors.Mark(errors.New("s: deny delete"), jetlog.ErrUnfit)), "fail s: deny delete"},
		{"no stream", doctor.Streams(nil, errors.New("no")), "fail no"},
		{"history", one(doctor.History(head(7, 7, 79))), "ok 7 events, 79 % of 100 MiB"},
		{"a history that fills up", one(doctor.History(head(7, 7, 80))), "warn 7 events, 80 %"},
		{"a full history", one(doctor.History(head(7, 7, 95))), "fail 7 events, 95 %"},
		{"a history without a limit", one(doctor.History(events.Head{Seq: 1, Count: 1})), "ok 1 event"},
		{"a history with a hole", one(doctor.History(head(7, 6, 1))), "fail 6 of 7 events"},
		{"controllers", one(doctor.Controllers(2)), "ok 2 controllers answered"},
		{"no controller", one(doctor.Controllers(0)), "fail no controller"},
		{"workers", doctor.Workers([]show.Worker{
			{ID: "a", State: projections.WorkerJoined}, {ID: "b", State: projections.WorkerLost}, {ID: "c", State: projections.WorkerLeft},
		}), "ok 1 worker; warn b was lost"},
		{"no worker", doctor.Workers(nil), "fail no worker"},
		{"views", one(doctor.Views(at(7, time.Second), 7, now)), "ok as of seq 7"},
		{"old views", one(doctor.Views(at(7, time.Hour), 7, now)), "fail as of seq 7, 3600 s old"},
		{"late views", one(doctor.Views(at(7, 0), 2000, now)), "warn as of seq 7, of 2000"},
		{"views of another history", one(doctor.Views(at(8, 0), 7, now)), "fail as of seq 8, but the history ends at 7"},
		{"always", one(doctor.Durability("always", nil, 1)), "ok always"},
		{"interval", one(doctor.Durability("interval", nil, 1)), "ok interval"},
		{"a cluster", one(doctor.Durability("", nil, 3)), "ok 3 replicas"},
		{"unknown", one(doctor.Durability("", nil, 1)), "warn one replica"},
		{"servers", one(doctor.Servers([]projections.Status{
			{ID: "a", Want: events.Running, State: projections.Ready}, {ID: "b", Want: events.Stopped, State: projections.Stopped},
		})), "ok 1 of 1 ready"},
		{"a server", one(doctor.Servers([]projections.Status{{ID: "a", Want: events.Running, State: projections.Parked}})), "warn 0 of 1 ready: a is parked"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var got []string
			for _, c := range tt.checks {
				got = append(got, string(c.Verdict)+" "+c.Message)
				if (c.Verdict == doctor.Fail) != doctor.Failed([]doctor.Check{c}) {
					t.Errorf("%v: failed?", c)
				}
			}
			wants := strings.Split(tt.want, "; ")
			for i, w := range wants {
				if len(got) != len(wants) || !strings.HasPrefix(got[i], w) {
					t.Fatalf("got %q, want %q", got, wants)
				}
			}
		})
	}
}
