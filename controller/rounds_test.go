package controller

import (
	"context"
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

// A plan waits until what the last one wrote is folded.
func TestPlansWaitForTheFold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := eventstest.NewMemory("f").Open("test")
		for chain, b := range map[events.Chain]events.Body{
			events.ServerChain("s"): declaredAs(command("x")), events.WorkerChain("a"): events.Joined{Incarnation: "a-1"},
		} {
			if _, err := l.Append(t.Context(), events.Event{Chain: chain, Body: b}, events.Tip{}); err != nil {
				t.Fatal(err)
			}
		}
		g := newGate()
		var open func()
		var appends atomic.Int64
		p := parts(l)
		p.Source = source{l, g}
		p.Journal = &journal{l, func(*events.Event) error {
			if appends.Add(1) == 1 {
				open = g.shut()
			}
			return nil
		}}
		start(t, p, nil)
		time.Sleep(10 * tickEvery) // fake time
		synctest.Wait()
		if n := appends.Load(); n != 1 {
			t.Errorf("%d appends with an old fold, want 1", n)
		}
		open()
		synctest.Wait()
		if commands, err := l.LastCommands(t.Context()); err != nil || len(commands) != 1 {
			t.Errorf("commands after the fold are %+v, %v", commands, err)
		}
	})
}

// What cannot be written is said, and planned again when it can.
func TestFullHistory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := eventstest.NewMemory("f")
		l := m.Open("test")
		c := start(t, parts(l), nil)
		d := command("x")
		if _, err := c.ask(t, request.Declare, "s", &d); err != nil {
			t.Fatal(err)
		}
		var once sync.Once
		p := parts(m.Open("other"))
		p.Journal = &journal{l, func(e *events.Event) error {
			if e.Kind() == events.KindAssigned {
				once.Do(func() { m.SetFull(true) }) // between the worker's coming and the plan
			}
			return nil
		}}
		c.stop()
		c = start(t, p, nil)
		robot(t, l, "a", "a-1")
		synctest.Wait()
		if _, err := c.ask(t, request.Declare, "t", &d); !errors.Is(err, request.ErrHistoryFull) {
			t.Errorf("error is %v", err)
		}
		time.Sleep(10 * retryAfter) // fake time
		m.SetFull(false)
		time.Sleep(2 * retryAfter)
		synctest.Wait()
		if all := eventstest.Stored(t, l, 2); len(all) != 4 {
			t.Errorf("after the limit was raised:\n%s", eventstest.Lines(all))
		}
		if _, err := c.ask(t, request.Declare, "t", &d); err != nil {
			t.Error(err)
		}
	})
}

// orders lets a test look at commands before they are put.
type orders struct {
	*eventstest.MemoryLog
	before func(a events.Address, c *events.Command) error
}

func (o *orders) PutCommand(ctx context.Context, a events.Address, c *events.Command, seen events.Seq) (events.Seq, error) {
	if err := o.before(a, c); err != nil {
		return 0, err
	}
	return o.MemoryLog.PutCommand(ctx, a, c, seen)
}

// A controller that ended between assigned and its command: the next one heals
// it. So does the same one after an error, or after someone else's command.
func TestCommandIsMadeUpFor(t *testing.T) {
	down := errors.New("the bus is down")
	for name, fail := range map[string]func(t *testing.T, l *eventstest.MemoryLog, a events.Address, c *events.Command) error{
		"error": func(*testing.T, *eventstest.MemoryLog, events.Address, *events.Command) error { return down },
		"another command": func(t *testing.T, l *eventstest.MemoryLog, a events.Address, c *events.Command) error {
			old := *c
			old.Want, old.Definition, old.Generation = events.Stopped, nil, 0
			_, err := l.PutCommand(t.Context(), a, &old, 0)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := eventstest.NewMemory("f").Open("test")
				var once sync.Once
				p := parts(l)
				p.Orders = &orders{l, func(a events.Address, c *events.Command) (err error) {
					once.Do(func() { err = fail(t, l, a, c) })
					return err
				}}
				c := start(t, p, nil)
				d := command("x")
				if _, err := c.ask(t, request.Declare, "s", &d); err != nil {
					t.Fatal(err)
				}
				robot(t, l, "a", "a-1")
				eventstest.Expect(t, l, 0, eventstest.On(events.InstanceChain("s", "0"), events.KindAssigned, events.KindToolsListed)...)
			})
		})
	}
	t.Run("crash", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			l := eventstest.NewMemory("f").Open("test")
			p := parts(l)
			hung := make(chan struct{}, 1)
			p.Orders = &orders{l, func(events.Address, *events.Command) error {
				hung <- struct{}{}
				return down
			}}
			c := start(t, p, nil)
			d := command("x")
			if _, err := c.ask(t, request.Declare, "s", &d); err != nil {
				t.Fatal(err)
			}
			robot(t, l, "a", "a-1")
			<-hung
			c.stop()
			if err := <-c.ended; err != nil {
				t.Fatal(err)
			}
			start(t, parts(l), nil)
			found := eventstest.Expect(t, l, 0, eventstest.On(events.InstanceChain("s", "0"), events.KindAssigned, events.KindToolsListed)...)
			if found[1].Epoch != 1 {
				t.Errorf("it was assigned again, in epoch %d", found[1].Epoch)
			}
		})
	})
}

// Only who leads plans; anyone answers.
func TestLeads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := eventstest.NewMemory("f").Open("test")
		var leads atomic.Bool
		c := start(t, parts(l), &Options{Leads: leads.Load})
		robot(t, l, "a", "a-1")
		d := command("x")
		answer, err := c.ask(t, request.Declare, "s", &d)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute) // fake time
		if all := eventstest.Stored(t, l, answer.Seq); len(all) > 0 {
			t.Errorf("a follower planned:\n%s", eventstest.Lines(all))
		}
		leads.Store(true)
		time.Sleep(tickEvery)
		synctest.Wait()
		if all := eventstest.Stored(t, l, answer.Seq); len(all) != 4 {
			t.Errorf("after %s of leading:\n%s", tickEvery, eventstest.Lines(all))
		}
	})
}

// A controller that led long ago does not go by the commands of then.
func TestLeadingAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := eventstest.NewMemory("f")
		l := m.Open("test")
		var first, second atomic.Bool
		first.Store(true)
		one := start(t, parts(m.Open("one")), &Options{Leads: first.Load})
		start(t, parts(m.Open("two")), &Options{Leads: second.Load})
		robot(t, l, "a", "a-1")
		d := command("x")
		if _, err := one.ask(t, request.Declare, "s", &d); err != nil {
			t.Fatal(err)
		}
		instance := events.InstanceChain("s", "0")
		eventstest.Expect(t, l, 0, eventstest.On(instance, events.KindToolsListed)...)
		for i := range 4 {
			first.Store(i%2 == 1)
			second.Store(i%2 == 0)
			time.Sleep(2 * tickEvery)
			answer, err := one.ask(t, request.Restart, "s", nil)
			if err != nil {
				t.Fatal(err)
			}
			eventstest.Expect(t, l, answer.Seq, eventstest.On(instance, events.KindToolsListed)...)
		}
	})
}

// What a leader before did to commands is known to the one that leads again.
func TestLeadingAgainReadsCommands(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := eventstest.NewMemory("f").Open("test")
		var leads atomic.Bool
		leads.Store(true)
		c := start(t, parts(l), &Options{Leads: leads.Load})
		d := command("x")
		if _, err := c.ask(t, request.Declare, "s", &d); err != nil {
			t.Fatal(err)
		}
		if _, err := l.Append(t.Context(), events.Event{Chain: events.WorkerChain("a"), Body: events.Joined{Incarnation: "a-1"}}, events.Tip{}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		commands, err := l.LastCommands(t.Context())
		if err != nil || len(commands) != 1 {
			t.Fatalf("commands are %+v, %v", commands, err)
		}
		leads.Store(false)
		time.Sleep(2 * tickEvery) // fake time
		stop := *commands[0].Command
		stop.Want, stop.Definition, stop.Digest = events.Stopped, nil, ""
		if _, err := l.PutCommand(t.Context(), commands[0].Address, &stop, commands[0].Seq); err != nil {
			t.Fatal(err)
		}
		leads.Store(true)
		time.Sleep(2 * tickEvery)
		synctest.Wait()
		if commands, err = l.LastCommands(t.Context()); err != nil || commands[0].Command.Want != events.Running {
			t.Errorf("the command is %+v, %v", commands[0].Command, err)
		}
	})
}
