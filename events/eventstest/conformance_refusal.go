package eventstest

import (
	"sync"

	"github.com/cockroachdb/errors"

	"github.com/toolfleet/toolfleet/events"
)

// refusalChecks are about what a log may look for before it refuses it, since
// what is asked for could have been stored a moment ago. They run at the same
// time where time is real.
var refusalChecks = []check{
	{"an id that is used again is never acknowledged without being stored", func(p *probe) {
		c, other := p.chain(), p.chain()
		e := event(c, 1)
		e.ID = newID()
		first, err := p.log.Append(p.ctx, e, events.Tip{})
		if err != nil {
			p.Fatal(err)
		}
		elsewhere := e
		elsewhere.Chain = other
		var wg sync.WaitGroup // a log may look for a while before it says so
		wg.Go(func() { p.storedOrRefused(e, first.Tip()) })
		wg.Go(func() { p.storedOrRefused(elsewhere, events.Tip{}) })
		wg.Wait()
	}},
	{"an append after a tip that is not in the history is refused, and stores nothing", func(p *probe) {
		c, empty := p.chain(), p.chain()
		r := p.append(p.log, c, events.Tip{}, 1)[0]
		var wg sync.WaitGroup
		for chain, tip := range map[events.Chain]events.Tip{
			c:     {Seq: r.Seq + 1000, Link: r.Link},
			empty: {Seq: r.Seq, Link: r.Link},
		} {
			wg.Go(func() {
				stored, err := p.log.Append(p.ctx, event(chain, 1), tip)
				if !errors.Is(err, events.ErrHistoryRegressed) {
					p.Errorf("append to %s after %d: stored at %d with error %v, not ErrHistoryRegressed", chain, tip.Seq, stored.Seq, err)
				}
			})
		}
		wg.Wait()
		p.same("the chain", []events.Record{r}, p.chainAfter(p.log, c, events.Tip{}))
		p.same("the empty chain", nil, p.chainAfter(p.log, empty, events.Tip{}))
	}},
	{"a command that saw one that is not there is refused", func(p *probe) {
		a := p.address()
		seen := p.put(a, 1, 0)
		if seq, err := p.log.PutCommand(p.ctx, a, command(2), seen+1000); err == nil {
			p.Errorf("it was stored at %d", seq)
		}
		if r := p.lastCommands(a.Worker)[a]; r.Seq != seen {
			p.Errorf("the last command is %d, not %d", r.Seq, seen)
		}
	}},
	{"a blob that nobody put is an error", func(p *probe) {
		if data, err := p.log.GetBlob(p.ctx, events.DigestOf([]byte(p.server()))); err == nil {
			p.Errorf("it is %q", data)
		}
	}},
}

// storedOrRefused appends an event and checks that the answer is the truth.
func (p *probe) storedOrRefused(e events.Event, tip events.Tip) {
	p.Helper()
	r, err := p.log.Append(p.ctx, e, tip)
	var after []events.Record
	for r, err := range p.log.ReadChain(p.ctx, e.Chain, tip) {
		if err != nil {
			p.Error(err)
			return
		}
		after = append(after, r)
	}
	switch {
	case err != nil && len(after) > 0:
		p.Errorf("%s on %s was refused with %v, and stored at %d", e.ID, e.Chain, err, after[0].Seq)
	case err == nil && len(after) == 0:
		p.Errorf("%s on %s was acknowledged with sequence %d, and is not there", e.ID, e.Chain, r.Seq)
	case err == nil:
		p.same("what is there", []events.Record{r}, after)
	}
}
