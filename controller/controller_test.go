package controller

import (
	"context"
	"fmt"
	"iter"
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

// source is a log as a controller reads it.
type source struct {
	*eventstest.MemoryLog
	// gate, if not nil, is what each record has to pass.
	gate *gate
}

func (s source) Follow(ctx context.Context, after events.Seq) iter.Seq2[events.Record, error] {
	return func(yield func(events.Record, error) bool) {
		for r, err := range s.MemoryLog.Follow(ctx, after, nil) {
			if s.gate != nil {
				select {
				case <-*s.gate.open.Load():
				case <-ctx.Done():
				}
			}
			if !yield(r, err) {
				return
			}
		}
	}
}

// started is a controller that runs until the test ends.
type started struct {
	handle Handler
	ended  chan error
	stop   context.CancelFunc
}

// start runs a controller and waits until it answers.
func start(t *testing.T, p Parts, o *Options) *started {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	s := &started{ended: make(chan error, 1), stop: cancel}
	serving := make(chan struct{})
	p.APIs = append(p.APIs, func(ctx context.Context, h Handler) error {
		s.handle = h
		close(serving)
		<-ctx.Done()
		return nil
	})
	go func() { s.ended <- Run(ctx, p, o) }()
	t.Cleanup(cancel)
	select {
	case <-serving:
	case err := <-s.ended:
		t.Fatalf("the controller ended: %v", err)
	}
	return s
}

func parts(l *eventstest.MemoryLog) Parts {
	return Parts{Journal: l, Source: source{MemoryLog: l}, Orders: l}
}

var requests atomic.Int64

func (s *started) ask(t *testing.T, v request.Verb, server string, d *events.Definition) (request.Answer, error) {
	t.Helper()
	id := events.RequestID(fmt.Sprintf("request-%d", requests.Add(1)))
	return s.askAs(t, id, v, server, d)
}

func (s *started) askAs(t *testing.T, id events.RequestID, v request.Verb, server string, d *events.Definition) (request.Answer, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), answerWithin)
	defer cancel()
	return s.handle(ctx, &request.Request{Verb: v, Server: server, Definition: d, ID: id})
}

// robot is a worker that connects and stops what it is told to.
func robot(t *testing.T, l *eventstest.MemoryLog, id events.WorkerID, incarnation events.Incarnation) (leave func()) {
	t.Helper()
	appendAfter := func(ctx context.Context, e events.Event) {
		var tip events.Tip
		for r, err := range l.ReadChain(ctx, e.Chain, events.Tip{}) {
			if err == nil {
				tip = r.Tip()
			}
		}
		if _, err := l.Append(ctx, e, tip); err != nil && ctx.Err() == nil {
			t.Errorf("%s: %v", id, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	appendAfter(ctx, events.Event{Chain: events.WorkerChain(id), Body: events.Joined{Incarnation: incarnation}})
	var done sync.WaitGroup
	done.Go(func() {
		for c, err := range l.FollowCommands(ctx, id) {
			if err != nil || c.Command.Incarnation != incarnation {
				continue
			}
			say := func(b events.Body) {
				appendAfter(ctx, events.Event{Chain: events.InstanceChain(c.Server, c.Instance), Body: b, Epoch: c.Command.Epoch})
			}
			if c.Command.Want == events.Stopped {
				say(events.HasStopped{How: "closed"})
				continue
			}
			say(events.Connecting{Attempt: 1, Generation: c.Command.Generation, Definition: c.Command.Digest})
			say(events.Connected{})
			say(events.ToolsListed{})
		}
	})
	leave = func() {
		cancel()
		done.Wait()
	}
	t.Cleanup(leave)
	return leave
}

// A server is declared, run, restarted, stopped and withdrawn.
func TestRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := eventstest.NewMemory("f").Open("test")
		c := start(t, parts(l), nil)
		robot(t, l, "a", "a-1")
		d := command("x")
		instance := events.InstanceChain("s", "0")

		answer, err := c.ask(t, request.Declare, "s", &d)
		if err != nil {
			t.Fatal(err)
		}
		found := eventstest.Expect(t, l, 0, append(
			eventstest.On(events.ServerChain("s"), events.KindDeclared),
			eventstest.On(instance, events.KindAssigned, events.KindConnecting, events.KindToolsListed)...)...)
		if found[0].Seq != answer.Seq {
			t.Errorf("the answer is event %d, the declaration %d", answer.Seq, found[0].Seq)
		}
		assigned := found[1]
		if assigned.Actor != PlanActor || assigned.Cause != string(found[0].ID) || assigned.Correlation != found[0].Correlation || assigned.Epoch != 1 {
			t.Errorf("assigned is %+v", assigned.Event)
		}
		commands, err := l.LastCommands(t.Context())
		if err != nil || len(commands) != 1 || commands[0].Command.Cause != string(assigned.ID) {
			t.Errorf("commands are %+v, %v", commands, err)
		}

		for _, step := range []struct {
			verb request.Verb
			want []events.Kind
		}{
			{request.Restart, []events.Kind{events.KindConnecting}},
			{request.Stop, []events.Kind{events.KindStopped, events.KindReleased}},
			{request.Start, []events.Kind{events.KindAssigned, events.KindToolsListed}},
			{request.Disable, []events.Kind{events.KindStopped, events.KindReleased}},
			{request.Enable, []events.Kind{events.KindAssigned, events.KindToolsListed}},
			{request.Withdraw, []events.Kind{events.KindStopped, events.KindReleased}},
		} {
			answer, err := c.ask(t, step.verb, "s", nil)
			if err != nil {
				t.Fatalf("%s: %v", step.verb, err)
			}
			eventstest.Expect(t, l, answer.Seq, eventstest.On(instance, step.want...)...)
		}
		if _, err := c.ask(t, request.Start, "s", nil); !errors.Is(err, request.ErrUnknownServer) {
			t.Errorf("error of a withdrawn server is %v", err)
		}
		synctest.Wait()
		if commands, err := l.LastCommands(t.Context()); err != nil || len(commands) != 0 {
			t.Errorf("left over: %+v, %v", commands, err)
		}
		c.stop()
		if err := <-c.ended; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
}

// journal calls before the first append of each kind.
type journal struct {
	*eventstest.MemoryLog
	before func(e *events.Event) error
}

func (j *journal) Append(ctx context.Context, e events.Event, tip events.Tip) (events.Record, error) {
	if err := j.before(&e); err != nil {
		return events.Record{}, err
	}
	return j.MemoryLog.Append(ctx, e, tip)
}

// gate lets the records of a source through while it is open.
type gate struct{ open atomic.Pointer[chan struct{}] }

func newGate() *gate {
	g := &gate{}
	open := make(chan struct{})
	close(open)
	g.open.Store(&open)
	return g
}

func (g *gate) shut() (open func()) {
	c := make(chan struct{})
	g.open.Store(&c)
	return func() { close(c) }
}

// Nothing is answered or planned before the history was read.
func TestHistoryIsReadFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := eventstest.NewMemory("f").Open("test")
		if _, err := l.Append(t.Context(), events.Event{Chain: events.ServerChain("s"), Body: declaredAs(command("x"))}, events.Tip{}); err != nil {
			t.Fatal(err)
		}
		g := newGate()
		open := g.shut()
		serving := make(chan struct{})
		p := parts(l)
		p.Source = source{l, g}
		p.APIs = []API{func(ctx context.Context, _ Handler) error {
			close(serving)
			<-ctx.Done()
			return nil
		}}
		ended := make(chan error, 1)
		ctx, cancel := context.WithCancel(t.Context())
		go func() { ended <- Run(ctx, p, nil) }()
		time.Sleep(time.Minute) // fake time
		select {
		case <-serving:
			t.Error("served before the history was read")
		default:
		}
		open()
		<-serving
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// A history that is not the one read before ends the controller.
func TestFaults(t *testing.T) {
	for name, break_ := range map[string]func(m *eventstest.Memory){
		"regressed before it was read": func(m *eventstest.Memory) { m.Regress(1) },
		"regressed": func(m *eventstest.Memory) {
			synctest.Wait()
			m.Regress(1)
		},
		"recreated": func(m *eventstest.Memory) { m.Recreate() },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := eventstest.NewMemory("f")
				c := start(t, parts(m.Open("test")), nil)
				d := command("x")
				for _, s := range []string{"s", "t"} {
					if _, err := c.ask(t, request.Declare, s, &d); err != nil {
						t.Fatal(err)
					}
				}
				break_(m)
				if err := <-c.ended; !errors.Is(err, events.ErrHistoryRegressed) {
					t.Errorf("Run: %v", err)
				}
				if _, err := c.ask(t, request.Declare, "u", &d); !errors.Is(err, request.ErrUnavailable) {
					t.Errorf("error of a request afterwards is %v", err)
				}
			})
		})
	}
	t.Run("API", func(t *testing.T) {
		broken := errors.New("may not subscribe")
		p := parts(eventstest.NewMemory("f").Open("test"))
		p.APIs = []API{func(context.Context, Handler) error { return broken }}
		if err := Run(t.Context(), p, nil); !errors.Is(err, broken) {
			t.Errorf("Run: %v", err)
		}
	})
}
