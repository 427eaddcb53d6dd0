package web_test

import (
	"context"
	"iter"
	"net"
	"net/http"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/errors"
	"github.com/go-json-experiment/json"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/toolfleet/toolfleet/controller"
	"github.com/toolfleet/toolfleet/controller/client"
	"github.com/toolfleet/toolfleet/controller/web"
	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/events/eventstest"
	"github.com/toolfleet/toolfleet/events/jetlog"
	"github.com/toolfleet/toolfleet/guard"
	"github.com/toolfleet/toolfleet/projections"
	"github.com/toolfleet/toolfleet/projections/kvview"
	"github.com/toolfleet/toolfleet/projections/shape"
)

// The tokens of these tests.
const (
	all     = "token-of-all"
	reader  = "token-of-reader"
	changer = "token-of-changer"
)

var known = []guard.Known{
	guard.NewKnown(guard.Principal{Name: "all", Scopes: guard.Scopes()}, all),
	guard.NewKnown(guard.Principal{Name: "reader", Scopes: []guard.Scope{guard.Read}}, reader),
	guard.NewKnown(guard.Principal{Name: "changer", Scopes: []guard.Scope{guard.Change}}, changer),
}

// rig is a fleet with a controller, its views, and a handler over HTTP, in fake
// time.
type rig struct {
	t      *testing.T
	broker *eventstest.Server
	log    *jetlog.Log
	reader *kvview.Reader
	parts  web.Parts
	o      web.Options

	handler *web.Handler
	client  *http.Client
	// dial connects to the handler.
	dial func() net.Conn
	// control and project end the controller and the projector.
	control, project context.CancelFunc
}

// bubble runs a test with a fleet that has the server "s", and what else prepare
// says.
func bubble(t *testing.T, prepare func(r *rig), test func(t *testing.T, r *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := &rig{t: t, broker: eventstest.NewServer(t, nil)}
		r.o.Guard = guard.New(&guard.Options{Holder: func(token string) (guard.Principal, bool) { return guard.Holder(known, token) }})
		r.log = r.open("controller/c")
		r.project = r.run(func(ctx context.Context) error { return kvview.Project(ctx, r.log, nil) })
		r.startController()
		c := client.New(r.log.Conn(), events.DefaultFleet, nil)
		answer, err := c.Declare(t.Context(), "s", &events.Definition{Command: "server-s"}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if r.reader, err = kvview.Open(t.Context(), r.log.Conn(), events.DefaultFleet, nil); err != nil {
			t.Fatal(err)
		}
		r.run(r.reader.Run)
		r.await(answer.Seq)
		r.parts = web.Parts{
			Views: views{r.reader}, History: history{r.log}, Requests: c,
			Checks: []web.Check{{Name: "views", Ask: func(context.Context) error {
				if r.reader.AsOf().Behind(time.Now()) {
					return errors.New("they are old")
				}
				return nil
			}}},
		}
		if prepare != nil {
			prepare(r)
		}
		r.serve()
		test(t, r)
	})
}

func (r *rig) open(writer string) *jetlog.Log {
	r.t.Helper()
	l, err := jetlog.Open(r.t.Context(), r.broker.Connect(writer), events.DefaultFleet, &jetlog.Options{Writer: writer})
	if err != nil {
		r.t.Fatal(err)
	}
	return l
}

// run runs a part until the end of the test, or until it is stopped.
func (r *rig) run(part func(context.Context) error) (stop context.CancelFunc) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(r.t.Context()))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := part(ctx); err != nil {
			r.t.Error(err)
		}
	}()
	stop = func() {
		cancel()
		<-ended
	}
	r.t.Cleanup(stop)
	return stop
}

func (r *rig) startController() {
	r.control = r.run(func(ctx context.Context) error {
		return controller.Run(ctx, controller.Parts{
			Journal: r.log, Source: source{r.log}, Orders: r.log,
			APIs: []controller.API{controller.NATS(r.log.Conn(), events.DefaultFleet)},
		}, nil)
	})
}

type source struct{ *jetlog.Log }

func (s source) Follow(ctx context.Context, after events.Seq) iter.Seq2[events.Record, error] {
	return s.Log.Follow(ctx, after, nil)
}

// await waits until the views show an event.
func (r *rig) await(seq events.Seq) {
	r.t.Helper()
	if err := r.reader.Wait(r.t.Context(), seq); err != nil {
		r.t.Fatal(err)
	}
}

// write appends an event of the server "t", which no controller minds.
func (r *rig) write(tip events.Tip) events.Tip {
	r.t.Helper()
	return r.append(events.ServerChain("t"), tip, events.Rejected{ID: "t"})
}

// join has a worker join that is never seen again.
func (r *rig) join() events.Tip {
	r.t.Helper()
	return r.append(events.WorkerChain("w"), events.Tip{}, events.Joined{Host: "h"})
}

func (r *rig) append(c events.Chain, tip events.Tip, bodies ...events.Body) events.Tip {
	r.t.Helper()
	for _, body := range bodies {
		e := events.Event{Chain: c, Body: body}
		if c.Kind() == events.OfInstance {
			e.Epoch = 1
		}
		rec, err := r.log.Append(r.t.Context(), e, tip)
		if err != nil {
			r.t.Fatal(err)
		}
		tip = rec.Tip()
	}
	return tip
}

// park writes down that the server failed for good.
func (r *rig) park() events.Tip {
	r.t.Helper()
	failure := events.Failure{Code: events.StartupCrash, Message: "it ends at once"}
	return r.append(events.InstanceChain("s", "0"), events.Tip{},
		events.Assigned{Worker: "w", Incarnation: "i", Epoch: 1}, events.Connecting{Attempt: 1},
		events.Failed{Failure: failure, Attempt: 1}, events.Parked{Failure: failure})
}

// deleteHistory takes the history away, as no operator should.
func (r *rig) deleteHistory(ctx context.Context) {
	r.t.Helper()
	r.control()
	r.project()
	js, err := jetstream.New(r.log.Conn())
	if err == nil {
		err = js.DeleteStream(ctx, jetlog.StreamName(events.DefaultFleet, "events"))
	}
	if err != nil {
		r.t.Fatal(err)
	}
}

func tipText(t events.Tip) string { return strconv.FormatUint(uint64(t.Seq), 10) }

// views are the fleet's.
type views struct{ r *kvview.Reader }

func (v views) Seq() events.Seq { return v.r.AsOf().Seq }

func (v views) Servers() (all []shape.Server) {
	for _, e := range v.r.Servers() {
		if n, ok := v.r.Status(e.Value.ID); ok && n.State != projections.Withdrawn {
			all = append(all, shape.NewServer(&n))
		}
	}
	return all
}

func (v views) Workers() (all []shape.Worker) {
	for _, e := range v.r.Workers() {
		all = append(all, shape.NewWorker(&e.Value, nil))
	}
	return all
}

func (views) Tools() []shape.Tool {
	return []shape.Tool{
		{Name: "s__one", Server: "s", Tool: "one", State: projections.ToolsLive, InputSchema: []byte(`{"type":"object","n":1.0}`)},
		{Name: "t__two", Server: "t", Tool: "two", State: projections.ToolsStale},
	}
}

func (v views) Knows(id string) bool {
	return v.r.Server(events.ServerID(id)) != nil || v.r.Worker(events.WorkerID(id)) != nil
}

// history reads positions as a number, "now" or "tomorrow".
type history struct{ *jetlog.Log }

func (h history) Follow(ctx context.Context, after, until events.Seq) iter.Seq2[events.Record, error] {
	return h.Log.Follow(ctx, after, &jetlog.FollowOptions{Until: until})
}

func (h history) First(ctx context.Context, position string) (events.Seq, error) {
	var seq events.Seq
	switch err := json.Unmarshal([]byte(position), &seq); {
	case position == "now":
		head, err := h.Head(ctx)
		return head.Seq + 1, err
	case position == "tomorrow":
		return 0, web.ErrFuture
	case err != nil:
		return 0, web.ErrPosition
	default:
		return seq, nil
	}
}
