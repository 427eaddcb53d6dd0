package jetlog_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/events/eventstest"
	"github.com/toolfleet/toolfleet/events/jetlog"
)

// contender wants the lease all the time, and dies now and then.
type contender struct {
	*host
	mu    sync.Mutex
	lease *jetlog.Lease
	lives int
}

func (c *contender) holds() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.lease != nil && c.lease.Remaining() > 0
}

func (c *contender) set(x *jetlog.Lease) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lease = x
}

// live is one incarnation after another, each killed at random: nothing is
// released, but what a process held ends with it.
func (c *contender) live(ctx context.Context, rng *rand.Rand) {
	for ctx.Err() == nil {
		c.lives++
		id := jetlog.Holder{Folder: c.id.Folder, Incarnation: events.Incarnation(fmt.Sprint(c.lives))}
		life, kill := context.WithTimeout(ctx, time.Duration(1+rng.IntN(300))*time.Second)
		for life.Err() == nil {
			x, err := c.log.Acquire(life, "leader", id, nil)
			if err == nil {
				c.set(x)
				_ = x.Run(life) // lost or killed: either way it begins again
				c.set(nil)
			} else {
				time.Sleep(time.Second)
			}
		}
		kill()
		if rng.IntN(2) == 0 { // it is not started again for a while
			select {
			case <-time.After(time.Duration(rng.IntN(90)) * time.Second):
			case <-ctx.Done():
			}
		}
	}
}

// Whatever happens to the lines and the broker, two never hold a lease at once.
func TestLeaseNeverHasTwoHolders(t *testing.T) {
	for seed := range uint64(6) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { neverTwoHolders(t, seed) })
		})
	}
}

func neverTwoHolders(t *testing.T, seed uint64) {
	s := eventstest.NewServer(t, nil)
	var all []*contender
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for i := range 3 {
		// One of them keeps what it publishes during an outage for later, as no
		// connection of ours would.
		buffer := []int{-1, -1, nats.DefaultReconnectBufSize}[i]
		c := &contender{host: newHost(t, s, string(rune('a'+i)), nats.ReconnectBufSize(buffer))}
		all = append(all, c)
		rng := rand.New(rand.NewPCG(seed, uint64(i)))
		wg.Go(func() { c.live(ctx, rng) })
	}
	wg.Go(func() { misfortune(ctx, s, all, rand.New(rand.NewPCG(seed, 99))) })

	held, handovers, last := 0, 0, -1
	const step, steps = 50 * time.Millisecond, 20 * 60 * 20 // 20 minutes
	for range steps {
		time.Sleep(step)
		holder := -1
		for i, c := range all {
			if !c.holds() {
				continue
			}
			if holder >= 0 {
				t.Fatalf("seed %d: %s and %s hold the lease", seed, all[holder].id.Folder, c.id.Folder)
			}
			holder = i
		}
		if holder >= 0 {
			held++
			if last >= 0 && holder != last {
				handovers++
			}
			last = holder
		}
	}
	cancel()
	wg.Wait()
	// A run in which nobody held it, or it never changed hands, proves nothing.
	if held < steps/10 || handovers < 2 {
		t.Errorf("seed %d: held %d of %d times, %d handovers", seed, held, steps, handovers)
	}
}

// misfortune does something to a line, or to the broker, again and again.
func misfortune(ctx context.Context, s *eventstest.Server, all []*contender, rng *rand.Rand) {
	sleep := func(d time.Duration) {
		select {
		case <-time.After(d):
		case <-ctx.Done():
		}
	}
	for ctx.Err() == nil {
		sleep(time.Duration(rng.IntN(20_000)) * time.Millisecond)
		line := all[rng.IntN(len(all))].line
		length := time.Duration(rng.IntN(30_000)) * time.Millisecond
		switch rng.IntN(6) {
		case 0:
			line.Cut()
			sleep(length)
			line.Restore()
		case 1:
			line.Freeze()
			sleep(length)
			line.Restore()
		case 2:
			line.LoseAck("$KV.")
		case 3:
			line.LosePublish("$KV.")
		case 4:
			line.Break()
		case 5:
			s.Stop()
			sleep(length)
			s.Start()
		}
	}
}
