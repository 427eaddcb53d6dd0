package events_test

import (
	"testing"
	"time"

	"github.com/toolfleet/toolfleet/events"
)

// 690 bytes with headers, 190 of them body: the size of an event in a long
// history.
func benchMessage(b *testing.B) events.Message {
	exit := 1
	m, err := events.Encode(events.DefaultFleet, &events.Event{
		Chain: events.InstanceChain("github", "0"),
		Body: events.Failed{
			Failure: events.Failure{
				Code: events.StartupCrash, Phase: events.PhaseSpawn,
				Message: "the process ended before the handshake", Retry: true,
			},
			Attempt: 3, Exit: &exit, StderrTail: "panic: no token in the environment\n",
		},
		ID: "01890a5d-ac96-774b-bcce-b302099a8057", Source: "toolfleet/default/worker/host-a",
		Time:  time.Date(2026, 1, 2, 3, 4, 5, 678901234, time.UTC),
		Epoch: 8, Attempt: 3, Cause: "01890a5d-ac96-774b-bcce-b302099a8056",
		Trace: events.Trace{Parent: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"},
		Prev:  events.Link(events.DigestOf([]byte("the event before"))),
	})
	if err != nil {
		b.Fatal(err)
	}
	return m
}

func BenchmarkRead(b *testing.B) {
	m := benchMessage(b)
	b.ReportAllocs()
	for b.Loop() {
		if r := events.Read(m, 1); r.Attempt != 3 {
			b.Fatal(r.Body)
		}
	}
}

// An event with a small body, as most are.
func BenchmarkReadSmall(b *testing.B) {
	m := benchMessage(b)
	m.Header["ce-type"] = []string{events.KindRestarted.Type()}
	m.Data = []byte(`{"attempt":3,"downtimeMs":2345}`)
	b.ReportAllocs()
	for b.Loop() {
		if r := events.Read(m, 1); r.Attempt != 3 {
			b.Fatal(r.Body)
		}
	}
}

func BenchmarkVerifier(b *testing.B) {
	m := benchMessage(b)
	r := events.Read(m, 1)
	v := events.NewVerifier(0, nil)
	b.ReportAllocs()
	for b.Loop() {
		r.Seq, r.Prev = v.Seq()+1, v.Tip(r.Chain).Link
		if err := v.Advance(&r); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkLinkOf(b *testing.B) {
	m := benchMessage(b)
	b.ReportAllocs()
	for b.Loop() {
		events.LinkOf(m)
	}
}
