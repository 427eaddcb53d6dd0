package jetlog_test

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/errors"
	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/events/eventstest"
	"github.com/toolfleet/toolfleet/events/jetlog"
)

// selected returns the sequences of what is selected.
func selected(t *testing.T, l *jetlog.Log, o *jetlog.SelectOptions, patterns ...string) (seqs []events.Seq) {
	t.Helper()
	for r, err := range l.Select(limit(t), patterns, o) {
		if err != nil {
			t.Fatalf("%v: %v", patterns, err)
		}
		seqs = append(seqs, r.Seq)
	}
	return seqs
}

func TestSelect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := eventstest.NewServer(t, nil)
		l := open(t, s.Connect("client"), nil)
		last := make(map[events.Chain]events.Tip)
		for i := range 60 {
			c := events.ServerChain(events.ServerID(fmt.Sprintf("s%d", i%3)))
			last[c] = grow(limit(t), t, l, c, last[c], 1)[0].Tip()
		}
		var s0, s1 []events.Seq
		for i := events.Seq(1); i <= 60; i += 3 {
			s0, s1 = append(s0, i), append(s1, i+1)
		}
		both := slices.Sorted(slices.Values(slices.Concat(s0, s1)))
		for _, tt := range []struct {
			name     string
			patterns []string
			o        *jetlog.SelectOptions
			want     []events.Seq
		}{
			{"one chain", []string{"server.s0"}, nil, s0},
			{"two chains", []string{"server.s0", "server.s1"}, nil, both},
			{"chains that do not exist", []string{"server.none", "instance.none.*"}, nil, nil},
			{"nothing", nil, nil, nil},
			{"after a position", []string{"server.s0"}, &jetlog.SelectOptions{After: 55}, s0[19:]},
			{"up to a position between", []string{"server.s0"}, &jetlog.SelectOptions{Until: 5}, s0[:2]},
			{"up to a position of its own", []string{"server.s0"}, &jetlog.SelectOptions{Until: 4}, s0[:2]},
			{"after the end", []string{"server.s0"}, &jetlog.SelectOptions{After: 100}, nil},
			{"an empty range", []string{"server.s0"}, &jetlog.SelectOptions{After: 10, Until: 10}, nil},
		} {
			if diff := cmp.Diff(tt.want, selected(t, l, tt.o, tt.patterns...)); diff != "" {
				t.Errorf("%s: selected (-want +got):\n%s", tt.name, diff)
			}
		}
		if got := len(selected(t, l, nil, "server.*")); got != 60 {
			t.Errorf("%d of all 60", got)
		}
		n := 0
		for _, err := range l.Select(limit(t), []string{"server.*"}, nil) {
			if n++; n == 7 || err != nil {
				break // nothing may be left running
			}
		}
	})
}

// What does not link to the event before it in its chain is not yielded.
func TestSelectChecksLinks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := eventstest.NewServer(t, nil)
		nc := s.Connect("client")
		l := open(t, nc, nil)
		c := events.ServerChain("s")
		first := grow(limit(t), t, l, c, events.Tip{}, 2)
		e := events.Event{
			Chain: c, ID: "01941f29-7c00-7000-8000-000000000001", Source: "toolfleet/f/x", Time: time.Now().UTC(),
			Prev: first[0].Link, Body: events.Disabled{},
		}
		m, err := events.Encode(l.Fleet(), &e)
		if err != nil {
			t.Fatal(err)
		}
		js, err := jetstream.New(nc)
		if err == nil {
			_, err = js.PublishMsg(t.Context(), &nats.Msg{Subject: m.Subject, Header: m.Header, Data: m.Data})
		}
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for _, err = range l.Select(limit(t), []string{"server.s"}, nil) {
			n++
		}
		if n != 3 || !errors.Is(err, events.ErrHistoryIncomplete) {
			t.Errorf("%d elements, the last with %v", n, err)
		}
		// From behind the break it is taken on trust.
		if got := selected(t, l, &jetlog.SelectOptions{After: 2}, "server.s"); !slices.Equal(got, []events.Seq{3}) {
			t.Errorf("got %v", got)
		}
	})
}

// An outage is waited out.
func TestSelectWaitsOutAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := eventstest.NewServer(t, nil)
		l := open(t, s.Connect("client"), nil)
		grow(limit(t), t, l, events.ServerChain("s"), events.Tip{}, 20)
		s.Stop()
		began := time.Now()
		time.AfterFunc(10*time.Second, s.Start)
		if got := selected(t, l, nil, "server.s"); len(got) != 20 || time.Since(began) < 10*time.Second {
			t.Errorf("got %v after %v", got, time.Since(began))
		}
	})
}
