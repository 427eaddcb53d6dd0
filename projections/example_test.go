package projections_test

import (
	"fmt"

	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/projections"
)

func ExampleHistory() {
	var h projections.History
	apply := func(c events.Chain, b events.Body) {
		h.Apply(events.Record{Seq: h.Seq() + 1, Event: events.Event{Chain: c, Epoch: 1, Body: b}})
	}
	definition := events.Definition{Command: "github-mcp-server"}
	apply(events.ServerChain("github"), events.Declared{Definition: definition})
	github := events.InstanceChain("github", "0")
	apply(github, events.Assigned{Worker: "host-a", Incarnation: "i", Epoch: 1})
	apply(github, events.Connecting{Attempt: 1, Definition: definition.Digest()})
	apply(github, events.Connected{Protocol: "2025-11-25", Era: "handshake"})
	fmt.Println(h.Instance("github", "0").State)
	apply(github, events.ToolsListed{Listing: events.Listing{Digest: "…", Count: 12}})

	s := projections.NewStatus(h.Server("github"), h.InstancesOf("github"))
	fmt.Println(s.State, s.Status, s.Tools, s.ToolsState, "on", s.Worker)
	// Output:
	// listing
	// ready connected 12 live on host-a
}

func ExampleScheme_Name() {
	fmt.Println(projections.Qualified.Name("github", "create_issue"))
	fmt.Println(projections.Qualified.Name("files", "read file"))
	// Output:
	// github__create_issue
	// files__read_file_h3b4tzntux2gg5klo
}
