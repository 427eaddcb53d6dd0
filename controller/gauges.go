package controller

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/errors"
	"go.opentelemetry.io/otel/metric"

	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/otel"
	"github.com/toolfleet/toolfleet/projections"
)

// measureWithin bounds what is asked for when metrics are read.
const measureWithin = time.Second

// gauges are read when somebody reads metrics, and cost nothing else.
type gauges struct {
	leader, status, servers, tools, waiting, workers, commands metric.Int64ObservableGauge
	bytes, limit, length, lag                                  metric.Int64ObservableGauge
	uptime, lagTime                                            metric.Float64ObservableGauge
	all                                                        []metric.Observable
	failed                                                     error
}

func newGauges(m metric.Meter) *gauges {
	g := &gauges{}
	count := func(name, unit, description string) metric.Int64ObservableGauge {
		x, err := m.Int64ObservableGauge(name, metric.WithUnit(unit), metric.WithDescription(description))
		g.all, g.failed = append(g.all, x), errors.CombineErrors(g.failed, err)
		return x
	}
	seconds := func(name, description string) metric.Float64ObservableGauge {
		x, err := m.Float64ObservableGauge(name, metric.WithUnit("s"), metric.WithDescription(description))
		g.all, g.failed = append(g.all, x), errors.CombineErrors(g.failed, err)
		return x
	}
	g.leader = count("toolfleet.leader", "", "1 in the controller that leads, else 0.")
	g.status = count("toolfleet.server.status", "", "1 for the state that a server is in.")
	g.servers = count("toolfleet.servers", "{server}", "Servers in a state.")
	g.tools = count("toolfleet.tools", "{tool}", "Tools that a server offers.")
	g.waiting = count("toolfleet.instances.waiting", "{instance}", "Instances that are wanted and that no worker may take.")
	g.workers = count("toolfleet.workers", "{worker}", "Workers in a state.")
	g.commands = count("toolfleet.commands.pending", "{command}", "Commands whose effect is not in the history so far.")
	g.bytes = count("toolfleet.history.bytes", "By", "Bytes of the history.")
	g.limit = count("toolfleet.history.limit", "By", "Bytes that the history may have.")
	g.length = count("toolfleet.history.events", "{event}", "Events of the history.")
	g.lag = count("toolfleet.projection.lag", "{event}", "Events that a projection lacks.")
	g.uptime = seconds("toolfleet.connection.uptime", "How long a server has been ready.")
	g.lagTime = seconds("toolfleet.projection.lag.time", "How long a projection has lacked events.")
	return g
}

// observe has the gauges read until the context ends.
func (c *controller) observe(ctx context.Context) error {
	m := otel.Meter("controller")
	g := newGauges(m)
	if g.failed != nil {
		return errors.Wrap(g.failed, "make gauges") // unreachable unless a name is none
	}
	var behind time.Time // guarded by the reader, which reads one at a time
	reg, err := m.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		ctx, cancel := context.WithTimeout(ctx, measureWithin)
		defer cancel()
		at := c.read(ctx, g, o)
		head, err := c.Source.Head(ctx)
		if err != nil {
			return errors.Wrap(err, "measure the history")
		}
		o.ObserveInt64(g.bytes, int64(head.Bytes))
		if head.MaxBytes > 0 {
			o.ObserveInt64(g.limit, int64(head.MaxBytes))
		}
		o.ObserveInt64(g.length, int64(head.Seq))
		lag, since := int64(head.Seq)-int64(at), time.Duration(0)
		switch {
		case lag <= 0:
			lag, behind = 0, time.Time{}
		case behind.IsZero():
			behind = time.Now()
		default:
			since = time.Since(behind)
		}
		name := metric.WithAttributes(otel.Projection.String("controller"))
		o.ObserveInt64(g.lag, lag, name)
		o.ObserveFloat64(g.lagTime, since.Seconds(), name)
		return nil
	}, g.all...)
	if err != nil {
		return errors.Wrap(err, "register gauges") // unreachable: they are this meter's
	}
	<-ctx.Done()
	return errors.Wrap(reg.Unregister(), "withdraw gauges")
}

// read has the loop say what it knows, and returns how far its fold is.
func (c *controller) read(ctx context.Context, g *gauges, o metric.Observer) (at events.Seq) {
	var begun atomic.Bool // by the loop, or given up by the reader
	done := make(chan struct{})
	ask := func(c *controller) error {
		if !begun.CompareAndSwap(false, true) {
			return nil
		}
		defer close(done)
		at = c.view.History.Seq()
		leads := c.Leads()
		o.ObserveInt64(g.leader, one(leads))
		if leads && c.serving {
			c.report(g, o, time.Now())
		}
		return nil
	}
	select {
	case c.results <- ask:
	case <-ctx.Done():
		return at
	}
	select {
	case <-done:
	case <-ctx.Done():
		if !begun.CompareAndSwap(false, true) {
			<-done // it is at it
		}
	}
	return at
}

func one(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

// shownStates are told of even where no server is in them, so that a rule about
// one sees it end.
var shownStates = []projections.State{
	projections.Ready, projections.Degraded, projections.Assigned, projections.Connecting, projections.Listing,
	projections.BackingOff, projections.Parked, projections.AuthRequired, projections.Stopping, projections.Stopped,
	projections.Failed, projections.Deferred, projections.Disabled, projections.Rejected,
}

// report is what the controller that leads tells of the fleet.
func (c *controller) report(g *gauges, o metric.Observer, now time.Time) {
	states := make(map[projections.State]int64, len(shownStates))
	for _, s := range shownStates {
		states[s] = 0
	}
	for s := range c.view.History.Servers() {
		n := projections.NewStatus(s, c.view.History.InstancesOf(s.ID))
		if n.State == projections.Withdrawn {
			continue
		}
		states[n.State]++
		name := otel.ServerName.String(string(n.ID))
		o.ObserveInt64(g.status, 1, metric.WithAttributes(name, otel.State.String(string(n.State))))
		o.ObserveInt64(g.tools, int64(n.Tools), metric.WithAttributes(name))
		for _, i := range n.Instances {
			if !i.ReadySince.IsZero() {
				o.ObserveFloat64(g.uptime, now.Sub(i.ReadySince).Seconds(), metric.WithAttributes(name))
				break
			}
		}
	}
	for s, n := range states {
		o.ObserveInt64(g.servers, n, metric.WithAttributes(otel.State.String(string(s))))
	}
	waiting := make(map[events.ServerID]int64)
	for chain := range c.round.waiting {
		waiting[chain.Server()]++
	}
	for id, n := range waiting {
		o.ObserveInt64(g.waiting, n, metric.WithAttributes(otel.ServerName.String(string(id))))
	}
	c.reportWorkers(g, o)
	o.ObserveInt64(g.commands, c.pending())
}

func (c *controller) reportWorkers(g *gauges, o metric.Observer) {
	workers := map[string]int64{string(projections.WorkerJoined): 0, string(projections.WorkerLost): 0}
	for w := range c.view.History.Workers() {
		switch {
		case w.Present() && w.Draining:
			workers["draining"]++
		case w.Present() && w.Cordoned:
			workers["cordoned"]++
		default:
			workers[string(w.State)]++
		}
	}
	for s, n := range workers {
		if s != "" {
			o.ObserveInt64(g.workers, n, metric.WithAttributes(otel.State.String(s)))
		}
	}
}

// pending counts the commands that their owners have not followed so far, as far
// as the history tells.
func (c *controller) pending() (n int64) {
	for a, r := range c.round.commands {
		i := c.view.History.Instance(a.Server, a.Instance)
		switch {
		case i == nil || i.Epoch != r.Command.Epoch || i.Worker != a.Worker:
			n++
		case r.Command.Want == events.Stopped && i.State.Owned() && i.State != projections.Stopped,
			r.Command.Want == events.Running && i.State == projections.Assigned:
			n++
		}
	}
	return n
}
