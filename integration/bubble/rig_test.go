package bubble

import (
	"context"
	"fmt"
	"iter"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/errors"
	"github.com/google/uuid"
	"github.com/nats-io/nats.go"

	"github.com/toolfleet/toolfleet/controller"
	"github.com/toolfleet/toolfleet/controller/client"
	"github.com/toolfleet/toolfleet/controller/request"
	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/events/eventstest"
	"github.com/toolfleet/toolfleet/events/jetlog"
	"github.com/toolfleet/toolfleet/integration/invariants"
	"github.com/toolfleet/toolfleet/projections/kvview"
	"github.com/toolfleet/toolfleet/worker"
)

const fleetID = events.FleetID("f")

// fleet is a whole fleet around a broker: real controllers, projectors, workers
// and sessions, and MCP servers behind pipes.
type fleet struct {
	t      *testing.T
	broker *eventstest.Server
	ledger *invariants.Ledger
	log    *jetlog.Log // of the test itself
	client *client.Client
	web    *web
	began  time.Time

	mu       sync.Mutex // guards accepted
	accepted []invariants.Accepted
}

func newFleet(t *testing.T) *fleet {
	f := &fleet{t: t, broker: eventstest.NewServer(t, nil), ledger: &invariants.Ledger{}, web: newWeb(t), began: time.Now()}
	f.log = f.open(f.broker.Connect("test"), "test")
	f.client = client.New(f.log.Conn(), fleetID, nil)
	return f
}

func (f *fleet) open(nc *nats.Conn, writer string) *jetlog.Log { return f.openAhead(nc, writer, 0) }

func (f *fleet) openAhead(nc *nats.Conn, writer string, ahead time.Duration) *jetlog.Log {
	f.t.Helper()
	l, err := jetlog.Open(f.t.Context(), nc, fleetID, &jetlog.Options{
		Writer: writer, Clock: func() time.Duration { return time.Since(f.began) + ahead },
	})
	if err != nil {
		f.t.Fatal(err)
	}
	return l
}

// node is a host of the fleet. What it is told is stored goes to the ledger.
type node struct {
	name   string
	log    *jetlog.Log
	outage *eventstest.Outage

	// ahead is by how much the host's clocks are.
	ahead time.Duration

	stop context.CancelFunc
	done chan struct{}
	// leaving is closed when a worker is to leave.
	leaving chan struct{}
}

func (f *fleet) node(name string) *node { return f.nodeAhead(name, 0) }

// nodeAhead is a host whose clocks are ahead of the others'.
func (f *fleet) nodeAhead(name string, ahead time.Duration) *node {
	f.t.Helper()
	line := invariants.NewLine(f.ledger)
	n := &node{name: name, ahead: ahead, done: make(chan struct{}), leaving: make(chan struct{})}
	n.outage = eventstest.NewOutage(func(string, string) (net.Conn, error) {
		c, err := f.broker.InProcessConn()
		if err != nil {
			return nil, err
		}
		return line.Wrap(c), nil
	})
	n.log = f.openAhead(f.broker.Connect(name, nats.InProcessServer(n.outage), nats.ReconnectBufSize(-1)), name, ahead)
	return n
}

// Append appends an event with the time that the host's clock tells.
func (n *node) Append(ctx context.Context, e events.Event, tip events.Tip) (events.Record, error) {
	if e.Time.IsZero() {
		e.Time = time.Now()
	}
	e.Time = e.Time.Add(n.ahead)
	return n.log.Append(ctx, e, tip)
}

func (n *node) ReadChain(ctx context.Context, c events.Chain, after events.Tip) iter.Seq2[events.Record, error] {
	return n.log.ReadChain(ctx, c, after)
}

// leave has a worker leave as its command does at SIGTERM, and waits until it has.
func (n *node) leave() {
	close(n.leaving)
	<-n.done
}

// run runs parts of the node until it is stopped or the test ends.
func (n *node) run(t *testing.T, parts ...func(ctx context.Context) error) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	n.stop = func() {
		cancel()
		<-n.done
	}
	var all sync.WaitGroup
	for _, part := range parts {
		all.Go(func() {
			if err := part(ctx); err != nil {
				t.Errorf("%s: %v", n.name, err)
			}
		})
	}
	go func() {
		all.Wait()
		close(n.done)
	}()
	t.Cleanup(n.stop)
}

// kill ends the node without a word, at once; what is left of it tries in vain to
// say that it ends.
func (n *node) kill() {
	n.outage.Cut()
	go n.stop()
}

// control runs a controller as its command does: with a projector, and with
// seats that outlive it.
func (f *fleet) control(name string) *node {
	n := f.node(name)
	own, leader := n.log.NewSeat("controller."+name, &jetlog.SeatOptions{Own: true}), n.log.NewSeat("leader", nil)
	id := jetlog.Holder{Folder: name, Incarnation: incarnation()}
	n.run(f.t,
		func(ctx context.Context) error {
			return kvview.Project(ctx, n.log, &kvview.Options{Leads: leader.Held})
		},
		func(ctx context.Context) error {
			sitting, leave := context.WithCancel(context.WithoutCancel(ctx))
			var seats sync.WaitGroup
			for _, s := range []*jetlog.Seat{own, leader} {
				seats.Go(func() {
					if err := s.Run(sitting, id); err != nil {
						f.t.Errorf("%s: %v", name, err)
					}
				})
			}
			defer seats.Wait()
			defer leave()
			return controller.Run(ctx, controller.Parts{
				Journal: n.log, Source: source{n.log}, Orders: n.log, Presence: n.log,
				APIs: []controller.API{controller.NATS(n.log.Conn(), fleetID)},
			}, &controller.Options{
				Self:  events.LedBy{Controller: name, Incarnation: id.Incarnation},
				Leads: leader.Held, Steady: own.Steady, TTL: jetlog.LeaseTTL,
			})
		})
	return n
}

type source struct{ *jetlog.Log }

func (s source) Follow(ctx context.Context, after events.Seq) iter.Seq2[events.Record, error] {
	return s.Log.Follow(ctx, after, nil)
}

func incarnation() events.Incarnation { return events.Incarnation(uuid.NewString()) }

// work runs a worker as its command does: life after life.
func (f *fleet) work(name string) *node { return f.workOn(f.node(name)) }

func (f *fleet) workOn(n *node) *node {
	n.run(f.t, func(ctx context.Context) error {
		for {
			err := f.live(ctx, n)
			select {
			case <-n.leaving:
				return err
			default:
			}
			if ctx.Err() != nil || err != nil && !errors.IsAny(err, jetlog.ErrLeaseLost, worker.ErrSuperseded) {
				return err
			}
			select {
			case <-ctx.Done():
				return nil
			case <-time.After(2 * time.Second):
			}
		}
	})
	return n
}

// live is one life of a worker, under one lease. One that is killed does not mind
// what becomes of its lease.
func (f *fleet) live(ctx context.Context, n *node) error {
	h := jetlog.Holder{Folder: n.name, Incarnation: incarnation()}
	lease, err := n.log.Acquire(ctx, "worker."+n.name, h, nil)
	if err != nil {
		return errors.Wrap(ignoreEnd(ctx, err), "acquire")
	}
	renewing, stopRenewing := context.WithCancel(context.WithoutCancel(ctx))
	defer stopRenewing()
	working, stopWorking := context.WithCancel(ctx)
	defer stopWorking()
	over := make(chan error, 1)
	go func() {
		err := lease.Run(renewing)
		stopWorking()
		over <- err
	}()
	err = worker.Run(working, worker.Parts{
		Journal: n, Inbox: n.log, Blobs: n.log, Calls: n.log, Lease: lease,
	}, &worker.Options{
		Fleet: fleetID, ID: events.WorkerID(n.name), Incarnation: h.Incarnation, Host: n.name,
		Env: func(string) (string, bool) { return "", false }, Dial: f.web.dial, Leave: n.leaving,
	})
	stopRenewing()
	if lost := <-over; lost != nil {
		return errors.CombineErrors(lost, err)
	}
	words, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	_ = lease.Release(words) // one that is cut off cannot
	return err
}

func ignoreEnd(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// ask makes a request about a server, until it is answered, and remembers it.
func (f *fleet) ask(v request.Verb, s events.ServerID, d *events.Definition) request.Answer {
	f.t.Helper()
	return f.do(&request.Request{Verb: v, Server: string(s), Definition: d})
}

// askOf does the same about a worker.
func (f *fleet) askOf(v request.Verb, w events.WorkerID) request.Answer {
	f.t.Helper()
	return f.do(&request.Request{Verb: v, Worker: string(w)})
}

func (f *fleet) do(q *request.Request) request.Answer {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(f.t.Context(), time.Hour)
	defer cancel()
	q.ID = events.RequestID(uuid.NewString())
	a, err := f.client.Do(ctx, q)
	if err != nil {
		f.t.Errorf("%s: %v", q.About(), err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.accepted = append(f.accepted, invariants.Accepted{
		Server: events.ServerID(q.Server), Worker: events.WorkerID(q.Worker), ID: q.ID, Answer: a,
	})
	return a
}

// numbered is the id and host of one of the fleet's servers.
func numbered(i int) events.ServerID { return events.ServerID(fmt.Sprintf("s%d", i)) }
