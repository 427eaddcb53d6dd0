package kvview

import (
	"fmt"
	"testing"

	"github.com/toolfleet/toolfleet/events"
)

// BenchmarkProject writes the views of 20,000 events of 500 servers from
// nothing, with a real server: what a cold start costs. The measures are
// events/s and entries/s.
func BenchmarkProject(b *testing.B) {
	f := newFleet(b)
	for n := range 500 {
		id := events.ServerID(fmt.Sprintf("s%d", n))
		f.declare(id)
		f.ready(id, "0", toolsJSON(2000, "a", "b", "c"))
	}
	for n := 0; f.history.Seq() < 20_000; n++ {
		id := events.ServerID(fmt.Sprintf("s%d", n%500))
		f.say(events.InstanceChain(id, "0"), events.Degraded{Failure: events.NewFailure(events.PingTimeout, events.PhaseRun, "")})
		f.say(events.InstanceChain(id, "0"), events.Recovered{})
	}
	entries := 0
	for b.Loop() {
		b.StopTimer()
		if err := f.stream().Purge(b.Context()); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
		f.projectAll()
		b.StopTimer()
		entries = len(f.read().raw)
		b.StartTimer()
	}
	b.ReportMetric(float64(b.N)*float64(f.history.Seq())/b.Elapsed().Seconds(), "events/s")
	b.ReportMetric(float64(b.N*entries)/b.Elapsed().Seconds(), "entries/s")
}
