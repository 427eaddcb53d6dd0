package events_test

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/toolfleet/toolfleet/events"
)

// What an event looks like in the stream: any NATS client can read it.
func ExampleEncode() {
	m, err := events.Encode("prod", &events.Event{
		Chain:  events.InstanceChain("github", "0"),
		Body:   events.Failed{Failure: events.NewFailure(events.Exited, events.PhaseRun, "status 1"), Attempt: 3},
		ID:     "01890a5d-ac96-774b-bcce-b302099a8057",
		Source: "toolfleet/prod/worker/host-a",
		Time:   time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
		Epoch:  8, Attempt: 3,
		Actor: "zoë@host-b",
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(m.Subject)
	for _, name := range slices.Sorted(maps.Keys(m.Header)) {
		fmt.Printf("%s: %s\n", name, m.Header[name][0])
	}
	fmt.Println(string(m.Data))
	// Output:
	// tf.evt.prod.instance.github.0
	// ce-id: 01890a5d-ac96-774b-bcce-b302099a8057
	// ce-source: toolfleet/prod/worker/host-a
	// ce-specversion: 1.0
	// ce-subject: instance.github.0
	// ce-time: 2026-01-02T03:04:05Z
	// ce-type: dev.toolfleet.failed.v1
	// content-type: application/json
	// tf-actor: zo%C3%AB@host-b
	// tf-attempt: 3
	// tf-epoch: 8
	// {"failure":{"code":"exited","phase":"run","message":"status 1","retry":true},"attempt":3}
}

// A reader switches over the bodies it cares about, and proves with a Verifier
// that none is missing.
func ExampleRead() {
	var v events.Verifier
	for i, m := range storedMessages() {
		r := events.Read(m, events.Seq(i+1))
		if err := v.Advance(&r); err != nil {
			fmt.Println(err)
			return
		}
		switch b := r.Body.(type) {
		case events.Assigned:
			fmt.Println(r.Seq, r.Chain, "belongs to", b.Worker)
		case events.Failed:
			fmt.Println(r.Seq, r.Chain, "failed:", b.Failure)
		default:
			fmt.Println(r.Seq, r.Chain, r.Kind())
		}
	}
	// Output:
	// 1 instance.github.0 belongs to host-a
	// 2 instance.github.0 failed: exited (run): status 1
	// event 3 of instance.github.0 does not link to event 2: one of them was altered, or an event between them is lost
}

// A definition is refused with every reason at once.
func ExampleDefinition_Validate() {
	d, err := events.DecodeDefinition("my server", []byte(`{"command": "npx", "url": "mcp.example", "update": "rolling"}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(d.Validate("my-server"))
	// Output:
	// server "my-server": command and url are both set: keep one; url must be an absolute http or https URL; update "rolling": use replace or overlap
}

// storedMessages are two events and one that does not link to them.
func storedMessages() []events.Message {
	var (
		stored []events.Message
		prev   events.Link
	)
	for i, body := range []events.Body{
		events.Assigned{Worker: "host-a", Incarnation: "i-1", Epoch: 8},
		events.Failed{Failure: events.NewFailure(events.Exited, events.PhaseRun, "status 1"), Attempt: 1},
		events.Released{},
	} {
		if i == 2 {
			prev = "an event that is not there"
		}
		m, err := events.Encode("prod", &events.Event{
			Chain: events.InstanceChain("github", "0"), Body: body, Epoch: 8, Prev: prev,
			ID: events.EventID(fmt.Sprintf("id-%d", i)), Source: "toolfleet/prod/worker/host-a", Time: time.Unix(1_767_000_000, 0),
		})
		if err != nil {
			panic(err)
		}
		prev = events.LinkOf(m)
		stored = append(stored, m)
	}
	return stored
}
