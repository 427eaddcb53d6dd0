package jetlog_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/events/eventstest"
	"github.com/toolfleet/toolfleet/events/jetlog"
)

// crash races writers while a follower reads along and kill is called, after
// each of so many operations. Whatever was acknowledged must be there, once and
// in order, and the follower must have seen it.
func crash(t *testing.T, logs []eventstest.Log, kills []int, kill func()) {
	t.Helper()
	ctx := limit(t)
	before, err := logs[0].Head(ctx)
	if err != nil {
		t.Fatal(err)
	}
	reader, stop := context.WithCancel(ctx)
	defer stop()
	followed := make(chan []events.Record, 1)
	last := newID()
	go func() {
		var all []events.Record
		for r, err := range logs[0].Follow(reader, before.Seq, nil) {
			if err != nil {
				t.Errorf("the follower: %v", err)
				break
			}
			if all = append(all, r); r.ID == last {
				break
			}
		}
		followed <- all
	}()
	raceWhile(ctx, t, logs, chains(2*len(logs)), rounds, func(r *recorder) {
		for _, n := range kills {
			select {
			case <-r.after(n):
				kill()
			case <-ctx.Done():
				t.Errorf("there were no %d operations", n)
				return
			}
		}
	})
	e := move(chains(1)[0], 1)
	e.ID = last
	if _, err := logs[0].Append(ctx, e, events.Tip{}); err != nil {
		t.Fatal(err)
	}
	if d := eventstest.Diff(eventstest.Stored(t, logs[1], before.Seq), <-followed); d != "" {
		t.Errorf("the history (-stored +followed):\n%s", d)
	}
}

func TestNoAcknowledgedEventIsLostWhenTheServerIsKilled(t *testing.T) {
	t.Parallel()
	p := eventstest.StartProcess(t, nil)
	var logs []eventstest.Log
	for i := range 4 {
		logs = append(logs, open(t, p.Connect(fmt.Sprint(i)), nil))
	}
	crash(t, logs, []int{300}, func() {
		p.Kill()
		p.Start()
	})
}

func TestNoAcknowledgedEventIsLostWhenTheLeaderIsKilled(t *testing.T) {
	t.Parallel()
	c := eventstest.NewCluster(t, &eventstest.ClusterOptions{Processes: true})
	var logs []eventstest.Log
	for i := range 4 {
		logs = append(logs, open(t, c.Connect(fmt.Sprint(i)), &jetlog.Options{Replicas: eventstest.Nodes}))
	}
	crash(t, logs, []int{300}, func() {
		leader := c.Leader(jetlog.StreamName(eventstest.Fleet, "events"))
		c.Kill(leader)
		c.Leader(jetlog.StreamName(eventstest.Fleet, "events"))
		c.Start(leader)
	})
}
