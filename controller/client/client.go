// Package client asks the controllers of a fleet for what they decide, over
// NATS.
//
// A [Client] chooses an id for every request and repeats the request with that
// id until it is answered or the context ends. A request that was granted is
// therefore granted once, whatever was lost on the way; its answer has the
// sequence that views can be waited on.
//
// Before a definition is sent, its literal secrets are moved to the fleet's
// store of secrets and replaced by references ([MoveSecrets]): they never reach
// a controller, or the history.
package client

import (
	"context"
	"os"
	"os/user"
	"time"

	"github.com/cockroachdb/errors"
	"github.com/go-json-experiment/json"
	"github.com/google/uuid"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"github.com/toolfleet/toolfleet/controller/request"
	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/otel"
)

// Client asks the controllers of one fleet. It may be used by many goroutines.
type Client struct {
	nc    *nats.Conn
	fleet events.FleetID
	o     Options
}

// Options of [New].
type Options struct {
	// Secrets is where literal secrets of definitions are moved to. Default none:
	// a definition that holds some is refused.
	Secrets Secrets
	// Actor is who asks. Default the user of the operating system, with the host:
	// "ann@build-7".
	Actor string
	// AttemptTimeout is how long one attempt waits for its answer. Default 5 s.
	AttemptTimeout time.Duration
}

// firstPause, doubled up to longestPause, lies between two attempts: a controller
// that just starts is there soon.
const (
	firstPause   = 5 * time.Millisecond
	longestPause = 250 * time.Millisecond
)

// New returns a client of a fleet's controllers.
func New(nc *nats.Conn, fleet events.FleetID, o *Options) *Client {
	c := &Client{nc: nc, fleet: fleet}
	if o != nil {
		c.o = *o
	}
	if c.o.AttemptTimeout == 0 {
		c.o.AttemptTimeout = 5 * time.Second
	}
	if c.o.Actor == "" {
		c.o.Actor = actor()
	}
	return c
}

// actor returns the user and the host, as far as they can be found out.
func actor() string {
	name, host := "unknown", "unknown"
	if u, err := user.Current(); err == nil && u.Username != "" {
		name = u.Username
	}
	if h, err := os.Hostname(); err == nil && h != "" {
		host = h
	}
	return name + "@" + host
}

// RequestOptions of a request.
type RequestOptions struct {
	// ID of the request: give that of an earlier one to repeat it. Default a new
	// UUIDv7.
	ID events.RequestID
	// Reason is the actor's own words. Default none.
	Reason string
}

// ErrNoController marks the error of a request that no controller received: it
// had no effect.
var ErrNoController = errors.New("no controller answers")

// Declare asks for the fleet to have a server of that definition, in the place
// of the one it may have under the id. Literal secrets are moved to the store
// first; the definition itself is not changed.
//
// Its error is, besides those of every request (see [Client.Do]), one of
// [MoveSecrets].
func (c *Client) Declare(ctx context.Context, id events.ServerID, d *events.Definition, o *RequestOptions) (request.Answer, error) {
	_, err := events.ParseServerID(string(id))
	if err == nil {
		d, _, err = MoveSecrets(ctx, id, d, c.o.Secrets)
	} else {
		// It will be refused for its id, under which nothing can be stored.
		d, err = rewrite(d, func(string, string) (string, error) { return Removed, nil })
	}
	if err != nil {
		return request.Answer{}, err
	}
	return c.ask(ctx, &request.Request{Verb: request.Declare, Server: string(id), Definition: d}, o)
}

// Withdraw asks for the fleet to have the server no more.
func (c *Client) Withdraw(ctx context.Context, id events.ServerID, o *RequestOptions) (request.Answer, error) {
	return c.ask(ctx, &request.Request{Verb: request.Withdraw, Server: string(id)}, o)
}

// Enable allows the server to run.
func (c *Client) Enable(ctx context.Context, id events.ServerID, o *RequestOptions) (request.Answer, error) {
	return c.ask(ctx, &request.Request{Verb: request.Enable, Server: string(id)}, o)
}

// Disable forbids the server to run.
func (c *Client) Disable(ctx context.Context, id events.ServerID, o *RequestOptions) (request.Answer, error) {
	return c.ask(ctx, &request.Request{Verb: request.Disable, Server: string(id)}, o)
}

// Start asks for an enabled server to run.
func (c *Client) Start(ctx context.Context, id events.ServerID, o *RequestOptions) (request.Answer, error) {
	return c.ask(ctx, &request.Request{Verb: request.Start, Server: string(id)}, o)
}

// Stop asks for the server not to run.
func (c *Client) Stop(ctx context.Context, id events.ServerID, o *RequestOptions) (request.Answer, error) {
	return c.ask(ctx, &request.Request{Verb: request.Stop, Server: string(id)}, o)
}

// Restart asks every instance of a running server to reconnect once.
func (c *Client) Restart(ctx context.Context, id events.ServerID, o *RequestOptions) (request.Answer, error) {
	return c.ask(ctx, &request.Request{Verb: request.Restart, Server: string(id)}, o)
}

// Move asks for an instance of a running server to run on a certain worker.
func (c *Client) Move(ctx context.Context, id events.ServerID, to events.WorkerID, o *RequestOptions) (request.Answer, error) {
	return c.ask(ctx, &request.Request{Verb: request.Move, Server: string(id), Worker: string(to)}, o)
}

// Cordon asks for nothing new to be placed on a worker.
func (c *Client) Cordon(ctx context.Context, id events.WorkerID, o *RequestOptions) (request.Answer, error) {
	return c.ask(ctx, &request.Request{Verb: request.Cordon, Worker: string(id)}, o)
}

// Drain asks for that, and for what runs on the worker to move elsewhere.
func (c *Client) Drain(ctx context.Context, id events.WorkerID, o *RequestOptions) (request.Answer, error) {
	return c.ask(ctx, &request.Request{Verb: request.Drain, Worker: string(id)}, o)
}

// Uncordon ends what Cordon and Drain asked for.
func (c *Client) Uncordon(ctx context.Context, id events.WorkerID, o *RequestOptions) (request.Answer, error) {
	return c.ask(ctx, &request.Request{Verb: request.Uncordon, Worker: string(id)}, o)
}

// Freeze asks for nothing to be started, restarted, moved or updated.
func (c *Client) Freeze(ctx context.Context, o *RequestOptions) (request.Answer, error) {
	return c.ask(ctx, &request.Request{Verb: request.Freeze}, o)
}

// Unfreeze ends a freeze.
func (c *Client) Unfreeze(ctx context.Context, o *RequestOptions) (request.Answer, error) {
	return c.ask(ctx, &request.Request{Verb: request.Unfreeze}, o)
}

// ask fills in who asks, and as what.
func (c *Client) ask(ctx context.Context, q *request.Request, o *RequestOptions) (request.Answer, error) {
	q.Actor = c.o.Actor
	if o != nil {
		q.ID, q.Reason = o.ID, o.Reason
	}
	if q.ID == "" {
		q.ID = events.RequestID(uuid.Must(uuid.NewV7()).String())
	}
	return c.Do(ctx, q)
}

// Do makes a request as it is, with no secret moved, and repeats it until it is
// answered.
//
// Its error is a [*request.Error] where a controller answered; use errors.Is
// with the errors of package request. Otherwise it is marked [ErrNoController]
// where no controller received the request, or [events.ErrUncertain] where one
// may have granted it: the same request with the same id tells.
func (c *Client) Do(ctx context.Context, q *request.Request) (request.Answer, error) {
	if err := q.Check(); err != nil {
		return request.Answer{}, err
	}
	data, err := json.Marshal(q)
	if err != nil {
		return request.Answer{}, errors.Wrap(err, q.About())
	}
	var t tries
	for {
		m, err := c.attempt(ctx, request.Subject(c.fleet, q.Verb), data)
		var a request.Answer
		if err == nil {
			a, err = decode(m)
		}
		if !t.again(err) {
			return a, errors.Wrap(err, q.About())
		}
		if pause(ctx, t.wait()) != nil {
			return request.Answer{}, errors.Wrapf(t.end(ctx), "%s (request %s)", q.About(), q.ID)
		}
	}
}

// tries are the attempts at one request.
type tries struct {
	// received says that a controller may have received one.
	received bool
	last     error
	pause    time.Duration
}

// wait returns how long to wait for the next attempt.
func (t *tries) wait() time.Duration {
	t.pause = min(max(2*t.pause, firstPause), longestPause)
	return t.pause
}

// again says whether an attempt's error is one that another attempt may not
// have.
func (t *tries) again(err error) bool {
	switch {
	case errors.Is(err, nats.ErrNoResponders), errors.Is(err, nats.ErrReconnectBufExceeded):
	case errors.Is(err, request.ErrUnavailable), errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled),
		errors.Is(err, nats.ErrTimeout), errors.Is(err, nats.ErrDisconnected), errors.Is(err, nats.ErrConnectionReconnecting):
		t.received = true
	default:
		return false
	}
	t.last = err
	return true
}

// end is the error when the context has ended.
func (t *tries) end(ctx context.Context) error {
	err := errors.Wrapf(ctx.Err(), "last answer: %v", t.last)
	if t.received {
		return errors.Mark(err, events.ErrUncertain)
	}
	return errors.Mark(err, ErrNoController)
}

func (c *Client) attempt(ctx context.Context, subject string, data []byte) (*nats.Msg, error) {
	ctx, cancel := context.WithTimeout(ctx, c.o.AttemptTimeout)
	defer cancel()
	header := nats.Header{}
	otel.InjectHeader(ctx, otel.Header(header))
	m, err := c.nc.RequestMsgWithContext(ctx, &nats.Msg{Subject: subject, Data: data, Header: header})
	if errors.Is(err, nats.ErrMaxPayload) {
		err = request.Errorf(request.TooLarge, "%d bytes are more than the bus takes", len(data))
	}
	return m, err
}

// decode returns what an answer says.
func decode(m *nats.Msg) (request.Answer, error) {
	if code := m.Header.Get(micro.ErrorCodeHeader); code != "" {
		e := &request.Error{}
		if err := json.Unmarshal(m.Data, e); err != nil || e.Code == "" {
			e = request.Errorf(request.Code(code), "%s", m.Header.Get(micro.ErrorHeader))
		}
		return request.Answer{}, e
	}
	var a request.Answer
	if err := json.Unmarshal(m.Data, &a); err != nil {
		return request.Answer{}, errors.Wrap(err, "understand the answer")
	}
	return a, nil
}

func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return ctx.Err() // both may have happened
	}
}
