package controller

import (
	"context"

	"github.com/cockroachdb/errors"

	"github.com/toolfleet/toolfleet/controller/request"
	"github.com/toolfleet/toolfleet/events"
)

// ask is a request that waits for its answer.
type ask struct {
	ctx     context.Context //nolint:containedctx // it is the caller's, and ends with the call
	request *request.Request
	reply   chan reply // holds one
	// sure says that the fold reached the end of the history after the request
	// came.
	sure bool
}

type reply struct {
	answer request.Answer
	err    error
}

// chain are the requests about one chain, in the order of their decisions.
type chain struct {
	asks []*ask
	// busy says that an effect for the first one is under way.
	busy bool
	// after is the position that the fold must have for the next decision.
	after events.Seq
}

// accept puts a request into the line of its chain.
func (c *controller) accept(a *ask) {
	if c.asked >= maxAsks {
		a.reply <- reply{err: request.Errorf(request.Unavailable, "%d requests are waiting: try again", c.asked)}
		return
	}
	of := chainOf(a.request)
	if c.chains[of] == nil {
		c.chains[of] = &chain{}
	}
	c.chains[of].asks = append(c.chains[of].asks, a)
	c.asked++
}

// serve decides the requests of a chain as far as it can.
func (c *controller) serve(of events.Chain, x *chain) {
	for !x.busy && len(x.asks) > 0 && x.after <= c.view.History.Seq() {
		c.answer(x, x.asks[0])
	}
	if len(x.asks) == 0 && x.after <= c.view.History.Seq() {
		delete(c.chains, of)
	}
}

// answer decides the first request of a chain: it answers it, or begins what has
// to be done before.
func (c *controller) answer(x *chain, a *ask) {
	if a.ctx.Err() != nil {
		c.finish(x, reply{err: a.ctx.Err()}) // nobody reads it
		return
	}
	es, answer, err := decide(&c.view.History, a.request)
	switch {
	case len(es) > 0:
		x.busy = true
		tip := c.view.History.Tip(chainOf(a.request))
		c.effect(func(context.Context) result { return c.write(x, a, es, tip, err) })
	case answer.Repeated || a.sure:
		c.finish(x, reply{answer, err})
	default:
		x.busy = true
		c.effect(func(context.Context) result { return c.makeSure(x, a) })
	}
}

// finish answers the first request of a chain.
func (c *controller) finish(x *chain, r reply) {
	x.asks[0].reply <- r
	x.asks = x.asks[1:]
	c.asked--
}

// makeSure finds the position from which "nothing changes" may be said.
func (c *controller) makeSure(x *chain, a *ask) result {
	head, err := c.Source.Head(a.ctx)
	return func(c *controller) error {
		x.busy = false
		if err != nil {
			c.finish(x, reply{err: unavailable(a.request, err)})
			return nil
		}
		a.sure, x.after = true, max(x.after, head.Seq)
		c.learn(head.Seq)
		return nil
	}
}

// write appends the events that a request causes. Refused is the answer that
// goes with them, if they write down that it is.
func (c *controller) write(x *chain, a *ask, es []events.Event, tip events.Tip, refused error) result {
	var last events.Record
	var err error
	for _, e := range es {
		if last, err = c.Journal.Append(a.ctx, e, tip); err != nil {
			break
		}
		tip = last.Tip()
	}
	return func(c *controller) error {
		x.busy, x.after = false, max(x.after, tip.Seq)
		c.learn(tip.Seq)
		var conflict *events.ConflictError
		var rejection *request.Error
		switch {
		case errors.As(err, &conflict):
			x.after = max(x.after, conflict.Found.Seq) // fold on, and decide again
			c.learn(conflict.Found.Seq)
		case errors.Is(err, events.ErrHistoryRegressed):
			return err
		case err != nil:
			c.finish(x, reply{err: unavailable(a.request, err)})
		case errors.As(refused, &rejection):
			rejection.Seq = last.Seq
			c.finish(x, reply{err: rejection})
		default:
			c.finish(x, reply{answer: request.Answer{Seq: last.Seq}})
		}
		return nil
	}
}

// unavailable is what the caller is told when a request cannot be written down.
func unavailable(q *request.Request, err error) error {
	code := request.Unavailable
	switch {
	case errors.Is(err, events.ErrTooLarge):
		// unreachable unless a definition that is valid fits no event.
		code = request.TooLarge
	case errors.Is(err, events.ErrHistoryFull):
		code = request.HistoryFull
	}
	return request.Errorf(code, "%s: %v", q.About(), err)
}
