package controller

import (
	"context"
	"fmt"
	"iter"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/errors"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/toolfleet/toolfleet/controller/request"
	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/events/eventstest"
	"github.com/toolfleet/toolfleet/events/jetlog"
	"github.com/toolfleet/toolfleet/projections"
)

// fleet is controllers and workers around a broker, in a bubble. Workers behave,
// but what they run is pretended.
type fleet struct {
	t   *testing.T
	s   *eventstest.Server
	log *jetlog.Log // of the test itself

	mu sync.Mutex // guards what follows
	// runs is who runs an instance, and under which lease.
	runs map[events.Chain]running
}

type running struct {
	worker string
	epoch  events.Epoch
	lease  *jetlog.Lease
}

func newFleet(t *testing.T) *fleet {
	s := eventstest.NewServer(t, nil)
	return &fleet{t: t, s: s, log: openAs(t, s.Connect("test"), "test", nil), runs: make(map[events.Chain]running)}
}

func openAs(t *testing.T, nc *nats.Conn, writer string, clock func() time.Duration) *jetlog.Log {
	t.Helper()
	l, err := jetlog.Open(t.Context(), nc, eventstest.Fleet, &jetlog.Options{Writer: writer, Clock: clock})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// node is a host of the fleet, with a line to the broker and a clock.
type node struct {
	name  string
	log   *jetlog.Log
	line  *eventstest.Outage
	began time.Time

	mu    sync.Mutex // guards what follows
	slept time.Duration

	stop context.CancelFunc
	done chan struct{}
}

func (f *fleet) node(name string) *node {
	n := &node{name: name, line: f.s.Outage(), began: time.Now(), done: make(chan struct{})}
	nc := f.s.Connect(name, nats.InProcessServer(n.line), nats.ReconnectBufSize(-1))
	n.log = openAs(f.t, nc, name, n.now)
	return n
}

func (n *node) now() time.Duration {
	n.mu.Lock()
	defer n.mu.Unlock()
	return time.Since(n.began) + n.slept
}

// pause is what a process sees that was stopped for a while: all at once it is
// later.
func (n *node) pause(d time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.slept += d
}

// run runs f until it is stopped, killed or the test ends.
func (n *node) run(t *testing.T, f func(ctx context.Context)) {
	ctx, cancel := context.WithCancel(t.Context())
	n.stop = func() {
		cancel()
		<-n.done
	}
	go func() {
		defer close(n.done)
		f(ctx)
	}()
	t.Cleanup(n.stop)
}

// kill ends the node without a word.
func (n *node) kill() {
	n.line.Cut()
	n.stop()
}

// control is a controller of the fleet.
type control struct {
	*node
	own, leader *jetlog.Seat
	handle      Handler
}

// control runs a controller as its command does: the seats outlive it.
func (f *fleet) control(name, folder string) *control {
	c := &control{node: f.node(name)}
	c.own, c.leader = c.log.NewSeat("controller."+name, &jetlog.SeatOptions{Own: true}), c.log.NewSeat("leader", nil)
	serving := make(chan struct{})
	id := jetlog.Holder{Folder: folder, Incarnation: events.Incarnation(fmt.Sprintf("%s-%d", name, time.Now().UnixNano()))}
	c.run(f.t, func(ctx context.Context) {
		seated, leave := context.WithCancel(context.WithoutCancel(ctx))
		var seats sync.WaitGroup
		for _, s := range []*jetlog.Seat{c.own, c.leader} {
			seats.Go(func() {
				if err := s.Run(seated, id); err != nil {
					f.t.Errorf("%s: %v", name, err)
				}
			})
		}
		err := Run(ctx, Parts{
			Journal: c.log, Source: history{c.log}, Orders: c.log, Presence: c.log,
			APIs: []API{func(ctx context.Context, h Handler) error {
				c.handle = h
				close(serving)
				<-ctx.Done()
				return nil
			}},
		}, &Options{
			Self:  events.LedBy{Controller: name, Incarnation: id.Incarnation},
			Leads: c.leader.Held, Steady: c.own.Steady,
		})
		leave()
		seats.Wait()
		if err != nil {
			f.t.Errorf("%s: %v", name, err)
		}
	})
	<-serving
	return c
}

type history struct{ *jetlog.Log }

func (h history) Follow(ctx context.Context, after events.Seq) iter.Seq2[events.Record, error] {
	return h.Log.Follow(ctx, after, nil)
}

func (f *fleet) declare(c *control, server string, d events.Definition) {
	f.t.Helper()
	q := &request.Request{Verb: request.Declare, Server: server, Definition: &d, ID: events.RequestID("declare " + server)}
	if _, err := c.handle(f.t.Context(), q); err != nil {
		f.t.Fatal(err)
	}
}

// leading waits for the event that says who leads, and returns it.
func (f *fleet) leading(after events.Seq) (events.Record, string) {
	f.t.Helper()
	r := eventstest.Expect(f.t, f.log, after, eventstest.On(events.FleetChain(), events.KindLedBy)...)[0]
	return r, r.Body.(events.LedBy).Controller
}

// head is the end of the history.
func (f *fleet) head() events.Seq {
	f.t.Helper()
	h, err := f.log.Head(f.t.Context())
	if err != nil {
		f.t.Fatal(err)
	}
	return h.Seq
}

// ready waits until an instance has listed its tools after a position, and
// returns its last assignment.
func (f *fleet) ready(after events.Seq, c events.Chain) (of events.Assigned, listed events.Record) {
	f.t.Helper()
	found := eventstest.Expect(f.t, f.log, after, eventstest.On(c, events.KindAssigned, events.KindToolsListed)...)
	return found[0].Body.(events.Assigned), found[1]
}

// losses are the workers that are written down as lost after a position.
func (f *fleet) losses(after events.Seq) (all []events.Record) {
	f.t.Helper()
	for _, r := range eventstest.Stored(f.t, f.log, after) {
		if r.Kind() == events.KindLost && r.Chain.Kind() == events.OfWorker {
			all = append(all, r)
		}
	}
	return all
}

// endKeys ends all keys of the presence bucket, as the broker does when its clock
// is set forward.
func (f *fleet) endKeys() {
	f.t.Helper()
	js, err := jetstream.New(f.log.Conn())
	if err != nil {
		f.t.Fatal(err)
	}
	bucket := jetlog.StreamName(eventstest.Fleet, "presence")
	kv, err := js.KeyValue(f.t.Context(), bucket)
	if err != nil {
		f.t.Fatal(err)
	}
	keys, err := kv.Keys(f.t.Context())
	if err != nil {
		f.t.Fatal(err)
	}
	for _, k := range keys {
		m := &nats.Msg{Subject: "$KV." + bucket + "." + k, Header: nats.Header{
			"Nats-Marker-Reason": {"MaxAge"}, "Nats-Rollup": {"sub"}, "Nats-TTL": {"1h"},
		}}
		if _, err := js.PublishMsg(f.t.Context(), m); err != nil {
			f.t.Fatal(err)
		}
	}
}

// work runs a worker: life after life, each under its lease.
func (f *fleet) work(name string) *node {
	n := f.node(name)
	n.run(f.t, func(ctx context.Context) {
		for ctx.Err() == nil {
			h := jetlog.Holder{Folder: name, Incarnation: events.Incarnation(fmt.Sprintf("%s-%d", name, time.Now().UnixNano()))}
			lease, err := n.log.Acquire(ctx, "worker."+name, h, nil)
			if err != nil {
				continue // the context has ended
			}
			f.live(ctx, n, h.Incarnation, lease)
			select {
			case <-time.After(2 * time.Second):
			case <-ctx.Done():
			}
		}
	})
	return n
}

// live is one life of a worker. It ends with the lease, or in order.
func (f *fleet) live(ctx context.Context, n *node, i events.Incarnation, lease *jetlog.Lease) {
	renewing, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	life, end := context.WithCancel(ctx)
	defer end()
	over := make(chan error, 1)
	go func() {
		over <- lease.Run(renewing)
		end()
	}()
	id := events.WorkerID(n.name)
	f.say(life, n, events.Event{Chain: events.WorkerChain(id), Body: events.Joined{Incarnation: i}}, nil)
	for c, err := range n.log.FollowCommands(life, id) {
		if err == nil && c.Command.Incarnation == i {
			f.obey(life, n, lease, c)
		}
	}
	if ctx.Err() != nil { // and not the lease: it leaves in order, if it can
		words, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		for _, c := range f.over(n.name) {
			f.say(words, n, events.Event{Chain: c.chain, Body: events.HasStopped{How: "closed"}, Epoch: c.epoch}, nil)
		}
		f.say(words, n, events.Event{Chain: events.WorkerChain(id), Body: events.Left{Incarnation: i}}, nil)
		stop()
		<-over
		_ = lease.Release(words) // one that is cut off cannot
		return
	}
	f.over(n.name)
	if err := <-over; err != nil && !errors.Is(err, jetlog.ErrLeaseLost) {
		f.t.Errorf("%s: %v", n.name, err)
	}
}

// obey does what a command wants, if it is still the owner's to do.
func (f *fleet) obey(ctx context.Context, n *node, lease *jetlog.Lease, c events.CommandRecord) {
	chain := events.InstanceChain(c.Server, c.Instance)
	owner := func(i *projections.Instance) bool {
		return i.State.Owned() && i.Epoch == c.Command.Epoch && i.Incarnation == c.Command.Incarnation
	}
	say := func(b events.Body) bool {
		return f.say(ctx, n, events.Event{Chain: chain, Body: b, Epoch: c.Command.Epoch}, owner)
	}
	if c.Command.Want == events.Stopped {
		f.mu.Lock()
		delete(f.runs, chain)
		f.mu.Unlock()
		say(events.HasStopped{How: "closed"})
		return
	}
	if !say(events.Connecting{Attempt: 1, Generation: c.Command.Generation, Definition: c.Command.Digest}) || lease.Remaining() <= 0 {
		return
	}
	f.mu.Lock()
	// Invariant: never two. Who cannot renew has ended what it ran by the end of
	// its lease.
	if r, ok := f.runs[chain]; ok && r.worker != n.name && r.lease.Remaining() > 0 {
		f.t.Errorf("%s runs on %s in epoch %d and on %s in epoch %d", chain, r.worker, r.epoch, n.name, c.Command.Epoch)
	}
	f.runs[chain] = running{n.name, c.Command.Epoch, lease}
	f.mu.Unlock()
	say(events.Connected{})
	say(events.ToolsListed{})
}

type ended struct {
	chain events.Chain
	epoch events.Epoch
}

// over ends all that a worker runs.
func (f *fleet) over(worker string) (all []ended) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for c, r := range f.runs {
		if r.worker == worker {
			delete(f.runs, c)
			all = append(all, ended{c, r.epoch})
		}
	}
	return all
}

// say appends an event at the end of its chain, if the fold of the chain allows
// it.
func (f *fleet) say(ctx context.Context, n *node, e events.Event, may func(*projections.Instance) bool) bool {
	for ctx.Err() == nil {
		var tip events.Tip
		var i projections.Instance
		var failed error
		for r, err := range n.log.ReadChain(ctx, e.Chain, events.Tip{}) {
			if err != nil {
				failed = err
				break
			}
			tip, i = r.Tip(), projections.EvolveInstance(i, r)
		}
		if failed == nil && may != nil && !may(&i) {
			return false
		}
		if failed == nil {
			_, failed = n.log.Append(ctx, e, tip)
		}
		if failed == nil {
			return true
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
		}
	}
	return false
}
