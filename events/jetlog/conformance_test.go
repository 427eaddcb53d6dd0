package jetlog_test

import (
	"sync"
	"testing"
	"testing/synctest"

	"github.com/nats-io/nats.go"

	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/events/eventstest"
	"github.com/toolfleet/toolfleet/events/jetlog"
)

// open opens the log of the kit's fleet.
func open(t *testing.T, nc *nats.Conn, o *jetlog.Options) *jetlog.Log {
	t.Helper()
	l, err := jetlog.Open(t.Context(), nc, eventstest.Fleet, o)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestConformanceOnOneServer(t *testing.T) {
	server := eventstest.OncePerTest(func(t *testing.T) *eventstest.Server { return eventstest.NewServer(t, nil) })
	eventstest.Conformance(t,
		func(t *testing.T, writer string) eventstest.Log {
			return open(t, server(t).Connect(writer), &jetlog.Options{Writer: writer})
		},
		&eventstest.ConformanceOptions{
			Inject: func(t *testing.T, m events.Message) events.Seq {
				return eventstest.Inject(t, server(t).Connect("injector"), m)
			},
			In: synctest.Test,
		})
}

func conforms(t *testing.T, c *fleetOnACluster) {
	c = &fleetOnACluster{c.Cluster, eventstest.Fleet} // the checks are about this one
	var mu sync.Mutex
	conns := make(map[string]*nats.Conn)
	connect := func(name string) *nats.Conn {
		mu.Lock()
		defer mu.Unlock()
		if conns[name] == nil {
			conns[name] = c.ConnectTo(len(conns)%eventstest.Nodes, name)
		}
		return conns[name]
	}
	eventstest.Conformance(t,
		func(t *testing.T, writer string) eventstest.Log {
			return c.open(t, connect(writer), &jetlog.Options{Writer: writer})
		},
		&eventstest.ConformanceOptions{
			Inject: func(t *testing.T, m events.Message) events.Seq {
				return eventstest.Inject(t, connect("injector"), m)
			},
		})
}
