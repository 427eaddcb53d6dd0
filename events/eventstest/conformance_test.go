package eventstest_test

import (
	"testing"
	"testing/synctest"

	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/events/eventstest"
)

func TestMemoryConforms(t *testing.T) {
	m := eventstest.NewMemory(eventstest.Fleet)
	eventstest.Conformance(t,
		func(_ *testing.T, writer string) eventstest.Log { return m.Open(writer) },
		&eventstest.ConformanceOptions{
			Inject: func(_ *testing.T, msg events.Message) events.Seq { return m.Inject(msg) },
		})
}

func TestMemoryConformsInABubble(t *testing.T) {
	memory := eventstest.OncePerTest(func(*testing.T) *eventstest.Memory {
		return eventstest.NewMemory(eventstest.Fleet)
	})
	eventstest.Conformance(t,
		func(t *testing.T, writer string) eventstest.Log { return memory(t).Open(writer) },
		&eventstest.ConformanceOptions{
			Inject: func(t *testing.T, msg events.Message) events.Seq { return memory(t).Inject(msg) },
			In:     synctest.Test,
		})
}
