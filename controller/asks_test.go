package controller

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/errors"

	"github.com/toolfleet/toolfleet/controller/request"
	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/events/eventstest"
)

// However many controllers get a request, and however often, it causes one
// event.
func TestOneRequestOneEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := eventstest.NewMemory("f")
		one, other := start(t, parts(m.Open("one")), nil), start(t, parts(m.Open("other")), nil)
		d := command("x")
		answers := make(chan request.Answer, 20)
		for i := range cap(answers) {
			c := one
			if i%2 == 1 {
				c = other
			}
			go func() {
				a, err := c.askAs(t, "r", request.Declare, "s", &d)
				if err != nil {
					t.Error(err)
				}
				answers <- a
			}()
		}
		repeated := 0
		for range cap(answers) {
			a := <-answers
			if a.Seq != 1 {
				t.Errorf("answer is %+v", a)
			}
			if a.Repeated {
				repeated++
			}
		}
		if repeated != cap(answers)-1 {
			t.Errorf("%d of %d are repeats", repeated, cap(answers))
		}
		if all := eventstest.Stored(t, m.Open("test"), 0); len(all) != 1 {
			t.Errorf("stored:\n%s", eventstest.Lines(all))
		}
		if _, err := other.askAs(t, "r", request.Stop, "s", nil); !errors.Is(err, request.ErrRequestReused) {
			t.Errorf("error of another use is %v", err)
		}
	})
}

// A decision that someone was faster than is made again.
func TestConflictIsDecidedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := eventstest.NewMemory("f").Open("test")
		declared, err := l.Append(t.Context(), events.Event{Chain: events.ServerChain("s"), Body: declaredAs(command("x"))}, events.Tip{})
		if err != nil {
			t.Fatal(err)
		}
		var once sync.Once
		p := parts(l)
		p.Journal = &journal{l, func(e *events.Event) (err error) {
			if e.Kind() == events.KindStopRequested {
				once.Do(func() {
					_, err = l.Append(t.Context(), events.Event{Chain: e.Chain, Body: events.Withdrawn{}}, declared.Tip())
				})
			}
			return err
		}}
		c := start(t, p, nil)
		if _, err := c.ask(t, request.Stop, "s", nil); !errors.Is(err, request.ErrUnknownServer) {
			t.Errorf("error is %v, want that it was withdrawn meanwhile", err)
		}
	})
}

// Nothing is decided again before what it was decided on has moved: neither
// requests nor plans are tried over and over against an old fold.
func TestDecisionsWaitForTheFold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := eventstest.NewMemory("f").Open("test")
		g := newGate()
		var appends atomic.Int64
		p := parts(l)
		p.Source = source{l, g}
		p.Journal = &journal{l, func(*events.Event) error {
			appends.Add(1)
			return nil
		}}
		c := start(t, p, nil)
		d := command("x")
		declared, err := c.ask(t, request.Declare, "s", &d)
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		step := func(name string, want int64, f func()) {
			t.Helper()
			open := g.shut()
			appends.Store(0)
			f()
			synctest.Wait()
			if got := appends.Load(); got != want {
				t.Errorf("%s: %d appends with an old fold, want %d", name, got, want)
			}
			open()
			synctest.Wait()
		}
		step("two requests", 1, func() {
			for _, v := range []request.Verb{request.Stop, request.Disable} {
				go func() { _, _ = c.ask(t, v, "s", nil) }()
				synctest.Wait()
			}
		})
		step("a conflict", 1, func() {
			tip := lastOf(t, l, events.ServerChain("s"))
			if _, err := l.Append(t.Context(), events.Event{Chain: events.ServerChain("s"), Body: events.RestartRequested{}}, tip); err != nil {
				t.Fatal(err)
			}
			go func() { _, _ = c.ask(t, request.Enable, "s", nil) }()
		})
		if all := eventstest.Stored(t, l, declared.Seq); len(all) != 4 {
			t.Errorf("after the fold:\n%s", eventstest.Lines(all))
		}
	})
}

func lastOf(t *testing.T, l *eventstest.MemoryLog, c events.Chain) (tip events.Tip) {
	t.Helper()
	for r, err := range l.ReadChain(t.Context(), c, events.Tip{}) {
		if err != nil {
			t.Fatal(err)
		}
		tip = r.Tip()
	}
	return tip
}

// What another controller was told is known here before "there is none" is said.
func TestNothingIsDeniedFromAnOldFold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := eventstest.NewMemory("f")
		g := newGate()
		open := g.shut()
		p := parts(m.Open("late"))
		p.Source = source{m.Open("late"), g}
		late := start(t, p, nil) // the history is empty still
		d := command("x")
		first, err := start(t, parts(m.Open("other")), nil).ask(t, request.Declare, "s", &d)
		if err != nil {
			t.Fatal(err)
		}
		answered := make(chan error, 1)
		go func() {
			a, err := late.ask(t, request.Start, "s", nil)
			if err == nil && (!a.Unchanged || a.Seq != first.Seq) {
				err = errors.Newf("answer is %+v", a)
			}
			answered <- err
		}()
		synctest.Wait()
		select {
		case err := <-answered:
			t.Fatalf("answered from an old fold: %v", err)
		default:
		}
		open()
		if err := <-answered; err != nil {
			t.Error(err)
		}
	})
}

func TestOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := eventstest.NewMemory("f")
		c := start(t, parts(m.Open("test")), nil)
		d := command("x")
		for _, mode := range []eventstest.OutageMode{eventstest.Unreachable, eventstest.AnswersLost} {
			id := events.RequestID(fmt.Sprint("r", mode))
			server := fmt.Sprint("s", mode)
			m.SetOutage(mode)
			if _, err := c.askAs(t, id, request.Declare, server, &d); !errors.Is(err, request.ErrUnavailable) {
				t.Errorf("error during an outage is %v", err)
			}
			m.SetOutage(eventstest.NoOutage)
			a, err := c.askAs(t, id, request.Declare, server, &d)
			if err != nil || a.Repeated != (mode == eventstest.AnswersLost) {
				t.Errorf("answer after an outage of mode %v is %+v, %v", mode, a, err)
			}
		}
		if all := eventstest.Stored(t, m.Open("test"), 0); len(all) != 2 {
			t.Errorf("stored:\n%s", eventstest.Lines(all))
		}
	})
}

// What waits is bounded.
func TestTooManyRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := eventstest.NewMemory("f")
		c := start(t, parts(m.Open("test")), nil)
		m.SetOutage(eventstest.Unreachable)
		d := command("x")
		var refused, waited atomic.Int64
		var all sync.WaitGroup
		for i := range maxAsks + 10 {
			all.Go(func() {
				begun := time.Now()
				if _, err := c.ask(t, request.Declare, fmt.Sprintf("s%d", i), &d); !errors.Is(err, request.ErrUnavailable) {
					t.Errorf("error is %v", err)
				}
				if time.Since(begun) == 0 {
					refused.Add(1)
				} else {
					waited.Add(1)
				}
			})
		}
		all.Wait()
		if refused.Load() != 10 || waited.Load() != maxAsks {
			t.Errorf("%d were refused at once, %d waited", refused.Load(), waited.Load())
		}
		m.SetOutage(eventstest.NoOutage)
		if _, err := c.ask(t, request.Declare, "s", &d); err != nil {
			t.Errorf("after the outage: %v", err)
		}
	})
}

func TestInvalidRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t, parts(eventstest.NewMemory("f").Open("test")), nil)
		d := command("x")
		for name, q := range map[string]request.Request{
			"no id":             {Verb: request.Stop, Server: "s"},
			"no definition":     {Verb: request.Declare, Server: "s", ID: "r"},
			"a definition":      {Verb: request.Stop, Server: "s", ID: "r", Definition: &d},
			"no verb":           {Server: "s", ID: "r"},
			"an unknown verb":   {Verb: "dance", Server: "s", ID: "r"},
			"a very long id":    {Verb: request.Stop, Server: "s", ID: events.RequestID(make([]byte, 200))},
			"no text":           {Verb: request.Stop, Server: "s", ID: "r", Actor: "\xff"},
			"a very long actor": {Verb: request.Stop, Server: "s", ID: "r", Actor: string(make([]byte, 300))},
		} {
			if _, err := c.handle(t.Context(), &q); !errors.Is(err, request.ErrInvalidRequest) {
				t.Errorf("%s: error is %v", name, err)
			}
		}
	})
}
