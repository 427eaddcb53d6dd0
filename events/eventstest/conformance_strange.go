package eventstest

import (
	"bytes"
	"maps"
	"strings"
	"time"

	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/events/jetlog"
)

// strange stores an event that was changed after it was encoded.
func (p *probe) strange(c events.Chain, tip events.Tip, change func(m *events.Message)) events.Seq {
	p.Helper()
	before := p.head()
	// A well-formed event, only to have its headers.
	e := event(c, 1)
	e.ID, e.Source, e.Time, e.Prev = newID(), "a stranger", time.Unix(0, 0), tip.Link
	m, err := events.Encode(Fleet, &e)
	if err != nil {
		p.Fatal(err)
	}
	change(&m)
	seq := p.o.Inject(p.T, m)
	if seq != before.Seq+1 {
		p.Fatalf("injected at %d, not %d", seq, before.Seq+1)
	}
	return seq
}

var strangeChecks = []check{
	{"a kind that is not known is read as it is, and can be followed by others", func(p *probe) {
		p.readsOn("dev.toolfleet.telepathy-lost.v1", `{"to":"the future"}`)
	}},
	{"a version that is not known is read as it is, and can be followed by others", func(p *probe) {
		p.readsOn("dev.toolfleet.move-requested.v65535", `{"worker":["a","b"]}`)
	}},
	{"what cannot be decoded has its place in stream and chain", func(p *probe) {
		for name, change := range map[string]func(m *events.Message){
			"no headers":        func(m *events.Message) { m.Header = nil },
			"no body":           func(m *events.Message) { m.Data = nil },
			"not JSON":          func(m *events.Message) { m.Data = []byte("<xml/>") },
			"half a body":       func(m *events.Message) { m.Data = m.Data[:len(m.Data)/2] },
			"two members alike": func(m *events.Message) { m.Data = []byte(`{"worker":"a","worker":"b"}`) },
			"invalid UTF-8":     func(m *events.Message) { m.Data = []byte("{\"worker\":\"\xff\"}") },
			"a kind of another chain": func(m *events.Message) {
				m.Header["ce-type"] = []string{events.KindFrozen.Type()}
			},
			"no type":            func(m *events.Message) { delete(m.Header, "ce-type") },
			"another's type":     func(m *events.Message) { m.Header["ce-type"] = []string{"org.example.ordered"} },
			"another's subject":  func(m *events.Message) { m.Header["ce-subject"] = []string{"server.another"} },
			"a time in words":    func(m *events.Message) { m.Header["ce-time"] = []string{"yesterday"} },
			"an epoch below all": func(m *events.Message) { m.Header["tf-epoch"] = []string{"-1"} },
			"an epoch above all": func(m *events.Message) { m.Header["tf-epoch"] = []string{"18446744073709551616"} },
			"CloudEvents 2.0":    func(m *events.Message) { m.Header["ce-specversion"] = []string{"2.0"} },
		} {
			before := p.head().Seq
			c := p.chain()
			first := p.append(p.log, c, events.Tip{}, 1)[0]
			seq := p.strange(c, first.Tip(), change)
			after := p.chainAfter(p.log, c, first.Tip())
			if len(after) != 1 || after[0].Seq != seq {
				p.Errorf("%s: the chain after %d is\n%s", name, first.Seq, Lines(after))
				continue
			}
			if u, ok := after[0].Body.(events.Undecodable); !ok || u.Reason == "" {
				p.Errorf("%s: the body is %#v", name, after[0].Body)
			}
			last := p.append(p.log, c, after[0].Tip(), 1)[0]
			whole := []events.Record{first, after[0], last}
			p.same(name+": the chain", whole, p.chainAfter(p.log, c, events.Tip{}))
			p.same(name+": the history", whole, collect(p.T, p.log.Follow(p.ctx, before, &jetlog.FollowOptions{
				Tips: map[events.Chain]events.Tip{}, Until: last.Seq,
			})))
		}
	}},
	{"a message on no chain has its place in the stream", func(p *probe) {
		for _, subject := range []string{"x", "server", "server.a.b", "instance.a", "worker.a.b.c", "fleet.x", "server.ä"} {
			c := p.chain()
			before := p.append(p.log, c, events.Tip{}, 1)[0]
			seq := p.strange(c, before.Tip(), func(m *events.Message) { m.Subject = events.EventPrefix(Fleet) + subject })
			after := p.append(p.log, c, before.Tip(), 1)[0]
			all := collect(p.T, p.log.Follow(p.ctx, before.Seq, &jetlog.FollowOptions{Until: after.Seq}))
			if len(all) != 2 || all[0].Seq != seq || all[0].Chain != (events.Chain{}) || all[1].Seq != after.Seq {
				p.Errorf("a message on %s is read as\n%s", subject, Lines(all))
			}
		}
	}},
	{"an event without its link ends the reading with ErrHistoryIncomplete", func(p *probe) {
		// The chain is begun first: its first event needs no link.
		c := p.chain()
		tip := p.append(p.log, c, events.Tip{}, 1)[0].Tip()
		p.strange(c, events.Tip{}, func(*events.Message) {})
		p.fails(events.ErrHistoryIncomplete, p.log.ReadChain(p.ctx, c, events.Tip{}))
		p.fails(events.ErrHistoryIncomplete, p.log.Follow(p.ctx, tip.Seq-1, nil))
	}},
	{"headers of the broker and of others have no part in the link", func(p *probe) {
		c := p.chain()
		var plain, more events.Message
		tip := p.append(p.log, c, events.Tip{}, 1)[0].Tip()
		p.strange(c, tip, func(m *events.Message) {
			plain = *m
			more = *m
			more.Header = maps.Clone(m.Header)
			more.Header["Nats-Comment"], more.Header["X-Other"] = []string{"1"}, []string{"2"}
			*m = more
		})
		r := p.chainAfter(p.log, c, tip)[0]
		if want := events.LinkOf(plain); r.Link != want {
			p.Errorf("the link is %s, not %s", r.Link, want)
		}
		p.append(p.log, c, r.Tip(), 1)
		p.chainAfter(p.log, c, events.Tip{})
	}},
	{"an event as large as the stream takes is read", func(p *probe) {
		c := p.chain()
		tip := p.append(p.log, c, events.Tip{}, 1)[0].Tip()
		p.strange(c, tip, func(m *events.Message) {
			m.Data = bytes.Replace(m.Data, []byte(`"w1"`), []byte(`"`+strings.Repeat("w", events.MaxSize)+`"`), 1)
		})
		r := p.chainAfter(p.log, c, tip)[0]
		if len(r.Data) < events.MaxSize {
			p.Errorf("%d bytes of it", len(r.Data))
		}
		p.append(p.log, c, r.Tip(), 1)
		p.chainAfter(p.log, c, events.Tip{})
	}},
}

// readsOn stores an event of another type between two events, and reads it.
func (p *probe) readsOn(typ, data string) {
	p.Helper()
	before := p.head().Seq
	c := p.chain()
	first := p.append(p.log, c, events.Tip{}, 1)[0]
	p.strange(c, first.Tip(), func(m *events.Message) {
		m.Header["ce-type"], m.Data = []string{typ}, []byte(data)
	})
	second := p.chainAfter(p.log, c, first.Tip())[0]
	if u, ok := second.Body.(events.Unknown); !ok || u.Type != typ || string(second.Data) != data {
		p.Fatalf("it is read as %#v with data %s", second.Body, second.Data)
	}
	third := p.append(p.log, c, second.Tip(), 1)[0]
	whole := []events.Record{first, second, third}
	p.same("the chain", whole, p.chainAfter(p.log, c, events.Tip{}))
	p.same("the history", whole, Stored(p.T, p.log, before))
}
