package jetlog_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/errors"
	"github.com/nats-io/nats.go"

	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/events/eventstest"
	"github.com/toolfleet/toolfleet/events/jetlog"
)

// fleetOnACluster is a fleet whose streams are replicated. Others are on the
// same cluster.
type fleetOnACluster struct {
	*eventstest.Cluster
	fleet events.FleetID
}

// open opens the log of the fleet.
func (c *fleetOnACluster) open(t *testing.T, nc *nats.Conn, o *jetlog.Options) *jetlog.Log {
	t.Helper()
	var replicated jetlog.Options
	if o != nil {
		replicated = *o
	}
	replicated.Replicas = eventstest.Nodes
	l, err := jetlog.Open(t.Context(), nc, c.fleet, &replicated)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// TestOnACluster runs what leaves all nodes alone on one cluster: to start one
// for each takes longer than most of them.
func TestOnACluster(t *testing.T) {
	t.Parallel()
	c := eventstest.NewCluster(t, nil)
	for _, x := range []struct {
		fleet events.FleetID
		test  func(t *testing.T, c *fleetOnACluster)
	}{
		{"conformance", conforms},
		{"lost-answers", lostAnswersAreFoundAgain},
		{"races", racesOnACluster},
		{"leases-and-secrets", leasesAndSecrets},
		{"last-commands", lastCommandsAreTheLast},
		{"full", func(t *testing.T, c *fleetOnACluster) {
			goesOnWhenRaised(t, c.open(t, c.Connect("client"), &jetlog.Options{MaxBytes: smallHistory}))
		}},
	} {
		t.Run(string(x.fleet), func(t *testing.T) {
			t.Parallel()
			x.test(t, &fleetOnACluster{c, x.fleet})
		})
	}
}

// Replicated buckets answer conflicts with another code than single ones, and
// each client is connected to another node.
func leasesAndSecrets(t *testing.T, c *fleetOnACluster) {
	const clients = 6
	var logs []*jetlog.Log
	for i := range clients {
		logs = append(logs, c.open(t, c.ConnectTo(i%eventstest.Nodes, fmt.Sprint(i)), nil))
	}
	t.Run("one of many acquires", func(t *testing.T) {
		var wg sync.WaitGroup
		for i := range 5 {
			wg.Go(func() {
				oneAcquires(t, logs, fmt.Sprintf("worker.%d", i)) // there is nothing
				oneAcquires(t, logs, fmt.Sprintf("worker.%d", i)) // there is a marker
			})
		}
		wg.Wait()
	})
	t.Run("one value is stored once", func(t *testing.T) { oneValue(t, logs) })
}

func TestALeaseOutlastsItsLeader(t *testing.T) {
	t.Parallel()
	c := eventstest.NewCluster(t, nil)
	l := open(t, c.ConnectTo(0, "client"), &jetlog.Options{Replicas: eventstest.Nodes})
	ends := make(chan time.Duration, 10)
	x, err := l.Acquire(t.Context(), "worker.w", jetlog.Holder{Folder: "a", Incarnation: "1"},
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
}

func oneAcquires(t *testing.T, logs []*jetlog.Log, key string) {
	leases := make([]*jetlog.Lease, len(logs))
	var wg sync.WaitGroup
	for i, l := range logs {
		wg.Go(func() {
			var err error
			leases[i], err = l.Acquire(t.Context(), key, jetlog.Holder{Folder: fmt.Sprint(i), Incarnation: "1"}, nil)
			if err != nil && !errors.Is(err, jetlog.ErrHeld) {
				t.Errorf("%s: %v", key, err)
			}
		})
	}
	wg.Wait()
	leases = slices.DeleteFunc(leases, func(x *jetlog.Lease) bool { return x == nil })
	if len(leases) != 1 {
		t.Errorf("%s: %d hold the lease", key, len(leases))
	}
	for _, x := range leases {
		if err := x.Release(t.Context()); err != nil {
			t.Errorf("%s: %v", key, err)
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
