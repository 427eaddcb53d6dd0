package jetlog_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/errors"

	"github.com/toolfleet/toolfleet/events/eventstest"
	"github.com/toolfleet/toolfleet/events/jetlog"
)

// Replicated buckets answer conflicts with another code than single ones, and
// each client is connected to another node.
func TestLeasesAndSecretsOnACluster(t *testing.T) {
	const clients = 6
	c := eventstest.NewCluster(t, nil)
	var logs []*jetlog.Log
	for i := range clients {
		nc := c.ConnectTo(i%eventstest.Nodes, fmt.Sprint(i))
		logs = append(logs, open(t, nc, &jetlog.Options{Replicas: eventstest.Nodes, MaxBytes: 10 << 20}))
	}
	t.Run("one of many acquires", func(t *testing.T) { oneAcquires(t, logs) })
	t.Run("one value is stored once", func(t *testing.T) { oneValue(t, logs) })
	t.Run("a lease outlasts its leader", func(t *testing.T) {
		ends := make(chan time.Duration, 10)
		x, err := logs[0].Acquire(t.Context(), "worker.w", jetlog.Holder{Folder: "a", Incarnation: "1"},
			&jetlog.LeaseOptions{Renewed: func(end time.Duration) { ends <- end }})
		if err != nil {
			t.Fatal(err)
		}
		<-ends
		r := run(t, x)
		c.Stop(1)
		c.Stop(2)
		c.Start(1) // without it there is no majority
		select {
		case <-ends:
		case err := <-r.result:
			t.Fatalf("the lease was lost: %v", err)
		case <-time.After(x.Remaining()):
			t.Fatal("the lease ended")
		}
	})
}

func oneAcquires(t *testing.T, logs []*jetlog.Log) {
	for round := range 10 {
		leases := make([]*jetlog.Lease, len(logs))
		var wg sync.WaitGroup
		for i, l := range logs {
			wg.Go(func() {
				var err error
				leases[i], err = l.Acquire(t.Context(), "leader", jetlog.Holder{Folder: fmt.Sprint(i), Incarnation: "1"}, nil)
				if err != nil && !errors.Is(err, jetlog.ErrHeld) {
					t.Errorf("round %d: %v", round, err)
				}
			})
		}
		wg.Wait()
		leases = slices.DeleteFunc(leases, func(x *jetlog.Lease) bool { return x == nil })
		if len(leases) != 1 {
			t.Fatalf("round %d: %d hold the lease", round, len(leases))
		}
		if err := leases[0].Release(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

func oneValue(t *testing.T, logs []*jetlog.Log) {
	id := identity(t)
	refs := make([]string, len(logs))
	var wg sync.WaitGroup
	for i, l := range logs {
		wg.Go(func() {
			s, err := l.Secrets(t.Context())
			if err == nil {
				err = s.Adopt(t.Context(), id)
			}
			if err == nil {
				refs[i], err = s.Put(t.Context(), "github", "env.TOKEN", "same")
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if refs = slices.Compact(refs); len(refs) != 1 || refs[0] != "${secret:github/env.TOKEN#1}" {
		t.Errorf("one value was stored as %q", refs)
	}
}
