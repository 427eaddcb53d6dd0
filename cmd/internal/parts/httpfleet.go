package parts

import (
	"context"
	"iter"
	"slices"
	"time"

	"github.com/cockroachdb/errors"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/toolfleet/toolfleet/cmd/internal/build"
	"github.com/toolfleet/toolfleet/cmd/internal/position"
	"github.com/toolfleet/toolfleet/cmd/internal/show"
	"github.com/toolfleet/toolfleet/cmd/internal/supervise"
	"github.com/toolfleet/toolfleet/controller/client"
	"github.com/toolfleet/toolfleet/controller/request"
	"github.com/toolfleet/toolfleet/controller/web"
	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/events/jetlog"
	"github.com/toolfleet/toolfleet/guard"
	"github.com/toolfleet/toolfleet/otel"
	"github.com/toolfleet/toolfleet/projections/kvview"
	"github.com/toolfleet/toolfleet/projections/shape"
	"github.com/toolfleet/toolfleet/session"
	"github.com/toolfleet/toolfleet/session/gateway"
)

// Fleet returns the part that serves all of a fleet: what there is, what
// happened, changes, and agents.
func (s *HTTP) Fleet(log *jetlog.Log, h *Host) supervise.Part {
	checks := []web.Check{{Name: "history", Ask: func(ctx context.Context) error {
		if _, err := log.Head(ctx); err != nil {
			return errors.New("it does not answer")
		}
		return nil
	}}}
	s.start(checks)
	return s.serve(func(ctx context.Context) error {
		a, err := openAgents(ctx, log.Conn(), &AgentOptions{Options: session.Options{Fleet: log.Fleet(), Host: events.WorkerID(h.ID)}}, s.guard)
		if err != nil {
			return err
		}
		defer a.close()
		var r *kvview.Reader
		err = insist(ctx, func() (err error) {
			r, err = kvview.Open(ctx, log.Conn(), log.Fleet(), &kvview.ReaderOptions{Logger: h.Logger})
			return err
		})
		if err != nil {
			return ended(ctx, err)
		}
		requests, err := s.requests(ctx, log)
		if err != nil {
			return ended(ctx, err)
		}
		s.show(web.Parts{
			Views: views{r, a.session}, History: past{log}, Requests: requests, MCP: a.gateway, Metrics: otel.MetricsHandler(),
			Checks: append(checks, fresh(r.AsOf)),
		})
		return r.Run(ctx)
	})
}

// AgentOptions say what agents are served.
type AgentOptions struct {
	session.Options
	// ListWait is that of [gateway.Options].StartupWait.
	ListWait time.Duration
}

// Agents returns the part that serves agents alone, for a host that reaches no
// more than NATS.
func (s *HTTP) Agents(nc *nats.Conn, o *AgentOptions) supervise.Part {
	checks := []web.Check{{Name: "nats", Ask: func(context.Context) error {
		if !nc.IsConnected() {
			return errors.New("it is not connected")
		}
		return nil
	}}}
	s.start(checks)
	return s.serve(func(ctx context.Context) error {
		a, err := openAgents(ctx, nc, o, s.guard)
		if err != nil {
			return err
		}
		defer a.close()
		s.show(web.Parts{
			MCP: a.gateway, Metrics: otel.MetricsHandler(),
			Checks: append(checks, fresh(func() kvview.AsOf { return a.session.Status().AsOf })),
		})
		<-ctx.Done()
		return nil
	})
}

// start serves what can be said while the process starts.
func (s *HTTP) start(checks []web.Check) {
	starting := web.Check{Name: "start", Ask: func(context.Context) error { return errors.New("the views of the fleet are not there yet") }}
	s.set(web.New(web.Parts{Checks: append(slices.Clip(checks), starting)}, &web.Options{Guard: s.guard, Starting: true}))
}

func (s *HTTP) show(p web.Parts) {
	s.set(web.New(p, &web.Options{Guard: s.guard, AllowDeclare: s.o.AllowDeclare}))
}

// fresh checks that the views are kept current.
func fresh(asOf func() kvview.AsOf) web.Check {
	return web.Check{Name: "views", Ask: func(context.Context) error {
		if now, a := time.Now(), asOf(); a.Behind(now) {
			return errors.Newf("no controller keeps them current: %s", a.Text(now))
		}
		return nil
	}}
}

// ended returns an error, but none where the end of the context explains it.
func ended(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// agents is what agents are served with.
type agents struct {
	session *session.Session
	gateway *gateway.Gateway
	ran     chan struct{}
	stop    context.CancelFunc
}

// viewsPause lies between two looks for the views of a fleet that is new.
const viewsPause = 100 * time.Millisecond

// insist repeats f while there are no views, or the bus gives no answer because
// it elects a leader: that passes, and ends no process.
func insist(ctx context.Context, f func() error) error {
	for {
		err := f()
		if err == nil || ctx.Err() != nil || !errors.IsAny(err, kvview.ErrNoViews, context.DeadlineExceeded,
			nats.ErrTimeout, nats.ErrNoResponders, nats.ErrDisconnected, nats.ErrConnectionReconnecting) {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(viewsPause):
		}
	}
}

// openAgents opens a session as soon as the fleet has views.
func openAgents(ctx context.Context, nc *nats.Conn, o *AgentOptions, g *guard.Guard) (*agents, error) {
	o.Wait = -1 // lists wait
	a := &agents{ran: make(chan struct{})}
	err := insist(ctx, func() (err error) {
		a.session, err = session.Open(ctx, nc, &o.Options)
		return err
	})
	if err != nil {
		return nil, err
	}
	a.gateway = gateway.New(a.session, &gateway.Options{Version: build.Version(), StartupWait: o.ListWait, Guard: g})
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	a.stop = stop
	go func() {
		defer close(a.ran)
		_ = a.gateway.Run(running) // it has no error
	}()
	return a, nil
}

func (a *agents) close() {
	a.stop()
	<-a.ran
	a.session.Close()
}

// views are the fleet's, as the command line shows them.
type views struct {
	r *kvview.Reader
	s *session.Session
}

func (v views) Seq() events.Seq { return v.r.AsOf().Seq }

func (v views) Servers() []shape.Server {
	var all []shape.Server
	for _, s := range show.ReadServers(v.r) {
		all = append(all, shape.NewServer(&s))
	}
	return all
}

func (v views) Workers() []shape.Worker { return show.ReadWorkers(v.r) }

func (v views) Tools() []shape.Tool {
	var all []shape.Tool
	tools, _ := v.s.Tools()
	for i := range tools {
		all = append(all, show.ToolShape(&tools[i]))
	}
	return all
}

func (v views) Knows(id string) bool {
	return v.r.Server(events.ServerID(id)) != nil || v.r.Worker(events.WorkerID(id)) != nil
}

// past is the fleet's history.
type past struct{ *jetlog.Log }

func (p past) Follow(ctx context.Context, after, until events.Seq) iter.Seq2[events.Record, error] {
	return p.Log.Follow(ctx, after, &jetlog.FollowOptions{Until: until})
}

func (p past) First(ctx context.Context, text string) (events.Seq, error) {
	now := time.Now()
	x, err := position.Parse(text, now)
	switch {
	case err != nil:
		return 0, errors.Mark(err, web.ErrPosition)
	case x.Time.IsZero():
		return x.Seq, nil
	case x.Time.After(now):
		return 0, errors.Mark(errors.Newf("%s is to come", text), web.ErrFuture)
	}
	head, err := p.Head(ctx)
	if err != nil {
		return 0, err
	}
	js, err := jetstream.New(p.Conn())
	if err != nil {
		return 0, errors.Wrap(err, "find the history")
	}
	stream, err := js.Stream(ctx, jetlog.StreamName(p.Fleet(), "events"))
	if err != nil {
		return 0, errors.Wrap(err, "find the history")
	}
	return position.First(head.Seq, x.Time, func(s events.Seq) (time.Time, error) {
		m, err := stream.GetMsg(ctx, uint64(s))
		if err != nil {
			return time.Time{}, errors.Wrapf(err, "find out when event %d was stored", s)
		}
		return m.Time, nil
	})
}

// requests returns who takes requests to the controllers. The store of secrets is
// needed for definitions alone.
func (s *HTTP) requests(ctx context.Context, log *jetlog.Log) (web.Requests, error) {
	c := client.New(log.Conn(), log.Fleet(), nil)
	if !s.o.AllowDeclare {
		return c, nil
	}
	secrets, err := log.Secrets(ctx)
	return declarer{c, secrets}, err
}

// declarer moves the literal secrets out of definitions.
type declarer struct {
	*client.Client
	secrets client.Secrets
}

func (d declarer) Do(ctx context.Context, q *request.Request) (request.Answer, error) {
	if q.Definition != nil {
		id, err := events.ParseServerID(q.Server)
		if err != nil {
			return request.Answer{}, request.Errorf(request.InvalidDefinition, "%v", err)
		}
		moved, _, err := client.MoveSecrets(ctx, id, q.Definition, d.secrets)
		if errors.IsAny(err, client.ErrMixedSecret, client.ErrMisplacedSecret) {
			return request.Answer{}, request.Errorf(request.InvalidDefinition, "%v", err)
		}
		if err != nil {
			return request.Answer{}, request.Errorf(request.Unavailable, "store the secrets of %q: %v", q.Server, err)
		}
		q.Definition = moved
	}
	return d.Client.Do(ctx, q)
}
