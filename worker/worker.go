package worker

import (
	"context"
	"sync"
	"time"

	"github.com/cockroachdb/errors"

	"github.com/toolfleet/toolfleet/events"
)

// leasePoll is how often the lease is looked at. Its clock goes on while the
// host sleeps, which timers do not.
const leasePoll = 250 * time.Millisecond

// Run joins, follows the commands to the worker and runs what they want, until
// the context ends or there is a fault. It then stops everything, in parallel
// and in bounded time, and says that it left. Nothing of it is left when it
// returns: no goroutine and no process, except one that could not be killed.
//
// A worker that is to leave (Options.Leave) first says so on its chain (draining).
// It goes on to serve what it runs, and takes nothing new, until it was commanded
// to stop all of it: somebody else has it then, or waits for it to be stopped.
// It gives that up, and stops by itself, when no command is an answer to its
// draining within a few seconds, because no controller leads, say, or when
// Limits.Handover has passed.
//
// It returns nil when the context ended, or it left. A fault of the log, such as
// [events.ErrHistoryRegressed], or [ErrSuperseded], is an error: what may follow
// it is another Run with a new incarnation.
func Run(ctx context.Context, p Parts, o *Options) error {
	options, err := o.withDefaults(&p)
	if err != nil {
		return err
	}
	logs, err := newShelf(options.Logs)
	if err != nil {
		options.Logger.Warn("no logs of servers are kept", "worker", string(options.ID), "err", err)
	}
	defer logs.close()
	w := &crew{
		host: &host{
			parts: p, options: options, logs: logs, meters: newMeters(),
			connectOverride: readOverride(options.Env, connectTimeoutVariable),
			callOverride:    readOverride(options.Env, callTimeoutVariable),
		},
		instances: make(map[place]*instance), wanted: make(map[place]order),
		orders: make(chan order), ends: make(chan end),
	}
	w.register = &register{
		journal: p.Journal, log: options.Logger.With("worker", string(options.ID)),
		chain: events.WorkerChain(options.ID), incarnation: options.Incarnation,
	}
	joining, stop := until(ctx, options.Leave)
	defer stop()
	if err := w.register.join(joining, &options); err != nil {
		if joining.Err() != nil && !errors.Is(err, ErrSuperseded) {
			return nil
		}
		return errors.Wrapf(err, "join as %s", options.ID)
	}
	fault := w.run(ctx)
	reason := "stopped"
	if fault != nil {
		reason = "fault"
	}
	words, cancel := context.WithTimeout(context.WithoutCancel(ctx), options.Limits.LastWords)
	defer cancel()
	if err := w.register.leave(words, reason); err != nil {
		options.Logger.Warn("left, but the log did not take it", "worker", string(options.ID), "err", err)
	}
	return errors.Wrapf(fault, "worker %s", options.ID)
}

// place is where an instance is on this worker.
type place struct {
	server   events.ServerID
	instance events.InstanceID
}

// order is a command with its position.
type order struct {
	place   place
	command *events.Command
	seq     events.Seq
}

// end is the end of an instance's goroutine.
type end struct {
	place place
	err   error
}

// crew owns the instances of a worker. Its maps belong to run's goroutine.
type crew struct {
	host      *host
	register  *register // belongs to the goroutine of a handover, while there is one
	instances map[place]*instance
	// wanted is the last command of each place that has an instance.
	wanted map[place]order
	leased bool
	// handover, if not nil, is under way.
	handover *handover

	orders chan order
	ends   chan end
}

// run gives each instance its commands until the context ends or there is a
// fault, and returns when all of them have ended.
func (w *crew) run(ctx context.Context) error {
	defer w.serveDesks(ctx)()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var all sync.WaitGroup
	defer all.Wait()
	defer stop()
	failed := make(chan error, 1)
	all.Go(func() { failed <- w.follow(ctx) })
	w.leased = w.host.parts.Lease.Remaining() > 0
	poll := time.NewTicker(leasePoll)
	defer poll.Stop()

	var fault error
	leave := w.host.options.Leave
	for quit := ctx.Done(); ; {
		if quit == nil && len(w.instances) == 0 {
			return fault
		}
		if w.handover != nil && len(w.instances) == 0 {
			stop()
		}
		select {
		case <-quit:
			quit = nil
		case <-leave:
			leave = nil
			w.handOver(ctx, &all)
		case id := <-w.handover.said():
			w.handover.answered(id)
		case <-w.handover.over():
			w.handover.giveUp(w.host.options.Logger.With("worker", string(w.host.options.ID)))
			stop()
		case err := <-failed:
			fault = errors.CombineErrors(fault, err)
			stop()
		case x := <-w.orders:
			if quit != nil {
				w.order(ctx, &all, x)
			}
		case x := <-w.ends:
			if w.ended(ctx, &all, x, quit != nil); x.err != nil {
				fault = errors.CombineErrors(fault, x.err)
				stop()
			}
		case <-poll.C:
			w.lease()
		}
	}
}

// serveDesks answers requests for logs, and about calls in flight, until stop,
// which the last words of the servers come before. A request that cannot be
// answered any more holds up stop for the time of last words at most.
func (w *crew) serveDesks(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan struct{})
	go func() {
		defer close(done)
		var desks sync.WaitGroup
		desks.Go(func() { w.host.serveLogs(ctx) })
		desks.Go(func() { w.host.serveCalls(ctx) })
		desks.Wait()
	}()
	return func() {
		cancel()
		await(done, nil, w.host.options.Limits.LastWords)
	}
}

// follow passes commands on, until the context ends.
func (w *crew) follow(ctx context.Context) error {
	o := &w.host.options
	for r, err := range w.host.parts.Inbox.FollowCommands(ctx, o.ID) {
		switch {
		case err != nil && ctx.Err() != nil:
			return nil
		case err != nil:
			return errors.Wrap(err, "follow commands")
		case r.Command.Incarnation != o.Incarnation:
			continue // meant for an earlier run of this worker, or a later one
		}
		select {
		case w.orders <- order{place{r.Server, r.Instance}, r.Command, r.Seq}:
		case <-ctx.Done():
			return nil
		}
	}
	if ctx.Err() == nil {
		return errors.New("the commands ended")
	}
	return nil
}

// order gives a command to its instance, or makes one for it. A command of a
// later epoch first ends the instance of the earlier one.
func (w *crew) order(ctx context.Context, all *sync.WaitGroup, x order) {
	if last, ok := w.wanted[x.place]; ok && (x.seq < last.seq || x.command.Older(last.command)) {
		return
	}
	w.wanted[x.place] = x
	i, ok := w.instances[x.place]
	w.handover.heard(x.command)
	switch {
	case !ok && w.handover.refuses(x.command):
		delete(w.wanted, x.place)
	case !ok:
		w.start(ctx, all, x)
	case i.epoch == x.command.Epoch:
		i.mail.put(func(m *mailbox) { m.command = x.command })
	default:
		i.mail.put(func(m *mailbox) { m.ousted = true })
	}
}

func (w *crew) start(ctx context.Context, all *sync.WaitGroup, x order) {
	a := events.Address{Worker: w.host.options.ID, Server: x.place.server, Instance: x.place.instance}
	i := newInstance(w.host, a, x.command, w.leased)
	w.instances[x.place] = i
	all.Go(func() { w.ends <- end{x.place, i.run(ctx)} })
}

// ended forgets an instance, and makes another one if a command came that it
// has not seen.
func (w *crew) ended(ctx context.Context, all *sync.WaitGroup, x end, more bool) {
	i := w.instances[x.place]
	delete(w.instances, x.place)
	last := w.wanted[x.place]
	delete(w.wanted, x.place)
	if more && x.err == nil && !i.refused && last.command != i.state.Command && !w.handover.refuses(last.command) {
		w.wanted[x.place] = last
		w.start(ctx, all, last)
	}
}

// lease tells the instances when the lease ends or comes back.
func (w *crew) lease() {
	leased := w.host.parts.Lease.Remaining() > 0
	if leased == w.leased {
		return
	}
	w.leased = leased
	o := &w.host.options
	if leased {
		o.Logger.Info("the lease is back", "worker", string(o.ID))
	} else {
		o.Logger.Warn("the lease is over: everything is stopped", "worker", string(o.ID))
	}
	for _, i := range w.instances {
		i.mail.put(func(m *mailbox) { m.leased = leased })
	}
}
