package jetlog_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/events/eventstest"
	"github.com/toolfleet/toolfleet/events/jetlog"
)

// TestADamagedReplicaIsNotTakenForTheHistory damages one replica of three, which
// the broker does not notice: it serves what is left as if it were all.
func TestADamagedReplicaIsNotTakenForTheHistory(t *testing.T) {
	t.Parallel()
	c := eventstest.NewCluster(t, nil)
	ctx := limit(t)
	l := open(t, c.Connect("client"), &jetlog.Options{Replicas: eventstest.Nodes})
	all := grow(ctx, t, l, github, events.Tip{}, 200)
	before := head(ctx, t, l)
	stream := jetlog.StreamName(eventstest.Fleet, "events")
	c.WaitCurrent(stream)
	damaged := (c.Leader(stream) + 1) % eventstest.Nodes
	c.Stop(damaged)
	flip(1, 2)(t, blocks(t, c.Dir(damaged))[0])
	c.Start(damaged)
	c.WaitCurrent(stream)

	var wg sync.WaitGroup
	for i := range 12 {
		l := open(t, c.ConnectTo(i%eventstest.Nodes, fmt.Sprint(i)), &jetlog.Options{Replicas: eventstest.Nodes})
		wg.Go(func() {
			began := time.Now()
			got, err := rebuild(ctx, l, before)
			t.Logf("reader %d: up to %d of %d in %s, error %v", i, len(got), len(all), time.Since(began), err)
			checkHonest(t, all, got, err)
		})
	}
	wg.Wait()
}

// lastCommandsAreTheLast reads them on a cluster, where not every replica has
// what was acknowledged.
func lastCommandsAreTheLast(t *testing.T, c *fleetOnACluster) {
	ctx := limit(t)
	var logs []*jetlog.Log
	for i := range eventstest.Nodes {
		logs = append(logs, c.open(t, c.ConnectTo(i, fmt.Sprint(i)), nil))
	}
	a := events.Address{Worker: "w", Server: "s", Instance: "0"}
	var seen events.Seq
	stale := 0
	const puts = 200
	for i := range puts {
		var err error
		command := &events.Command{Want: events.Stopped, Incarnation: "i", Epoch: events.Epoch(i + 1)}
		if seen, err = logs[i%len(logs)].PutCommand(ctx, a, command, seen); err != nil {
			t.Fatal(err)
		}
		last, err := logs[(i+1)%len(logs)].LastCommands(ctx)
		if err != nil {
			t.Errorf("after put %d: %v", i+1, err)
			continue
		}
		if len(last) != 1 || last[0].Seq != seen {
			stale++
		}
	}
	if stale > 0 {
		t.Errorf("%d of %d reads did not hold the command acknowledged before", stale, puts)
	}
}
