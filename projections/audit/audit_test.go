package audit

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/toolfleet/toolfleet/events"
)

var instance = events.InstanceChain("github", "0")

// good is a history without a fault: two owners, one after the other.
func good() []events.Event {
	return []events.Event{
		{Chain: events.WorkerChain("a"), Body: events.Joined{Host: "a", Incarnation: "i"}},
		{Chain: events.ServerChain("github"), Body: events.Declared{Definition: events.Definition{Command: "x"}}},
		{Chain: instance, Epoch: 1, Cause: "e2", Body: events.Assigned{Worker: "a", Incarnation: "i", Epoch: 1}},
		{Chain: instance, Epoch: 1, Cause: "e3", Body: events.Connecting{Attempt: 1, Definition: "d"}},
		{Chain: instance, Epoch: 1, Cause: "a command", Body: events.HasStopped{How: "idle"}},
		{Chain: instance, Epoch: 1, Body: events.Released{}},
		{Chain: instance, Epoch: 2, Body: events.Assigned{Worker: "b", Incarnation: "j", Epoch: 2}},
		{Chain: instance, Epoch: 2, Body: events.Lost{Worker: "b"}},
		{Chain: instance, Epoch: 3, Body: events.Assigned{Worker: "a", Incarnation: "i", Epoch: 3}},
	}
}

// stored returns the events as a log has them: linked, and at their sequences.
func stored(t *testing.T, all []events.Event) []events.Record {
	t.Helper()
	prev := make(map[events.Chain]events.Link)
	records := make([]events.Record, 0, len(all))
	for i, e := range all {
		if e.ID == "" {
			e.ID = events.EventID(fmt.Sprintf("e%d", i+1))
		}
		e.Source, e.Time, e.Prev = "test", time.Unix(int64(i), 0).UTC(), prev[e.Chain]
		m, err := events.Encode("f", &e)
		if err != nil {
			t.Fatal(err)
		}
		r := events.Read(m, events.Seq(i+1))
		prev[e.Chain] = r.Link
		records = append(records, r)
	}
	return records
}

func check(records []events.Record, head events.Head) []Fault {
	var a Auditor
	for i := range records {
		a.Apply(&records[i])
	}
	faults, _ := a.End(head)
	return faults
}

func TestAGoodHistory(t *testing.T) {
	all := stored(t, good())
	if faults := check(all, events.Head{Seq: 9, Count: 9}); len(faults) > 0 {
		t.Errorf("faults in a good history: %v", faults)
	}
	if faults := check(nil, events.Head{}); len(faults) > 0 {
		t.Errorf("faults in no history: %v", faults)
	}
}

func TestFaults(t *testing.T) {
	for _, tt := range []struct {
		name string
		// change makes a good history bad, before it is stored, or after.
		change func([]events.Event) []events.Event
		tamper func([]events.Record) []events.Record
		head   events.Head
		want   []Fault
	}{
		{
			name:   "an event is missing",
			tamper: func(r []events.Record) []events.Record { return append(r[:1:1], r[2:]...) },
			want:   []Fault{{3, "event 2 is missing: 3 follows 1"}},
		},
		{
			name: "an event was altered",
			tamper: func(r []events.Record) []events.Record {
				r[3].Link = "0" + r[3].Link[1:]
				return r
			},
			want: []Fault{{5, "event 5 of instance.github.0 does not link to event 4: one of them was altered, or an event between them is lost"}},
		},
		{
			name: "fewer than the stream counts",
			head: events.Head{Seq: 9, Count: 8},
			want: []Fault{{9, "the stream ends at 9, but has 8 events"}},
		},
		{
			name:   "an epoch is left out",
			change: func(e []events.Event) []events.Event { return set(e, 6, 3) },
			want: []Fault{
				{7, "event 7 begins epoch 3 of instance.github.0, after epoch 1"},
				{8, "event 8 of instance.github.0 is said under epoch 2, when 3 was in force"},
				{9, "event 9 begins epoch 3 of instance.github.0, after epoch 3"},
			},
		},
		{
			name: "an old owner speaks",
			change: func(e []events.Event) []events.Event {
				e[7].Epoch = 1
				return e
			},
			want: []Fault{{8, "event 8 of instance.github.0 is said under epoch 1, when 2 was in force"}},
		},
		{
			name: "the epoch in the header is another one",
			change: func(e []events.Event) []events.Event {
				e[8].Epoch = 2
				return e
			},
			want: []Fault{{9, "event 9 begins epoch 3 of instance.github.0, but is said under 2"}},
		},
		{
			name:   "two owners at once",
			change: func(e []events.Event) []events.Event { return append(e[:5:5], e[6:]...) },
			want:   []Fault{{6, "event 6 gives instance.github.0 to b, but a has it"}},
		},
		{
			name: "somebody speaks when nobody has it",
			change: func(e []events.Event) []events.Event {
				e[6] = events.Event{Chain: instance, Epoch: 1, Body: events.Connecting{Attempt: 2, Definition: "d"}}
				return e[:7]
			},
			want: []Fault{{7, "event 7 is said of instance.github.0 when nobody had it"}},
		},
		{
			name: "an event is because of a later one",
			change: func(e []events.Event) []events.Event {
				e[2].Cause = "e5"
				return e
			},
			want: []Fault{{3, "event 3 is because of event 5, which came later"}},
		},
		{
			name: "an event is there twice",
			change: func(e []events.Event) []events.Event {
				e[8].ID = "e2"
				return e
			},
			want: []Fault{{9, "event 9 has the id of event 2"}},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			all := good()
			if tt.change != nil {
				all = tt.change(all)
			}
			records := stored(t, all)
			if tt.tamper != nil {
				records = tt.tamper(records)
			}
			if tt.head == (events.Head{}) {
				tt.head = events.Head{Seq: 9, Count: 9}
			}
			if diff := cmp.Diff(tt.want, check(records, tt.head)); diff != "" {
				t.Errorf("faults (-want +got):\n%s", diff)
			}
		})
	}
}

// set gives an assignment another epoch.
func set(e []events.Event, at int, epoch events.Epoch) []events.Event {
	e[at].Epoch = epoch
	e[at].Body = events.Assigned{Worker: "b", Incarnation: "j", Epoch: epoch}
	return e
}

// What cannot be decoded is counted, and no fault: its place is kept.
func TestWhatCannotBeRead(t *testing.T) {
	records := stored(t, good())
	m := events.Message{Subject: "tf.evt.f.worker.a", Data: []byte("nonsense")}
	records = append(records, events.Read(m, 10))
	var a Auditor
	for i := range records {
		a.Apply(&records[i])
	}
	faults, count := a.End(events.Head{Seq: 10, Count: 10})
	if count != 0 || a.Undecodable != 1 || a.LastUndecodable != 10 || a.Events != 10 {
		t.Errorf("faults %v, %d undecodable at %d of %d", faults, a.Undecodable, a.LastUndecodable, a.Events)
	}
}

func TestManyFaults(t *testing.T) {
	var a Auditor
	for i := range 3 * MostFaults {
		a.Apply(&events.Record{Event: events.Event{Chain: events.FleetChain(), Body: events.Frozen{}, ID: "same"}, Seq: events.Seq(i + 1)})
	}
	faults, count := a.End(events.Head{Seq: 300, Count: 300})
	if len(faults) != MostFaults || count != 3*MostFaults-1 || !strings.Contains(faults[0].What, "id of event 1") {
		t.Errorf("%d faults kept of %d: %v", len(faults), count, faults[0])
	}
}
