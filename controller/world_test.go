package controller

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/cockroachdb/errors"

	"github.com/toolfleet/toolfleet/controller/request"
	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/projections"
)

// world is a fleet without a bus: a history, commands, and workers that do what
// they are told. It fails when something happens that must not.
type world struct {
	t fataler

	records  []events.Record
	history  projections.History // of all records
	tips     map[events.Chain]events.Tip
	commands Commands
	puts     events.Seq
	// journal is everything that was written, in order.
	journal []write

	workers map[events.WorkerID]*host
	asked   int
}

// fataler is a *testing.T or a *rapid.T.
type fataler interface {
	Helper()
	Fatalf(format string, args ...any)
}

// write is an event or a command that was written.
type write struct {
	event   *events.Event
	tip     events.Tip
	address events.Address
	command *events.Command
	seen    events.Seq
}

// host is a worker and what runs on it.
type host struct {
	incarnation events.Incarnation
	lives       int
	up          bool
	running     map[events.Chain]process
}

type process struct {
	epoch               events.Epoch
	generation, restart events.Seq
}

func newWorld(t fataler) *world {
	return &world{
		t: t, tips: make(map[events.Chain]events.Tip), commands: make(Commands), workers: make(map[events.WorkerID]*host),
	}
}

var epochBegin = time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)

// append stores an event if the chain ends at the tip.
func (w *world) append(e events.Event, tip events.Tip) (events.Record, error) {
	if have := w.tips[e.Chain]; have != tip {
		return events.Record{}, errors.WithStack(&events.ConflictError{Chain: e.Chain, Expected: tip.Seq, Found: w.after(e.Chain, tip.Seq)})
	}
	if !e.Kind().BelongsOn(e.Chain.Kind()) {
		w.t.Fatalf("%s on %s", e.Kind(), e.Chain)
	}
	w.journal = append(w.journal, write{event: &e, tip: tip})
	seq := events.Seq(len(w.records) + 1)
	r := events.Record{Event: e, Seq: seq, Link: events.Link("link-" + seq.String())}
	r.ID, r.Time = events.EventID("id-"+seq.String()), epochBegin.Add(time.Duration(seq)*time.Second)
	w.checkAssignment(&r)
	w.records = append(w.records, r)
	w.history.Apply(r)
	w.tips[e.Chain] = r.Tip()
	return r, nil
}

// must appends an event at the end of its chain.
func (w *world) must(e events.Event) events.Record {
	w.t.Helper()
	r, err := w.append(e, w.tips[e.Chain])
	if err != nil {
		w.t.Fatalf("%v", err)
	}
	return r
}

func (w *world) after(c events.Chain, seq events.Seq) events.Record {
	i := slices.IndexFunc(w.records, func(r events.Record) bool { return r.Chain == c && r.Seq > seq })
	if i < 0 {
		w.t.Fatalf("append to %s after %d, which is not there", c, seq)
	}
	return w.records[i]
}

// checkAssignment fails if an instance is given away while it still runs.
func (w *world) checkAssignment(r *events.Record) {
	a, ok := r.Body.(events.Assigned)
	if !ok {
		return
	}
	for id, h := range w.workers {
		if p, runs := h.running[r.Chain]; runs {
			w.t.Fatalf("%s was assigned to %s in epoch %d while %s runs epoch %d of it", r.Chain, a.Worker, a.Epoch, id, p.epoch)
		}
	}
	if i := w.history.Instance(r.Chain.Server(), r.Chain.Instance()); i != nil && (a.Epoch != i.Epoch+1 || i.State.Owned()) {
		w.t.Fatalf("%s was assigned in epoch %d, but is %s in epoch %d", r.Chain, a.Epoch, i.State, i.Epoch)
	}
}

// put stores a command if the address ends at seen.
func (w *world) put(a events.Address, c *events.Command, seen events.Seq) (events.Seq, error) {
	last := w.commands[a]
	if last.Seq != seen {
		return 0, errors.Mark(errors.Newf("command %d is there", last.Seq), events.ErrConflict)
	}
	if last.Command != nil && c.Older(last.Command) {
		w.t.Fatalf("command to %v goes back from epoch %d generation %d to %d, %d", a,
			last.Command.Epoch, last.Command.Generation, c.Epoch, c.Generation)
	}
	if c.Want == events.Running && (c.Definition == nil || c.Digest != c.Definition.Digest()) || c.Cause == "" || c.Generation == 0 {
		w.t.Fatalf("command to %v is incomplete: %+v", a, c)
	}
	w.journal = append(w.journal, write{address: a, command: c, seen: seen})
	w.puts++
	w.commands[a] = events.CommandRecord{Address: a, Command: c, Seq: w.puts}
	return w.puts, nil
}

// view returns what a controller knows that has read up to seq.
func (w *world) view(seq events.Seq) *View {
	v := &View{}
	for _, r := range w.records[:seq] {
		v.Apply(r)
	}
	return v
}

func (w *world) end() events.Seq { return events.Seq(len(w.records)) }

// carryOut does what a plan wants; conflicts are of no consequence.
func (w *world) carryOut(decisions []Decision) {
	for _, d := range decisions {
		var err error
		switch d := d.(type) {
		case Append:
			_, err = w.append(d.Event, d.Tip)
		case Order:
			_, err = w.put(d.To, d.Command, d.Seen)
		case Purge:
			if w.commands[d.Of].Seq <= d.UpTo {
				delete(w.commands, d.Of)
			}
		}
		if err != nil && !errors.Is(err, events.ErrConflict) {
			w.t.Fatalf("%v", err)
		}
	}
}

// ask makes a request, and does what it causes.
func (w *world) ask(q request.Request) (request.Answer, error) {
	w.asked++
	if q.ID == "" {
		q.ID = events.RequestID("request-" + strconv.Itoa(w.asked))
	}
	es, a, err := decide(&w.history, &q)
	for _, e := range es {
		a.Seq = w.must(e).Seq
	}
	return a, err
}

func (w *world) declare(id string, d events.Definition) {
	w.t.Helper()
	if _, err := w.ask(request.Request{Verb: request.Declare, Server: id, Definition: &d}); err != nil {
		w.t.Fatalf("%v", err)
	}
}

// join starts a worker, or a new life of it: nothing of a former one runs.
func (w *world) join(id events.WorkerID, j events.Joined) *host {
	h := w.workers[id]
	if h == nil {
		h = &host{}
		w.workers[id] = h
	}
	h.lives++
	h.up, h.running = true, make(map[events.Chain]process)
	h.incarnation = events.Incarnation(fmt.Sprintf("%s-%d", id, h.lives))
	j.Incarnation = h.incarnation
	w.must(events.Event{Chain: events.WorkerChain(id), Body: j})
	return h
}

// crash ends a worker without a word.
func (w *world) crash(id events.WorkerID) {
	w.workers[id].up, w.workers[id].running = false, nil
}

// leave ends a worker in order: what runs is stopped first.
func (w *world) leave(id events.WorkerID) {
	h := w.workers[id]
	for _, c := range slices.SortedFunc(maps.Keys(h.running), compareChains) {
		p := h.running[c]
		delete(h.running, c)
		w.must(events.Event{Chain: c, Body: events.HasStopped{How: "closed"}, Epoch: p.epoch})
	}
	w.must(events.Event{Chain: events.WorkerChain(id), Body: events.Left{Incarnation: h.incarnation}})
	h.up = false
}

func compareChains(a, b events.Chain) int {
	switch x, y := a.String(), b.String(); {
	case x < y:
		return -1
	case x > y:
		return 1
	}
	return 0
}

// work lets a worker act on the last command of one of its addresses, and says
// whether there was anything to do.
func (w *world) work(a events.Address) bool {
	h, c := w.workers[a.Worker], w.commands[a].Command
	if h == nil || !h.up || c == nil || c.Incarnation != h.incarnation {
		return false
	}
	chain := events.InstanceChain(a.Server, a.Instance)
	i := w.history.Instance(a.Server, a.Instance)
	if i == nil || !i.State.Owned() || i.Worker != a.Worker || i.Incarnation != h.incarnation || i.Epoch != c.Epoch {
		return false // not the owner: nothing that it would write could be stored
	}
	say := func(b events.Body) { w.must(events.Event{Chain: chain, Body: b, Epoch: c.Epoch}) }
	p, runs := h.running[chain]
	want := process{c.Epoch, c.Generation, c.Restart}
	switch {
	case c.Want == events.Stopped && (runs || i.State != projections.Stopped):
		delete(h.running, chain)
		say(events.HasStopped{How: "closed"})
	case c.Want == events.Running && (!runs || p != want):
		say(events.Connecting{Attempt: 1, Generation: c.Generation, Definition: c.Digest})
		h.running[chain] = want
		say(events.Connected{Protocol: "2025-11-25", Era: "handshake"})
		say(events.ToolsListed{Listing: events.Listing{Digest: "d"}})
	case c.Want == events.Running && i.State != projections.Ready:
		if i.State == projections.Connecting {
			say(events.Connected{Protocol: "2025-11-25", Era: "handshake"})
		}
		say(events.ToolsListed{Listing: events.Listing{Digest: "d"}})
	default:
		return false
	}
	return true
}

func (w *world) workAll() (any bool) {
	for _, a := range slices.SortedFunc(maps.Keys(w.commands), compareAddresses) {
		any = w.work(a) || any
	}
	return any
}

// settle plans and works until there is nothing to do any more.
func (w *world) settle() {
	w.t.Helper()
	for range 50 {
		decisions := Plan(w.view(w.end()), w.commands, nil)
		w.carryOut(decisions)
		if !w.workAll() && len(decisions) == 0 {
			return
		}
	}
	w.t.Fatalf("no rest after 50 rounds; still planned: %v", Plan(w.view(w.end()), w.commands, nil))
}

// check fails unless exactly what is wanted runs, wherever there is a worker for
// it.
func (w *world) check() {
	w.t.Helper()
	runs := make(map[events.Chain]process)
	for id, h := range w.workers {
		for c, p := range h.running {
			if _, twice := runs[c]; twice {
				w.t.Fatalf("%s runs twice, also on %s", c, id)
			}
			runs[c] = p
			if s := w.history.Server(c.Server()); !suits(s.Definition, w.history.Worker(id)) {
				w.t.Fatalf("%s runs on %s, where it must not", c, id)
			}
		}
	}
	wanted := make(map[events.Chain]process)
	for s := range w.history.Servers() {
		for _, i := range w.wanted(s) {
			c := events.InstanceChain(i.Server, i.Instance)
			if i.State != projections.Ready {
				w.t.Fatalf("%s is %+v, want it ready", c, i)
			}
			wanted[c] = process{i.Epoch, s.Generation, s.Restart}
			if last := w.commands[addressOf(i)].Command; last == nil || last.Want != events.Running || last.Epoch != i.Epoch || last.Frozen {
				w.t.Fatalf("the last command of %v is %+v", addressOf(i), last)
			}
		}
	}
	if !maps.Equal(runs, wanted) {
		w.t.Fatalf("what runs is %v, want %v", runs, wanted)
	}
	for a, c := range w.commands {
		if i := w.history.Instance(a.Server, a.Instance); !i.State.Owned() {
			w.t.Fatalf("command %v of %v is left over", c.Command, a)
		}
	}
	if waits := Waiting(&w.history); len(waits) > 0 && w.history.Fleet().Frozen == nil {
		for c, why := range waits {
			if slices.ContainsFunc(w.eligible(w.history.Server(c.Server())), func(x *projections.Worker) bool { return x.Capacity == 0 }) {
				w.t.Fatalf("%s waits: %s", c, why)
			}
		}
	}
}

// eligible returns the workers that may be given instances of a server.
func (w *world) eligible(s *projections.Server) (all []*projections.Worker) {
	for x := range w.history.Workers() {
		if x.Eligible() && suits(s.Definition, x) {
			all = append(all, x)
		}
	}
	return all
}

// wanted returns the instances that a server must have: those that have an
// owner, if they are as many as they should be.
func (w *world) wanted(s *projections.Server) (owned []*projections.Instance) {
	w.t.Helper()
	for i := range w.history.InstancesOf(s.ID) {
		if i.State.Owned() {
			owned = append(owned, i)
		}
	}
	want := 0
	if s.Wanted() == events.Running {
		eligible := w.eligible(s)
		n, counted := replicasOf(s.Definition).Count()
		switch {
		case !counted:
			want = len(eligible)
			for _, i := range owned {
				if string(i.Instance) != string(i.Worker) {
					w.t.Fatalf("%s is on %s", i.Instance, i.Worker)
				}
			}
		case len(eligible) > 0:
			want = n
		}
	}
	if len(owned) != want {
		w.t.Fatalf("%s has %d instances, want %d", s.ID, len(owned), want)
	}
	return owned
}
