package eventstest

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/cockroachdb/errors"
	"github.com/google/go-cmp/cmp"

	"github.com/toolfleet/toolfleet/events"
)

var appendChecks = []check{
	{"the first append to a chain states the zero tip", func(p *probe) {
		r := p.append(p.log, p.chain(), events.Tip{}, 1)[0]
		if r.Seq == 0 || r.Link == "" || r.Prev != "" {
			p.Errorf("seq %d, link %q, prev %q", r.Seq, r.Link, r.Prev)
		}
	}},
	{"what append returns is what is read", func(p *probe) {
		c := p.chain()
		appended := p.append(p.log, c, events.Tip{}, 5)
		p.same("the chain", appended, p.chainAfter(p.log, c, events.Tip{}))
	}},
	{"events of a chain are in order and link to each other", func(p *probe) {
		before := p.head().Seq
		c, other := p.chain(), p.chain()
		var tip, otherTip events.Tip
		for range 5 {
			tip = p.append(p.log, c, tip, 1)[0].Tip()
			otherTip = p.append(p.log, other, otherTip, 1)[0].Tip()
		}
		v := events.NewVerifier(before, nil)
		for _, r := range Stored(p.T, p.log, before) {
			if err := v.Advance(&r); err != nil {
				p.Fatal(err)
			}
		}
		if v.Tip(c) != tip || v.Tip(other) != otherTip {
			p.Errorf("the chains end at %v and %v, not at %v and %v", v.Tip(c), v.Tip(other), tip, otherTip)
		}
	}},
	{"the log sets id, source and time where they are empty", func(p *probe) {
		before := time.Now()
		r := p.append(p.another(7), p.chain(), events.Tip{}, 1)[0]
		if len(r.ID) != 36 || r.ID[14] != '7' {
			p.Errorf("id %q is no UUIDv7", r.ID)
		}
		if want := "toolfleet/" + string(Fleet) + "/writer-7"; r.Source != want {
			p.Errorf("source %q, not %q", r.Source, want)
		}
		if r.Time.Before(before) || r.Time.After(time.Now()) || r.Time.Location() != time.UTC {
			p.Errorf("time %s; it was %s", r.Time, before)
		}
	}},
	{"the log keeps id, source and time where they are set, however wrong the clock is", func(p *probe) {
		c := p.chain()
		var tip events.Tip
		for i, ahead := range []time.Duration{time.Hour, -time.Hour, 0} {
			e := event(c, i)
			e.ID, e.Source = newID(), "somebody"
			e.Time = time.Now().Add(ahead).UTC()
			r, err := p.log.Append(p.ctx, e, tip)
			if err != nil {
				p.Fatal(err)
			}
			if r.ID != e.ID || r.Source != e.Source || !r.Time.Equal(e.Time) {
				p.Errorf("%s %s %s became %s %s %s", e.ID, e.Source, e.Time, r.ID, r.Source, r.Time)
			}
			tip = r.Tip()
		}
		for i, r := range p.chainAfter(p.log, c, events.Tip{}) {
			if number(&r) != i {
				p.Errorf("event %d has place %d", number(&r), i)
			}
		}
	}},
	{"every field of an event survives", func(p *probe) {
		c := events.InstanceChain(p.server(), "0")
		e := events.Event{
			Chain: c, Body: events.Assigned{Worker: "w", Incarnation: "i", Epoch: 3, Reason: "Ünïcode, 100 %"},
			Epoch: 3, Attempt: 2, Cause: "the cause", Correlation: "request\n1", Actor: "ann@häuschen", Reason: " because ",
			Trace: events.Trace{Parent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", State: "a=b"},
			Extra: map[string]string{"tf-later": "a header of a later version"},
		}
		r, err := p.log.Append(p.ctx, e, events.Tip{})
		if err != nil {
			p.Fatal(err)
		}
		p.same("the chain", []events.Record{r}, p.chainAfter(p.log, c, events.Tip{}))
		e.ID, e.Source, e.Time, e.Data = r.ID, r.Source, r.Time, r.Data
		if d := cmp.Diff(e, r.Event, compare...); d != "" {
			p.Errorf("the event (-appended +stored):\n%s", d)
		}
	}},
	{"a writer reads what another appended before", func(p *probe) {
		c := p.chain()
		var tip events.Tip
		for i := range 20 {
			tip = p.append(p.another(i%3), c, tip, 1)[0].Tip()
			if all := p.chainAfter(p.another((i+1)%3), c, events.Tip{}); len(all) != i+1 || all[i].Tip() != tip {
				p.Fatalf("%d events after %d appends", len(all), i+1)
			}
		}
	}},
	{"the head is the last event that was appended, and counts them all", func(p *probe) {
		first := p.head()
		r := p.append(p.log, p.chain(), events.Tip{}, 3)[2]
		h := p.head()
		if h.Seq != r.Seq || h.Count != uint64(h.Seq) || h.Log == "" || h.Log != first.Log || h.Bytes <= first.Bytes {
			p.Errorf("after %+v and event %d, the head is %+v", first, r.Seq, h)
		}
		if err := h.Check(events.Position{Log: first.Log, Seq: first.Seq}); err != nil {
			p.Error(err)
		}
	}},
	{"an event that is too large is refused, and the chain stays usable", func(p *probe) {
		c := events.InstanceChain(p.server(), "0")
		large := events.Event{Chain: c, Body: events.Stopping{Reason: strings.Repeat("x", events.MaxSize)}}
		if _, err := p.log.Append(p.ctx, large, events.Tip{}); !errors.Is(err, events.ErrTooLarge) {
			p.Errorf("error %v, not ErrTooLarge", err)
		}
		largest := events.Event{Chain: c, Body: events.Stopping{Reason: strings.Repeat("x", events.MaxSize-100)}}
		if _, err := p.log.Append(p.ctx, largest, events.Tip{}); err != nil {
			p.Error(err)
		}
	}},
	{"an event that does not belong on its chain is refused", func(p *probe) {
		before := p.head().Seq
		if r, err := p.log.Append(p.ctx, event(events.FleetChain(), 1), events.Tip{}); err == nil {
			p.Errorf("it was stored at %d", r.Seq)
		}
		if h := p.head(); h.Seq != before {
			p.Errorf("the head moved from %d to %d", before, h.Seq)
		}
	}},
	{"an append whose context has ended fails at once", func(p *probe) {
		ctx, cancel := context.WithCancel(p.ctx)
		cancel()
		began := time.Now()
		if r, err := p.log.Append(ctx, event(p.chain(), 1), events.Tip{}); err == nil {
			p.Errorf("it was stored at %d", r.Seq)
		}
		if d := time.Since(began); d > promptLimit {
			p.Errorf("that took %s", d)
		}
	}},
	{"many chains are written at the same time", func(p *probe) {
		before := p.head().Seq
		const writers, each = 8, 25
		var wg sync.WaitGroup
		for i := range writers {
			c, l := p.chain(), p.another(i%3)
			wg.Go(func() {
				var tip events.Tip
				for n := range each {
					r, err := l.Append(p.ctx, event(c, n), tip)
					if err != nil {
						p.Errorf("append %d to %s: %v", n, c, err)
						return
					}
					tip = r.Tip()
				}
			})
		}
		wg.Wait()
		if n := len(Stored(p.T, p.log, before)); n != writers*each {
			p.Errorf("%d events are stored, not %d", n, writers*each)
		}
	}},
}
