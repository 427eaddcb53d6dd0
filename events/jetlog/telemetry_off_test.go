package jetlog

import (
	"testing"

	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/otel"
	"github.com/toolfleet/toolfleet/otel/oteltest"
)

// With telemetry off, an append and a command cost nothing of it.
func TestNothingIsTold(t *testing.T) {
	oteltest.Setenv(t)
	tel, err := otel.Start(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tel.Shutdown(t.Context()) }()
	told, ctx := newTold("worker/w"), t.Context()
	c, in := &events.Command{}, &events.Trace{Parent: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"}
	if n := testing.AllocsPerRun(100, func() {
		if told.listens() {
			t.Error("somebody listens")
		}
		told.ordered(ctx, told.order(ctx, events.Address{}, c, in), nil)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
