package worker

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/cockroachdb/errors"

	"github.com/toolfleet/toolfleet/events"
)

// host is what the instances of a worker share.
type host struct {
	parts   Parts
	options Options
	logs    *shelf // nil: none are kept
	board   board
	meters  meters
	// The environment's own limits.
	connectOverride, callOverride override
}

// instance runs one instance under one epoch, in one goroutine: see run.
type instance struct {
	host    *host
	address events.Address
	epoch   events.Epoch
	log     *slog.Logger
	mail    *mailbox

	// What follows belongs to run's goroutine.
	scribe   *scribe
	state    State
	story    story
	attempt  *attempt
	timer    *time.Timer
	alarm    int // the Timer that timer stands for
	lists    [listKinds]earlier
	offered  [listKinds]earlier // becomes one of lists when its append is acknowledged
	finished bool
	refused  bool // the chain named another owner from the beginning
	hung     bool
	inputs   chan Input
}

// mailbox holds what a worker last said to an instance. Only the last word
// counts.
type mailbox struct {
	mu      sync.Mutex // guards command, leased and ousted
	command *events.Command
	leased  bool
	ousted  bool          // a command of a later epoch came
	news    chan struct{} // holds one signal that they changed
}

func (m *mailbox) put(change func(*mailbox)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	change(m)
	select {
	case m.news <- struct{}{}:
	default:
	}
}

func (m *mailbox) get() (c *events.Command, leased, ousted bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.command, m.leased, m.ousted
}

func newInstance(h *host, a events.Address, c *events.Command, leased bool) *instance {
	i := &instance{
		host: h, address: a, epoch: c.Epoch,
		mail:   &mailbox{command: c, leased: leased, news: make(chan struct{}, 1)},
		inputs: make(chan Input),
	}
	i.mail.news <- struct{}{}
	o := &h.options
	i.log = o.Logger.With("server", string(a.Server), "instance", string(a.Instance), "epoch", uint64(c.Epoch))
	i.scribe = &scribe{
		journal: h.parts.Journal, blobs: h.parts.Blobs, log: i.log,
		chain: events.InstanceChain(a.Server, a.Instance), kick: make(chan struct{}, 1),
		owner: func(f *history) bool { return f.ownedBy(o.ID, o.Incarnation, c.Epoch) },
	}
	return i
}

// run reads the chain and then obeys the mailbox until nothing remains to be
// done in the epoch. When the context ends it stops the instance, says so, and
// returns in bounded time. Its error is a fault of the log.
func (i *instance) run(ctx context.Context) error {
	// What ends an instance, and its last words, outlive the context.
	life, giveUp := context.WithCancel(context.WithoutCancel(ctx))
	defer giveUp()
	reading, stop := context.WithCancel(ctx)
	defer stop()
	switch err := i.scribe.readOn(reading); {
	case errors.Is(err, errDisowned):
		i.log.Info("command ignored: the instance's chain names another owner")
		i.refused = true
		return nil
	case err != nil:
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	_, leased, _ := i.mail.get()
	i.state = Begin(i.epoch, i.scribe.fold.past(), leased)
	for k, d := range i.scribe.fold.lists {
		i.lists[k] = earlier{digest: d}
	}
	i.story = newStory(i.host, i.address, &i.scribe.fold)
	defer i.story.close()

	var helpers sync.WaitGroup
	defer helpers.Wait()
	defer giveUp()
	wrote := make(chan entry)
	failed := make(chan error, 1)
	helpers.Go(func() {
		failed <- i.scribe.run(life, func(e entry) {
			select {
			case wrote <- e:
			case <-life.Done():
			}
		})
	})
	i.timer = time.NewTimer(time.Hour)
	defer i.timer.Stop()
	return i.loop(ctx, life, &helpers, wrote, failed)
}

// loop steps the state machine.
func (i *instance) loop(ctx, life context.Context, helpers *sync.WaitGroup, wrote <-chan entry, failed <-chan error) error {
	leave, lastWords := ctx.Done(), (<-chan time.Time)(nil)
	for !i.finished {
		if i.state.Leaving && lastWords == nil && (!i.state.Live || i.hung) {
			lastWords = time.After(i.host.options.Limits.LastWords)
		}
		var in Input
		select {
		case <-i.mail.news:
			i.readMail(life, helpers)
			continue
		case in = <-i.inputs:
		case e := <-wrote:
			in = i.wrote(e) //nolint:contextcheck // What telemetry is told is nobody's to end.
		case <-i.timer.C:
			in.What = i.elapsed(time.Now())
		case <-leave:
			leave = nil
			in.What = Leaving{Reason: "the worker stops"}
		case <-lastWords:
			i.log.Warn("stopped, but the log did not take it in time")
			return nil
		case err := <-failed:
			if !errors.Is(err, errDisowned) {
				i.abandon(life)
				return err
			}
			in.Ref, in.What = Ref{Epoch: i.epoch}, Disowned{}
		}
		i.step(life, helpers, in)
	}
	return nil
}

// readMail turns the last word of the worker into inputs.
func (i *instance) readMail(life context.Context, helpers *sync.WaitGroup) {
	command, leased, ousted := i.mail.get()
	i.step(life, helpers, Input{What: LeaseChanged{Held: leased}})
	if ousted {
		i.step(life, helpers, Input{Ref: Ref{Epoch: i.epoch}, What: Disowned{}})
	}
	if command != i.state.Command && !i.finished {
		taken := i.story.take(life, command)
		i.step(life, helpers, Input{What: Commanded{Command: command}})
		taken()
	}
}

// wrote takes an event that is in the chain.
func (i *instance) wrote(e entry) Input {
	i.story.wrote(&e.event)
	k := e.event.Kind()
	if list, ok := listOf(k); ok {
		i.lists[list] = i.offered[list]
	}
	return Input{Ref: e.ref, What: Appended{Kind: k}}
}

func (i *instance) step(life context.Context, helpers *sync.WaitGroup, in Input) {
	in.At, in.Rand = time.Now(), rand.Float64()
	switch w := in.What.(type) {
	case Listed:
		i.offered[w.Kind] = earlier{digest: w.Listing.Digest, items: w.items}
	case StopHung:
		i.hung = true
	default:
	}
	var effects []Effect
	i.state, effects = Step(i.state, in)
	for _, e := range effects {
		i.do(life, helpers, in.At, e)
	}
}

// do begins an effect; none of it waits.
func (i *instance) do(life context.Context, helpers *sync.WaitGroup, at time.Time, e Effect) {
	switch e := e.(type) {
	case Append:
		i.scribe.give(entry{ref: e.Ref, blob: e.Blob, event: i.event(&e, at)}) //nolint:contextcheck // What telemetry is told is nobody's to end.
	case Connect:
		i.connect(life, helpers, e)
	case List:
		i.attempt.lists <- toList{kind: e.Kind, from: i.lists[e.Kind]}
	case Serve:
		i.attempt.serves <- struct{}{}
	case Ask:
		select {
		case i.attempt.asks <- e.Ping:
		default: // the last one is still on its way
		}
	case Break:
		i.attempt.breaks <- e.Failure
	case Close:
		i.attempt.close(e.Now)
	case Sleep:
		i.timer.Reset(e.For)
		i.alarm = e.Timer
	case Finish:
		i.finished = true
	}
}

// event returns the event of an append.
func (i *instance) event(e *Append, at time.Time) events.Event {
	return events.Event{
		Chain: i.scribe.chain, Body: e.Body, Time: at,
		Epoch: e.Ref.Epoch, Attempt: e.Ref.Attempt, Cause: e.Cause, Trace: i.story.tell(e, at),
	}
}

func (i *instance) connect(life context.Context, helpers *sync.WaitGroup, e Connect) {
	a := newAttempt(i, e.Ref, e.Command, func(h Happening) {
		select {
		case i.inputs <- Input{Ref: e.Ref, What: h}:
		case <-life.Done():
		}
	})
	i.attempt = a
	helpers.Go(func() { a.run(life) })
}

// abandon ends by force whatever runs, without the log.
func (i *instance) abandon(life context.Context) {
	if !i.state.Live {
		return
	}
	i.attempt.close(true)
	t := time.NewTimer(killLimit)
	defer t.Stop()
	for {
		select {
		case in := <-i.inputs:
			if _, ended := in.What.(Ended); ended {
				return
			}
		case <-t.C:
			return
		case <-life.Done():
			return
		}
	}
}
