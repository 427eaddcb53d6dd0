package eventstest

import (
	"context"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/toolfleet/toolfleet/events"
)

// Fleet is the fleet that [Conformance] is about.
const Fleet events.FleetID = "test"

// Inject stores a message in the stream of its subject as it is, with no
// expectation and no id for the duplicate window, and returns its sequence.
func Inject(t testing.TB, nc *nats.Conn, m events.Message) events.Seq {
	t.Helper()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), HangLimit)
	defer cancel()
	ack, err := js.PublishMsg(ctx, &nats.Msg{Subject: m.Subject, Header: m.Header, Data: m.Data})
	if err != nil {
		t.Fatalf("inject on %s: %v", m.Subject, err)
	}
	return events.Seq(ack.Sequence)
}
