package eventstest

import (
	"context"
	"slices"
	"sync"

	"github.com/cockroachdb/errors"

	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/events/jetlog"
)

var chainChecks = []check{
	{"a chain is read from any tip to its end", func(p *probe) {
		c, other := p.chain(), p.chain()
		var all []events.Record
		var tip, otherTip events.Tip
		for i := range 10 {
			r, err := p.log.Append(p.ctx, event(c, i), tip)
			if err != nil {
				p.Fatal(err)
			}
			all, tip = append(all, r), r.Tip()
			otherTip = p.append(p.log, other, otherTip, 1)[0].Tip()
		}
		p.same("from the beginning", all, p.chainAfter(p.log, c, events.Tip{}))
		for i := range all {
			p.same("the rest", all[i+1:], p.chainAfter(p.log, c, all[i].Tip()))
		}
	}},
	{"a chain that has no events is empty", func(p *probe) {
		p.same("the chain", nil, p.chainAfter(p.log, p.chain(), events.Tip{}))
	}},
	{"chains whose names begin alike are apart", func(p *probe) {
		id := p.server()
		names := []events.Chain{
			events.ServerChain(id), events.ServerChain(id + "0"), events.ServerChain(id + "-"),
			events.InstanceChain(id, "0"), events.InstanceChain(id, "00"), events.WorkerChain(events.WorkerID(id)),
		}
		for _, c := range names {
			body := events.Body(events.Enabled{})
			switch c.Kind() {
			case events.OfInstance:
				body = events.Stopping{}
			case events.OfWorker:
				body = events.Cordoned{}
			}
			if _, err := p.log.Append(p.ctx, events.Event{Chain: c, Body: body}, events.Tip{}); err != nil {
				p.Fatal(err)
			}
		}
		for _, c := range names {
			if all := p.chainAfter(p.log, c, events.Tip{}); len(all) != 1 || all[0].Chain != c {
				p.Errorf("%s holds\n%s", c, Lines(all))
			}
		}
	}},
	{"a chain that does not link to the tip ends with ErrHistoryIncomplete", func(p *probe) {
		c := p.chain()
		all := p.append(p.log, c, events.Tip{}, 2)
		p.fails(events.ErrHistoryIncomplete, p.log.ReadChain(p.ctx, c, events.Tip{Seq: all[0].Seq, Link: all[1].Link}))
	}},
	{"a chain that ends before the tip ends with ErrHistoryRegressed", func(p *probe) {
		c := p.chain()
		r := p.append(p.log, c, events.Tip{}, 1)[0]
		p.fails(events.ErrHistoryRegressed, p.log.ReadChain(p.ctx, c, events.Tip{Seq: r.Seq + 1000, Link: r.Link}))
	}},
	{"a reader may stop anywhere", func(p *probe) {
		c := p.chain()
		all := p.append(p.log, c, events.Tip{}, 3)
		for i := range all {
			n := 0
			for r, err := range p.log.ReadChain(p.ctx, c, events.Tip{}) {
				if err != nil || r.Seq != all[n].Seq {
					p.Fatalf("event %d, error %v, not event %d", r.Seq, err, all[n].Seq)
				}
				if n++; n > i {
					break
				}
			}
		}
	}},
	{"a chain whose context ends is read no further", func(p *probe) {
		c := p.chain()
		p.append(p.log, c, events.Tip{}, 20)
		ctx, cancel := context.WithCancel(p.ctx)
		defer cancel()
		n := 0
		for _, err := range p.log.ReadChain(ctx, c, events.Tip{}) {
			if err != nil {
				break
			}
			n++
			cancel()
		}
		if n > 1 {
			p.Errorf("%d events", n)
		}
	}},
}

// fails reads to the end, which must be that error.
func (p *probe) fails(want error, seq func(func(events.Record, error) bool)) []events.Record {
	p.Helper()
	var all []events.Record
	var last error
	for r, err := range seq {
		if last != nil {
			p.Fatalf("event %d follows error %v", r.Seq, last)
		}
		if last = err; err == nil {
			all = append(all, r)
		}
	}
	if !errors.Is(last, want) {
		p.Errorf("the end is %v, not %v; after\n%s", last, want, Lines(all))
	}
	return all
}

var followChecks = []check{
	{"stored events come first, then those appended meanwhile", func(p *probe) {
		before := p.head().Seq
		c := p.chain()
		all := p.append(p.log, c, events.Tip{}, 3)
		n := 0
		for r, err := range p.log.Follow(p.ctx, before, nil) {
			if err != nil {
				p.Fatal(err)
			}
			p.same("the next event", all[n:n+1], []events.Record{r})
			if n++; n == 10 {
				return
			}
			if n == len(all) {
				all = append(all, p.append(p.another(2), c, all[n-1].Tip(), 1)...)
			}
		}
		p.Errorf("the end came after %d events", n)
	}},
	{"from every position, nothing is missing or comes twice while others write", func(p *probe) {
		followWhileOthersWrite(p)
	}},
	{"until ends with that event, stored or still to come", func(p *probe) {
		before := p.append(p.log, p.chain(), events.Tip{}, 1)[0].Seq // 0 is no limit
		c := p.chain()
		all := p.append(p.log, c, events.Tip{}, 5)
		until := func(seq events.Seq) []events.Record {
			return collect(p.T, p.log.Follow(p.ctx, before, &jetlog.FollowOptions{Until: seq}))
		}
		p.same("until what was read", nil, until(before))
		p.same("until the first", all[:1], until(all[0].Seq))
		p.same("until the third", all[:3], until(all[2].Seq))
		p.same("until the last", all, until(all[4].Seq))
		appended := make(chan error, 1)
		go func() {
			tip := all[4].Tip()
			for i := range 3 {
				r, err := p.log.Append(p.ctx, event(c, i), tip)
				if err != nil {
					appended <- err
					return
				}
				tip = r.Tip()
			}
			appended <- nil
		}()
		come := until(all[4].Seq + 2)
		if err := <-appended; err != nil {
			p.Fatal(err)
		}
		p.same("until one to come", p.chainAfter(p.log, c, events.Tip{})[:7], append(all, come[5:]...))
	}},
	{"a position after the end is refused with ErrHistoryRegressed", func(p *probe) {
		p.append(p.log, p.chain(), events.Tip{}, 1)
		p.fails(events.ErrHistoryRegressed, p.log.Follow(p.ctx, p.head().Seq+1, nil))
	}},
	{"a position in another history is refused with ErrHistoryRegressed", func(p *probe) {
		p.append(p.log, p.chain(), events.Tip{}, 1)
		all := p.fails(events.ErrHistoryRegressed, p.log.Follow(p.ctx, 0, &jetlog.FollowOptions{Log: "19990101T000000.000000000Z.000"}))
		if len(all) > 0 {
			p.Errorf("%d events came before", len(all))
		}
	}},
	{"tips are what the next events must link to", func(p *probe) {
		c, other := p.chain(), p.chain()
		first := p.append(p.log, c, events.Tip{}, 2)
		p.append(p.log, other, events.Tip{}, 1)
		after := p.head().Seq
		rest := p.append(p.log, c, first[1].Tip(), 2)
		follow := func(tip events.Tip) func(func(events.Record, error) bool) {
			return p.log.Follow(p.ctx, after, &jetlog.FollowOptions{
				Tips: map[events.Chain]events.Tip{c: tip}, Until: rest[1].Seq,
			})
		}
		p.same("after the right tip", rest, collect(p.T, follow(first[1].Tip())))
		p.fails(events.ErrHistoryIncomplete, follow(first[0].Tip()))
		p.fails(events.ErrHistoryIncomplete, p.log.Follow(p.ctx, after, &jetlog.FollowOptions{Tips: map[events.Chain]events.Tip{}}))
	}},
	{"the end of the context ends the sequence, at once and without an error", func(p *probe) {
		before := p.head().Seq
		p.append(p.log, p.chain(), events.Tip{}, 1)
		p.promptly("following", func(ctx context.Context, ready func()) {
			for _, err := range p.log.Follow(ctx, before, nil) {
				if err != nil {
					p.Errorf("the end is %v", err)
				}
				ready()
			}
		})
	}},
	{"a follower may stop anywhere", func(p *probe) {
		before := p.head().Seq
		p.append(p.log, p.chain(), events.Tip{}, 3)
		for i := range 3 {
			n := 0
			for _, err := range p.log.Follow(p.ctx, before, nil) {
				if err != nil {
					p.Fatal(err)
				}
				if n++; n > i {
					break
				}
			}
		}
	}},
}

func followWhileOthersWrite(p *probe) {
	const writers, each = 3, 30
	before := p.head().Seq
	last := newID()
	var writing, following sync.WaitGroup
	live := make([][]events.Record, 3)
	for i := range live {
		l := p.another(i)
		following.Go(func() { live[i] = p.followTo(l, before, last) })
	}
	shared := p.chain()
	for i := range writers {
		l, own := p.another(i), p.chain()
		writing.Go(func() {
			var tip, sharedTip events.Tip
			for n := range each {
				r, err := l.Append(p.ctx, event(own, n), tip)
				if err != nil {
					p.Error(err)
					return
				}
				tip = r.Tip()
				r, err = l.Append(p.ctx, event(shared, n), sharedTip)
				var conflict *events.ConflictError
				switch {
				case err == nil:
					sharedTip = r.Tip()
				case errors.As(err, &conflict):
					sharedTip = conflict.Found.Tip()
				default:
					p.Error(err)
				}
			}
		})
	}
	writing.Wait()
	e := event(p.chain(), 1)
	e.ID = last
	end, err := p.log.Append(p.ctx, e, events.Tip{})
	if err != nil {
		p.Fatal(err)
	}
	following.Wait()

	whole := collect(p.T, p.log.Follow(p.ctx, before, &jetlog.FollowOptions{Until: end.Seq}))
	for _, all := range live {
		p.same("what a follower saw", whole, all)
	}
	for i := 0; i < len(whole); i += 9 {
		p.same("the rest", whole[i+1:], p.followTo(p.another(2), whole[i].Seq, last))
	}
	if n := len(slices.DeleteFunc(whole, func(r events.Record) bool { return r.Chain == shared })); n != writers*each+1 {
		p.Errorf("%d events beside those of the shared chain, not %d", n, writers*each+1)
	}
}

// followTo follows up to the event of that id, and verifies on its own.
func (p *probe) followTo(l Log, after events.Seq, last events.EventID) (all []events.Record) {
	p.Helper()
	v := events.NewVerifier(after, nil)
	for r, err := range l.Follow(p.ctx, after, nil) {
		if err == nil {
			err = v.Advance(&r)
		}
		if err != nil {
			p.Errorf("after %d: %v", after, err)
			return all
		}
		if all = append(all, r); r.ID == last {
			return all
		}
	}
	p.Errorf("after %d: the end came after %d events", after, len(all))
	return all
}
