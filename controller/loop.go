package controller

import (
	"context"
	"time"

	"github.com/cockroachdb/errors"

	"github.com/toolfleet/toolfleet/controller/request"
	"github.com/toolfleet/toolfleet/events"
)

// controller is the state of one Run. Its loop alone touches what is below the
// channels.
type controller struct {
	Parts
	Options
	group *group

	records chan events.Record
	results chan result
	asks    chan *ask

	view View
	// end is the head at the start, 0 until it is known; serving says that the
	// fold has reached it.
	end     *events.Seq
	serving bool

	// known is the last position that this controller was told of; asking says
	// that the log is being asked for its head.
	known  events.Seq
	asking bool

	// chains are those with requests that wait; asked counts the requests.
	chains map[events.Chain]*chain
	asked  int

	// vigil tells which workers are lost; finding says that keys are being read.
	vigil   vigil
	finding bool

	round round
	// dirty says that a plan may find something to do.
	dirty bool

	// told is what telemetry is told of, convergences among it.
	told         told
	convergences convergences
}

// result is what an effect came to; it is applied by the loop.
type result func(c *controller) error

// tickEvery is how often is looked whether this controller leads, and whether
// it is time to try again or to compare commands.
const tickEvery = time.Second

// loop owns the state.
func (c *controller) loop(ctx context.Context) error {
	tick := time.NewTicker(tickEvery)
	defer tick.Stop()
	c.askHead()
	for {
		select {
		case <-ctx.Done():
			return nil
		case r := <-c.records:
			c.apply(r)
			c.drain()
		case f := <-c.results:
			if err := f(c); err != nil {
				return err
			}
		case a := <-c.asks:
			c.accept(a)
		case <-tick.C:
			c.askHead()
			c.find()
			c.convergences.expire(time.Now())
		}
		c.advance() //nolint:contextcheck // What telemetry is told is nobody's to end.
	}
}

// effect runs f outside the loop; what it returns is applied in it.
func (c *controller) effect(f func(ctx context.Context) result) {
	c.group.run(func(ctx context.Context) error {
		r := f(ctx)
		select {
		case c.results <- r:
		case <-ctx.Done():
		}
		return nil
	})
}

// learn notes a position that the history has reached.
func (c *controller) learn(seq events.Seq) { c.known = max(c.known, seq) }

// askHead asks for the end of the history where it has to be known: at the
// start, and while the fold does not come to where this controller knows that
// the history was. The reader of a history that lost its end before it came
// there would wait for ever.
func (c *controller) askHead() {
	if c.asking || c.end != nil && c.known <= c.view.History.Seq() {
		return
	}
	c.asking = true
	known := c.known
	c.effect(func(ctx context.Context) result {
		head, err := c.Source.Head(ctx)
		return func(c *controller) error {
			c.asking = false
			if err != nil {
				c.Logger.Warn("read the end of the history", "err", err)
				return nil // and ask again at the next tick
			}
			if c.end == nil {
				c.end = &head.Seq
			}
			c.learn(head.Seq)
			return errors.Wrap(head.Check(events.Position{Seq: known}), "wait for the history")
		}
	})
}

func (c *controller) apply(r events.Record) {
	if c.view.Apply(r) {
		c.dirty = true
	}
	c.convergences.apply(&c.view, &r)
}

// drain applies the records that are there, so that a burst of them is decided
// on once.
func (c *controller) drain() {
	for range maxRecords {
		select {
		case r := <-c.records:
			c.apply(r)
		default:
			return
		}
	}
}

// advance does what the state allows.
func (c *controller) advance() {
	if !c.serving {
		if c.end == nil || c.view.History.Seq() < *c.end {
			return
		}
		c.serving = true
		c.Logger.Info("history read", "seq", uint64(c.view.History.Seq()))
		for _, api := range c.APIs {
			c.group.run(func(ctx context.Context) error { return api(ctx, c.handle) })
		}
	}
	for chain, x := range c.chains {
		c.serve(chain, x)
	}
	c.plan()
	c.converge()
}

// handle is the [Handler] of the APIs.
func (c *controller) handle(ctx context.Context, q *request.Request) (request.Answer, error) {
	ctx, span := c.told.request(ctx, q)
	a, err := c.request(ctx, q)
	c.told.answered(span, a, err)
	return a, err
}

// request has the loop decide a request.
func (c *controller) request(ctx context.Context, q *request.Request) (request.Answer, error) {
	if err := q.Check(); err != nil {
		return request.Answer{}, err
	}
	a := &ask{ctx: ctx, request: q, reply: make(chan reply, 1)}
	gone := request.Errorf(request.Unavailable, "%s: no answer in time; the same request may be sent again", q.About())
	select {
	case c.asks <- a:
	case <-ctx.Done():
		return request.Answer{}, gone
	case <-c.group.ctx.Done():
		return request.Answer{}, gone
	}
	select {
	case r := <-a.reply:
		return r.answer, r.err
	case <-ctx.Done():
		return request.Answer{}, gone
	case <-c.group.ctx.Done():
		return request.Answer{}, gone
	}
}
