package eventstest

import (
	"bytes"
	"context"
	"sync"

	"github.com/cockroachdb/errors"
	"github.com/google/go-cmp/cmp"

	"github.com/toolfleet/toolfleet/events"
)

// address returns an address of a worker that no other check uses.
func (p *probe) address() events.Address {
	id := p.server()
	return events.Address{Worker: events.WorkerID(id), Server: id, Instance: "0"}
}

func command(e events.Epoch) *events.Command {
	return &events.Command{
		Want: events.Running, Definition: &events.Definition{Command: "server", Args: []string{"a"}},
		Generation: 7, Incarnation: "i", Epoch: e, Cause: "c",
		Trace: events.Trace{Parent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"},
	}
}

// put puts a command that must be taken.
func (p *probe) put(a events.Address, e events.Epoch, seen events.Seq) events.Seq {
	p.Helper()
	seq, err := p.log.PutCommand(p.ctx, a, command(e), seen)
	if err != nil {
		p.Fatal(err)
	}
	return seq
}

// lastCommands returns the last commands of a worker's addresses.
func (p *probe) lastCommands(w events.WorkerID) map[events.Address]events.CommandRecord {
	p.Helper()
	all, err := p.log.LastCommands(p.ctx)
	if err != nil {
		p.Fatal(err)
	}
	last := make(map[events.Address]events.CommandRecord)
	for _, r := range all {
		if _, twice := last[r.Address]; twice {
			p.Errorf("%v comes twice", r.Address)
		}
		if r.Worker == w {
			last[r.Address] = r
		}
	}
	return last
}

var commandChecks = []check{
	{"of several commands to an address, the last is the one", func(p *probe) {
		a := p.address()
		b := a
		b.Instance = "1"
		var seen, other events.Seq
		for e := range events.Epoch(20) {
			seen = p.put(a, e+1, seen)
			if e == 5 {
				other = p.put(b, e+1, 0)
			}
		}
		want := map[events.Address]events.CommandRecord{
			a: {Address: a, Command: command(20), Seq: seen},
			b: {Address: b, Command: command(6), Seq: other},
		}
		if d := cmp.Diff(want, p.lastCommands(a.Worker)); d != "" {
			p.Errorf("the last commands (-want +got):\n%s", d)
		}
	}},
	{"a command states the one that it replaces, or conflicts and changes nothing", func(p *probe) {
		a := p.address()
		first := p.put(a, 1, 0)
		second := p.put(a, 2, first)
		for _, seen := range []events.Seq{0, first} {
			if seq, err := p.log.PutCommand(p.ctx, a, command(3), seen); !errors.Is(err, events.ErrConflict) {
				p.Errorf("one that saw %d: stored at %d with error %v, not ErrConflict", seen, seq, err)
			}
		}
		if r := p.lastCommands(a.Worker)[a]; r.Seq != second {
			p.Errorf("the last command is %d, not %d", r.Seq, second)
		}
	}},
	{"of writers that race for one address, each command replaces one", func(p *probe) {
		a := p.address()
		const writers, each = 4, 10
		var mu sync.Mutex
		won := make(map[events.Seq]bool)
		var wg sync.WaitGroup
		for i := range writers {
			l := p.another(i)
			wg.Go(func() {
				for n := 0; n < each; {
					mu.Lock()
					var seen events.Seq
					for seq := range won {
						seen = max(seen, seq)
					}
					mu.Unlock()
					seq, err := l.PutCommand(p.ctx, a, command(events.Epoch(n+1)), seen)
					if errors.Is(err, events.ErrConflict) {
						continue
					}
					if err != nil {
						p.Error(err)
						return
					}
					mu.Lock()
					if seq <= seen || won[seq] {
						p.Errorf("one that saw %d was stored at %d", seen, seq)
					}
					won[seq] = true
					mu.Unlock()
					n++
				}
			})
		}
		wg.Wait()
		if len(won) != writers*each {
			p.Errorf("%d commands were stored, not %d", len(won), writers*each)
		}
	}},
	{"a follower gets the last command of each of its worker's addresses, then new ones, never an older one", func(p *probe) {
		a := p.address()
		b, stranger := a, p.address()
		b.Instance = "1"
		p.put(stranger, 1, 0)
		seen := map[events.Address]events.Seq{a: p.put(a, 1, 0), b: p.put(b, 1, 0)}
		seen[a] = p.put(a, 2, seen[a])
		got := make(map[events.Address]events.CommandRecord)
		next := events.Epoch(3)
		for r, err := range p.another(2).FollowCommands(p.ctx, a.Worker) {
			if err != nil {
				p.Fatal(err)
			}
			if r.Worker != a.Worker || r.Seq <= got[r.Address].Seq {
				p.Fatalf("command %d to %v came after %d", r.Seq, r.Address, got[r.Address].Seq)
			}
			got[r.Address] = r
			if got[a].Seq != seen[a] || got[b].Seq != seen[b] {
				continue
			}
			if next == 10 {
				break
			}
			p.put(stranger, next, p.lastCommands(stranger.Worker)[stranger].Seq)
			seen[a] = p.put(a, next, seen[a])
			seen[b] = p.put(b, next, seen[b])
			next++
		}
		want := map[events.Address]events.CommandRecord{
			a: {Address: a, Command: command(9), Seq: seen[a]},
			b: {Address: b, Command: command(9), Seq: seen[b]},
		}
		if d := cmp.Diff(want, got); d != "" {
			p.Errorf("the last that came (-want +got):\n%s", d)
		}
	}},
	{"a purge takes away the commands of its address up to a sequence, and no others", func(p *probe) {
		a := p.address()
		b := a
		b.Instance = "1"
		first := p.put(a, 1, 0)
		other := p.put(b, 1, 0)
		second := p.put(a, 2, first)
		purge := func(upTo events.Seq) {
			if err := p.log.PurgeCommands(p.ctx, a, upTo); err != nil {
				p.Fatal(err)
			}
		}
		purge(first)
		if r := p.lastCommands(a.Worker)[a]; r.Seq != second {
			p.Errorf("after the purge up to %d the last command is %d, not %d", first, r.Seq, second)
		}
		purge(second)
		purge(second) // again does no harm
		if last := p.lastCommands(a.Worker); len(last) != 1 || last[b].Seq != other {
			p.Errorf("after the purge up to %d there are %v", second, last)
		}
		for r, err := range p.log.FollowCommands(p.ctx, a.Worker) {
			if err != nil || r.Address != b {
				p.Errorf("a follower gets %v, error %v", r, err)
			}
			break
		}
		if third := p.put(a, 3, 0); third <= second {
			p.Errorf("the next command is %d", third)
		}
	}},
	{"the end of the context ends a follower of commands, at once and without an error", func(p *probe) {
		a := p.address()
		p.put(a, 1, 0)
		p.promptly("following commands", func(ctx context.Context, ready func()) {
			for _, err := range p.log.FollowCommands(ctx, a.Worker) {
				if err != nil {
					p.Errorf("the end is %v", err)
				}
				ready()
			}
		})
	}},
	{"a command that says nothing is refused", func(p *probe) {
		if seq, err := p.log.PutCommand(p.ctx, p.address(), &events.Command{}, 0); err == nil {
			p.Errorf("it was stored at %d", seq)
		}
	}},
}

var blobChecks = []check{
	{"a blob is found by its digest", func(p *probe) {
		for _, size := range []int{0, 1, 1000, 128 << 10, 3<<20 + 1} {
			data := bytes.Repeat([]byte{'0' + byte(size%7)}, size)
			d, err := p.log.PutBlob(p.ctx, data)
			if err != nil {
				p.Fatalf("put %d bytes: %v", size, err)
			}
			if want := events.DigestOf(data); d != want {
				p.Errorf("the digest of %d bytes is %s, not %s", size, d, want)
			}
			got, err := p.another(2).GetBlob(p.ctx, d)
			if err != nil {
				p.Fatalf("get %d bytes: %v", size, err)
			}
			if !bytes.Equal(got, data) {
				p.Errorf("%d bytes came back as %d", size, len(got))
			}
		}
	}},
	{"a blob that is put twice is the same blob, also at the same time", func(p *probe) {
		data := []byte(p.server())
		var wg sync.WaitGroup
		for i := range 4 {
			l := p.another(i)
			wg.Go(func() {
				for range 3 {
					if d, err := l.PutBlob(p.ctx, data); err != nil || d != events.DigestOf(data) {
						p.Errorf("digest %s, error %v", d, err)
					}
					if got, err := l.GetBlob(p.ctx, events.DigestOf(data)); err != nil || !bytes.Equal(got, data) {
						p.Errorf("%q came back as %q, error %v", data, got, err)
					}
				}
			})
		}
		wg.Wait()
	}},
}
