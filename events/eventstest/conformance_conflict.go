package eventstest

import (
	"sync"
	"time"

	"github.com/cockroachdb/errors"

	"github.com/toolfleet/toolfleet/events"
)

// conflict appends an event that must conflict, and returns what is there.
func (p *probe) conflict(l Log, e events.Event, tip events.Tip) *events.ConflictError {
	p.Helper()
	r, err := l.Append(p.ctx, e, tip)
	var c *events.ConflictError
	if !errors.Is(err, events.ErrConflict) || !errors.As(err, &c) {
		p.Fatalf("append to %s after %d: stored at %d with error %v, and no conflict", e.Chain, tip.Seq, r.Seq, err)
	}
	if c.Chain != e.Chain || c.Expected != tip.Seq {
		p.Errorf("the conflict is about %s after %d, not %s after %d", c.Chain, c.Expected, e.Chain, tip.Seq)
	}
	return c
}

var conflictChecks = []check{
	{"an append after an old tip conflicts, and the error holds the first event there", func(p *probe) {
		c := p.chain()
		all := p.append(p.log, c, events.Tip{}, 4)
		for i, tip := range []events.Tip{{}, all[0].Tip(), all[1].Tip(), all[2].Tip()} {
			p.same("what is there", all[i:i+1], []events.Record{p.conflict(p.another(2), event(c, 9), tip).Found})
		}
		p.same("the chain", all, p.chainAfter(p.log, c, events.Tip{}))
	}},
	{"after a conflict, reading on and deciding again succeeds", func(p *probe) {
		c := p.chain()
		all := p.append(p.log, c, events.Tip{}, 3)
		late := p.another(2)
		tip := events.Tip{}
		_ = p.conflict(late, event(c, 9), tip)
		for _, r := range p.chainAfter(late, c, tip) {
			tip = r.Tip()
		}
		r := p.append(late, c, tip, 1)[0]
		p.same("the chain", append(all, r), p.chainAfter(p.log, c, events.Tip{}))
	}},
	{"the same event appended again is answered with the same record, by every log", func(p *probe) {
		c := p.chain()
		tip := p.append(p.log, c, events.Tip{}, 1)[0].Tip()
		e := event(c, 2)
		e.ID, e.Source, e.Time = newID(), "one source", time.Now()
		first, err := p.log.Append(p.ctx, e, tip)
		if err != nil {
			p.Fatal(err)
		}
		for i := range 4 {
			again, err := p.another(i).Append(p.ctx, e, tip)
			if err != nil {
				p.Fatalf("again: %v", err)
			}
			p.same("the record", []events.Record{first}, []events.Record{again})
		}
		p.append(p.log, c, first.Tip(), 2)
		again, err := p.log.Append(p.ctx, e, tip)
		if err != nil {
			p.Fatalf("again, with others after it: %v", err)
		}
		p.same("the record", []events.Record{first}, []events.Record{again})
		if n := len(p.chainAfter(p.log, c, events.Tip{})); n != 4 {
			p.Errorf("the chain has %d events, not 4", n)
		}
	}},
	{"an event appended again with nothing but its id is answered with what is stored", func(p *probe) {
		c := p.chain()
		e := event(c, 1)
		e.ID = newID()
		first, err := p.log.Append(p.ctx, e, events.Tip{})
		if err != nil {
			p.Fatal(err)
		}
		time.Sleep(time.Millisecond) // another time, and below another source
		again, err := p.another(2).Append(p.ctx, e, events.Tip{})
		if err != nil {
			p.Fatal(err)
		}
		p.same("the record", []events.Record{first}, []events.Record{again})
		p.append(p.log, c, again.Tip(), 1)
		if n := len(p.chainAfter(p.log, c, events.Tip{})); n != 2 {
			p.Errorf("the chain has %d events, not 2", n)
		}
	}},
	{"another event with the same tip conflicts, whoever appends it", func(p *probe) {
		c := p.chain()
		r := p.append(p.log, c, events.Tip{}, 1)
		for i := range 3 {
			p.same("what is there", r, []events.Record{p.conflict(p.another(i), event(c, 1), events.Tip{}).Found})
		}
	}},
	{"of writers that race for one chain, each tip serves one", func(p *probe) {
		c := p.chain()
		const writers, each = 4, 25
		var mu sync.Mutex
		won := make(map[events.Seq]events.EventID) // the event after each tip
		var wg sync.WaitGroup
		for i := range writers {
			l := p.another(i)
			wg.Go(func() {
				var tip events.Tip
				for n := 0; n < each; {
					r, err := l.Append(p.ctx, event(c, i*each+n), tip)
					var conflict *events.ConflictError
					switch {
					case err == nil:
						mu.Lock()
						if id := won[tip.Seq]; id != "" {
							p.Errorf("both %s and %s were appended after %d", id, r.ID, tip.Seq)
						}
						won[tip.Seq] = r.ID
						mu.Unlock()
						tip = r.Tip()
						n++
					case errors.As(err, &conflict):
						tip = conflict.Found.Tip()
					default:
						p.Error(err)
						return
					}
				}
			})
		}
		wg.Wait()
		all := p.chainAfter(p.log, c, events.Tip{})
		if len(all) != writers*each || len(won) != len(all) {
			p.Errorf("%d events are stored and %d were acknowledged, not %d", len(all), len(won), writers*each)
		}
		var tip events.Tip
		for _, r := range all {
			if won[tip.Seq] != r.ID {
				p.Errorf("event %s is after %d, but %q was acknowledged there", r.ID, tip.Seq, won[tip.Seq])
			}
			tip = r.Tip()
		}
	}},
}
