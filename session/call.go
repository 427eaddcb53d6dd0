package session

import (
	"context"
	"time"

	"github.com/cockroachdb/errors"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/uuid"

	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/events/callwire"
)

// bus carries calls to the owners of instances. *jetlog.Guest is one.
type bus interface {
	Call(ctx context.Context, subject string, r *callwire.Request, progress func(*callwire.Frame)) ([]byte, error)
}

const (
	// firstPause, doubled up to longestPause, lies between two attempts at a
	// call that nobody took while the view names the same owner: the owner may
	// just have begun, or be gone without the view knowing yet.
	firstPause   = 50 * time.Millisecond
	longestPause = time.Second
	// maxFailures is how many failed connections a call waits through: the
	// pending one and one reconnect.
	maxFailures = 2
)

// CallOptions of [Session.Call].
type CallOptions struct {
	// Progress and Log are called with the parameters of each progress and log
	// notification that the server sends for the call, as it sent them: in order,
	// one at a time, and never after Call has returned. They must not block. A
	// call that is sent again begins again with its progress. Default none.
	Progress, Log func(params jsontext.Value)
}

// heard passes on what comes before the answer.
func (o *CallOptions) heard(f *callwire.Frame) {
	to := o.Progress
	if f.Kind == callwire.Log {
		to = o.Log
	}
	if to != nil {
		to(f.Data)
	}
}

// Call calls a tool and returns what the server answered, also where that is an
// error of the tool's own ([Result.IsError]).
//
// The arguments are a JSON object; none (nil) are an empty one. They travel as
// they are. The call goes to the current owner of the server's instance. While
// there is none that is ready, or it cannot be reached, Call waits for it: until
// ctx ends or, where ctx has no deadline, for the server's connect limit; and
// for no longer than a failed connection and one failed reconnect.
//
// A call is sent again only when it certainly was not executed or, once, when
// its outcome is unknown and the tool is declared read-only or idempotent, or
// the definition says replayCalls. Nothing is sent again after a time-out.
//
// The error is marked with one of this package's outcomes. Where the server was
// found it is a [*CallError]. A tool of a server that is stopped, disabled or
// parked is not offered but known: its call is [ErrNotExecuted] at once.
func (s *Session) Call(ctx context.Context, name string, arguments []byte, o *CallOptions) (*Result, error) {
	if len(arguments) == 0 {
		arguments = []byte("{}")
	}
	if !isObject(arguments) {
		return nil, errors.Mark(errors.Newf("call %s: the arguments are not a JSON object", name), ErrInvalidArguments)
	}
	now, _ := s.load()
	tool, ok := now.catalogue.find(name)
	if !ok {
		tool, ok = s.known(now, name)
	}
	if !ok {
		return nil, errors.Mark(errors.Newf("unknown tool %q as of event %d", name, now.asOf.Seq), ErrUnknownTool)
	}
	data, err := s.ask(ctx, &request{
		server: tool.Server, method: callwire.CallTool, target: tool.Tool, body: arguments, replayable: tool.Replayable,
	}, o)
	if err != nil {
		return nil, err
	}
	return readResult(data)
}

func isObject(data []byte) bool {
	v := jsontext.Value(data)
	return v.Kind() == '{' && v.IsValid()
}

// request is what is asked of a server.
type request struct {
	server events.ServerID
	// method is that of MCP, target what it is about, in the server's own words.
	method, target string
	body           jsontext.Value
	// replayable says that it changes nothing, or nothing more when repeated.
	replayable bool
}

// ask asks an instance of the server and returns its answer.
func (s *Session) ask(ctx context.Context, r *request, o *CallOptions) ([]byte, error) {
	ctx, cancel := s.within(ctx)
	defer cancel()
	c := &call{session: s, request: r}
	if o != nil {
		c.options = *o
	}
	c.until = c.waitLimit(ctx)
	return s.traced(ctx, r, c.run)
}

// errClosed is why the calls of a closed session are cancelled.
var errClosed = errors.New("the session is closed")

// within returns a context that also ends with the session.
func (s *Session) within(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(s.life, func() { cancel(errClosed) })
	return ctx, func() {
		stop()
		cancel(nil)
	}
}

// call is one request on its way to an answer.
type call struct {
	session *Session
	*request
	options CallOptions

	// base is how many failures the instance had when the call first saw it.
	base map[events.InstanceID]int
	// last is the owner that did not take the last attempt; refused is the same
	// until a pause has passed.
	last, refused owner
	pause         time.Duration
	// until is when to wait no longer for an owner, if not zero.
	until time.Time
	// replayed says that the call was sent again after an unknown outcome.
	replayed bool
}

// owner names who answers the calls of an instance.
type owner struct {
	instance events.InstanceID
	epoch    events.Epoch
}

func (c *call) run(ctx context.Context) ([]byte, error) {
	for {
		to, err := c.await(ctx)
		if err != nil {
			return nil, err
		}
		data, err := c.send(ctx, to)
		if err == nil {
			return data, nil
		}
		if !c.again(ctx, err) {
			return nil, c.explain(ctx, err)
		}
		c.refuse(to)
	}
}

func (c *call) send(ctx context.Context, to owner) ([]byte, error) {
	r := &callwire.Request{
		ID: uuid.NewString(), Method: c.method, Tool: c.target, Arguments: c.body, Actor: c.session.options.Actor,
	}
	if deadline, ok := ctx.Deadline(); ok {
		r.Timeout = time.Until(deadline)
	}
	subject := events.CallSubject(c.session.options.Fleet, c.server, to.instance, to.epoch)
	return c.sent(ctx, subject, r, to)
}

// again says whether the call may be sent once more after an error.
func (c *call) again(ctx context.Context, err error) bool {
	var e *callwire.Error
	if ctx.Err() != nil || !errors.As(err, &e) || e.RPCCode != 0 ||
		e.Failure.Code == events.CallTimeout || e.Failure.Code == events.FrameTooLarge {
		return false
	}
	switch e.Outcome {
	case callwire.NotExecuted:
		return e.Failure.Retry
	case callwire.Unknown:
		first := !c.replayed
		c.replayed = true
		return first && c.mayRepeat()
	default:
		return false
	}
}

func (c *call) mayRepeat() bool {
	now, _ := c.session.load()
	m := now.catalogue.member(c.server)
	return c.replayable || m != nil && m.server.Definition.ReplayCalls
}

func (c *call) newError(outcome, err error) *CallError {
	return &CallError{Outcome: outcome, Server: c.server, Method: c.method, Tool: c.target, Err: err}
}

// explain makes an error of the bus one of this package.
func (c *call) explain(ctx context.Context, err error) error {
	e := c.newError(ErrUnknownOutcome, context.Cause(ctx))
	var w *callwire.Error
	if !errors.As(err, &w) {
		e.Err = err
		if errors.Is(ctx.Err(), context.Canceled) {
			e.Outcome = ErrCancelled
		}
		return errors.WithStack(e)
	}
	e.Failure, e.RPCCode, e.RPCData = w.Failure, w.RPCCode, w.RPCData
	switch w.Outcome {
	case callwire.Unknown:
	case callwire.NotExecuted:
		e.Outcome = ErrNotExecuted
	case callwire.Failed:
		e.Outcome = ErrFailed
	case callwire.Cancelled:
		e.Outcome = ErrCancelled
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			// Nobody cancelled it: time did.
			e.Outcome = ErrUnknownOutcome
			e.Failure = events.NewFailure(events.CallTimeout, events.PhaseRun, "no answer in time")
		}
	}
	if errors.Is(ctx.Err(), context.Canceled) {
		e.Outcome = ErrCancelled // an aborted call stays one
	}
	return errors.WithStack(e)
}
