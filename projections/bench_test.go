package projections

import (
	"fmt"
	"testing"
	"time"

	"github.com/toolfleet/toolfleet/events"
)

// longHistory returns n records over that many servers, each with one instance
// that lives a normal life: it is assigned, connects, lists its tools, fails now
// and then, and its definition is asked about.
func longHistory(servers, n int) []events.Record {
	records := make([]events.Record, 0, n)
	definition := events.Definition{
		Command: "npx", Args: []string{"-y", "@example/server"},
		Env: map[string]string{"LOG_LEVEL": "debug"},
	}
	failure := events.NewFailure(events.Exited, events.PhaseRun, "exit status 1")
	of := func(c events.Chain, step int) events.Event {
		e := events.Event{Chain: c, Epoch: 1}
		if c.Kind() == events.OfServer {
			e.Epoch = 0
			e.Correlation = events.RequestID(fmt.Sprintf("%s-%d", c, step))
			e.Body = []events.Body{
				events.Declared{Definition: definition},
				events.Disabled{},
				events.Enabled{},
				events.RestartRequested{},
				events.StopRequested{},
				events.StartRequested{},
			}[step%6]
			return e
		}
		e.Body = []events.Body{
			events.Assigned{Worker: "host-a", Incarnation: "i1", Epoch: 1},
			events.Connecting{Attempt: 1, Definition: "d1"},
			events.Connected{Protocol: "2025-11-25", Era: "handshake", PID: 4711},
			events.ToolsListed{Listing: events.Listing{Digest: "t1", Count: 12}},
			events.Restarted{Attempt: 1, DowntimeMs: 1500},
			events.Failed{Failure: failure, Attempt: 1},
			events.RestartScheduled{DelayMs: 500, Attempt: 2},
		}[step%7]
		return e
	}
	for i := range n {
		s := events.ServerID(fmt.Sprintf("server-%d", i%servers))
		c, step := events.InstanceChain(s, "0"), i/servers
		if step%20 == 0 { // one event in twenty is about the definition
			c, step = events.ServerChain(s), step/20
		}
		e := of(c, step)
		e.ID, e.Time = "0190", time.Unix(int64(i), 0)
		records = append(records, events.Record{Event: e, Seq: events.Seq(i + 1), Link: "abcd"})
	}
	return records
}

// BenchmarkHistory folds a million events of a thousand servers; the measure is
// events/s.
func BenchmarkHistory(b *testing.B) {
	records := longHistory(1000, 1_000_000)
	b.ReportAllocs()
	for b.Loop() {
		var h History
		for i := range records {
			h.Apply(records[i])
		}
		if got := h.Seq(); got != events.Seq(len(records)) {
			b.Fatal(got)
		}
	}
	b.ReportMetric(float64(b.N*len(records))/b.Elapsed().Seconds(), "events/s")
}
