package eventstest

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/toolfleet/toolfleet/events"
)

// ConformanceOptions of [Conformance].
type ConformanceOptions struct {
	// Inject stores a message as it is and returns its sequence; [Inject] does it
	// for JetStream. Without it, what a reader does with messages that nobody
	// should have written is left out.
	Inject func(t *testing.T, m events.Message) events.Seq
	// In runs each check. Default: as it is. [synctest.Test] is the other choice.
	In func(t *testing.T, f func(t *testing.T))
}

// Conformance checks everything that a log promises, each as a subtest whose
// name says it. Open returns the log of fleet [Fleet] as one writer sees it; it
// is called several times in a check, also at the same time, and must then
// return the same history. Checks may share a history or have one each.
func Conformance(t *testing.T, open func(t *testing.T, writer string) Log, o *ConformanceOptions) {
	var s suite
	if o != nil {
		s.o = *o
	}
	s.open = open
	groups := []group{
		{"append", appendChecks, false},
		{"conflict", conflictChecks, false},
		{"read a chain", chainChecks, false},
		{"follow", followChecks, false},
		{"commands", commandChecks, false},
		{"blobs", blobChecks, false},
		{"refusals", refusalChecks, s.o.In == nil},
	}
	if s.o.Inject != nil {
		groups = append(groups, group{"messages that nobody should have written", strangeChecks, false})
	}
	for _, g := range groups {
		t.Run(g.name, func(t *testing.T) {
			var wg sync.WaitGroup
			defer wg.Wait()
			for _, c := range g.checks {
				run := func() { t.Run(c.sentence, func(t *testing.T) { s.run(t, c) }) }
				if g.atOnce {
					wg.Go(run)
				} else {
					run()
				}
			}
		})
	}
}

type group struct {
	name   string
	checks []check
	// atOnce runs the checks at the same time; t.Parallel would run as many as
	// there are processors, although these wait more than they work.
	atOnce bool
}

type suite struct {
	open func(t *testing.T, writer string) Log
	o    ConformanceOptions
}

func (s *suite) run(t *testing.T, c check) {
	t.Helper()
	f := func(t *testing.T) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), HangLimit)
		defer cancel()
		c.run(&probe{T: t, suite: s, ctx: ctx, log: s.open(t, "writer-1")})
	}
	if s.o.In == nil {
		f(t)
		return
	}
	s.o.In(t, f)
}

// check is one promise.
type check struct {
	sentence string
	run      func(p *probe)
}

// probe is one run of a check. Its methods end the test on errors that the
// check does not look at.
type probe struct {
	*testing.T
	*suite
	ctx context.Context //nolint:containedctx // a probe lives as long as its check
	log Log
}

var chains atomic.Int64

// chain returns a chain that no other check uses.
func (p *probe) chain() events.Chain { return events.ServerChain(p.server()) }

func (p *probe) server() events.ServerID {
	return events.ServerID(fmt.Sprintf("s%d", chains.Add(1)))
}

// another returns the log as another writer sees it.
func (p *probe) another(n int) Log {
	return p.open(p.T, fmt.Sprintf("writer-%d", n))
}

// event returns an event that can be told from others by its number.
func event(c events.Chain, n int) events.Event {
	return events.Event{Chain: c, Body: events.MoveRequested{Worker: events.WorkerID(fmt.Sprintf("w%d", n))}}
}

func number(r *events.Record) (n int) {
	if m, ok := r.Body.(events.MoveRequested); ok {
		_, _ = fmt.Sscanf(string(m.Worker), "w%d", &n)
	}
	return n
}

func newID() events.EventID { return events.EventID(uuid.Must(uuid.NewV7()).String()) }

// append appends events 1 to n to a chain after a tip.
func (p *probe) append(l Log, c events.Chain, tip events.Tip, n int) []events.Record {
	p.Helper()
	var all []events.Record
	for i := range n {
		r, err := l.Append(p.ctx, event(c, i+1), tip)
		if err != nil {
			p.Fatalf("append %d to %s after %d: %v", i+1, c, tip.Seq, err)
		}
		all = append(all, r)
		tip = r.Tip()
	}
	return all
}

func (p *probe) chainAfter(l Log, c events.Chain, tip events.Tip) []events.Record {
	p.Helper()
	return collect(p.T, l.ReadChain(p.ctx, c, tip))
}

func (p *probe) head() events.Head {
	p.Helper()
	h, err := p.log.Head(p.ctx)
	if err != nil {
		p.Fatal(err)
	}
	return h
}

// same compares records.
func (p *probe) same(what string, want, got []events.Record) {
	p.Helper()
	if d := Diff(want, got); d != "" {
		p.Errorf("%s (-want +got):\n%s", what, d)
	}
}

// promptly runs f, which must end soon after stop is called.
func (p *probe) promptly(what string, f func(ctx context.Context, ready func())) {
	p.Helper()
	ctx, stop := context.WithCancel(p.ctx)
	defer stop()
	ready, done := make(chan struct{}), make(chan struct{})
	var once atomic.Bool
	go func() {
		defer close(done)
		f(ctx, func() {
			if once.CompareAndSwap(false, true) {
				close(ready)
			}
		})
	}()
	select {
	case <-ready:
	case <-p.ctx.Done():
		p.Fatalf("%s did not begin", what)
	}
	stop()
	limit := time.NewTimer(promptLimit)
	defer limit.Stop()
	select {
	case <-done:
	case <-limit.C:
		p.Errorf("%s goes on %s after its context ended", what, promptLimit)
		<-done
	}
}

// promptLimit is how long something may take to end. A consumer is removed from
// the server at its end, which has to answer.
const promptLimit = 5 * time.Second
