package projections

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/errors"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"

	"github.com/toolfleet/toolfleet/events"
)

func TestOrderIsLexicographic(t *testing.T) {
	older, newer := events.NewLogID(dawn, 0), events.NewLogID(dawn.Add(time.Hour), 0)
	sorted := []Order{
		{},
		{older, 1, 1},
		{older, 1, 99},
		{older, 2, 5},
		{events.NewLogID(dawn, 1), 1, 2},
		{newer, 1, 1},
		{newer, 2, 0},
	}
	if !slices.IsSortedFunc(sorted, Order.Compare) {
		t.Errorf("not in order: %v", sorted)
	}
	for i, o := range sorted {
		for j, p := range sorted {
			if got, want := o.Compare(p), compareInts(i, j); got != want {
				t.Errorf("%v compared with %v: %d, want %d", o, p, got, want)
			}
		}
	}
}

func compareInts(a, b int) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

func TestEntryFormat(t *testing.T) {
	e := Entry[Worker]{
		Log: "log", Fold: 1, Seq: 7, Link: "abc",
		Value: EvolveWorker(Worker{}, events.Record{Seq: 7, Link: "abc", Event: events.Event{
			Chain: events.WorkerChain("a"), Time: dawn,
			Body: events.Joined{Host: "h", Incarnation: "i", Labels: map[string]string{"b": "2", "a": "1"}},
		}}),
	}
	got, err := e.Encode()
	if err != nil {
		t.Fatal(err)
	}
	want := `{"log":"log","fold":1,"seq":7,"link":"abc","digest":"` + string(e.Digest) + `","value":{"id":"a","seq":7,"link":"abc",` +
		`"updated":"2026-01-02T03:04:05Z","state":"joined","since":"2026-01-02T03:04:05Z","incarnation":"i","host":"h",` +
		`"labels":{"a":"1","b":"2"},"joins":1}}`
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("entry (-want +got):\n%s", diff)
	}
	back, err := DecodeEntry[Worker](got)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(&e, back); diff != "" {
		t.Errorf("decoded (-want +got):\n%s", diff)
	}
}

func TestEntryKeepsRawJSON(t *testing.T) {
	const raw = `[{"name":"b","x":12345678901234567890,"y":1.0},{"name":"a"}]`
	e := Entry[jsontext.Value]{Log: "log", Value: jsontext.Value(raw)}
	data, err := e.Encode()
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(data), raw) {
		t.Errorf("the value was rewritten: %s", data)
	}
	if _, err := DecodeRaw(data); err != nil {
		t.Error(err)
	}
}

func TestDecodeRefuses(t *testing.T) {
	e := Entry[Worker]{Log: "log", Seq: 1, Value: Worker{ID: "a", Host: "host"}}
	good, err := e.Encode()
	if err != nil {
		t.Fatal(err)
	}
	tests := map[string]string{
		"no JSON":           "}",
		"nothing":           "",
		"no value":          `{"log":"l","fold":1,"seq":1,"digest":"d"}`,
		"an altered value":  strings.Replace(string(good), `"host":"host"`, `"host":"other"`, 1),
		"an altered digest": strings.Replace(string(good), string(e.Digest), "d", 1),
		"a name twice":      strings.Replace(string(good), `"seq":1`, `"seq":1,"seq":2`, 1),
	}
	for name, data := range tests {
		t.Run(name, func(t *testing.T) {
			if _, err := DecodeEntry[Worker]([]byte(data)); !errors.Is(err, ErrInvalidEntry) {
				t.Errorf("DecodeEntry: %v, want ErrInvalidEntry", err)
			}
		})
	}
	other := Entry[[]string]{Log: "log", Value: []string{"another form"}}
	data, err := other.Encode()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := DecodeEntry[Worker](data); !errors.Is(err, ErrInvalidEntry) {
		t.Errorf("a value of another form: %v, want ErrInvalidEntry", err)
	}
	if raw, err := DecodeRaw(data); err != nil || raw.Log != "log" {
		t.Errorf("DecodeRaw of another form: %v, %v", raw, err)
	}
}

// The largest events must give entries that fit a message of the broker.
func TestEntriesAreBounded(t *testing.T) {
	const limit = 1<<20 - 8<<10
	huge := strings.Repeat("x", events.MaxSize-4096)
	var i Instance
	var s Server
	seq := events.Seq(0)
	record := func(c events.Chain, b events.Body) events.Record {
		seq++
		return events.Record{Seq: seq, Event: events.Event{Chain: c, Epoch: 1, Actor: huge, Reason: huge, Body: b}}
	}
	for _, b := range []events.Body{
		events.Assigned{Worker: "w", Epoch: 1, Reason: huge},
		events.Connecting{Definition: "d"},
		events.Failed{Failure: events.Failure{Message: huge}, Signal: huge, StderrTail: huge + "the end"},
		events.Parked{Failure: events.Failure{Code: "other", Message: huge}},
		events.AuthRequired{Hint: huge},
		events.Connecting{Definition: "d"},
		events.Connected{Instructions: huge},
		events.ToolsListed{Listing: events.Listing{Count: 1, Quarantined: events.Quarantines{
			Count: 1, Items: slices.Repeat([]events.Quarantine{{Name: huge[:9000], Path: huge[:9000], Reason: huge[:9000]}}, 16),
		}}},
		events.Degraded{Failure: events.Failure{Message: huge}},
		events.Unknown{Type: huge},
	} {
		i = EvolveInstance(i, record(events.InstanceChain("a", "0"), b))
	}
	half := events.Definition{Command: huge[:len(huge)/2]}
	reasons := slices.Repeat([]events.Problem{{Message: huge[:2000]}}, 200)
	for _, b := range []events.Body{
		events.Declared{Definition: half},
		events.Updated{From: half, To: half},
		events.UpdateRolledBack{Failure: events.Failure{Message: huge}},
		events.Updated{From: half, To: half},
		events.Rejected{ID: huge, Reasons: reasons},
		events.Unknown{Type: huge},
	} {
		s = EvolveServer(s, record(events.ServerChain("a"), b))
	}
	instance, server := Entry[Instance]{Value: i}, Entry[Server]{Value: s}
	for name, encode := range map[string]func() ([]byte, error){"instance": instance.Encode, "server": server.Encode} {
		if data, err := encode(); err != nil || len(data) > limit {
			t.Errorf("%s: %d bytes, %v; at most %d", name, len(data), err, limit)
		}
	}
	if !strings.HasSuffix(i.LastFailure.StderrTail+"the end", "the end") || i.State != Degraded {
		t.Errorf("state %s, stderr %q", i.State, i.LastFailure.StderrTail)
	}
}
