package jetlog

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/cockroachdb/errors"
	"github.com/nats-io/nats.go"

	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/events/callwire"
)

// MaxCalls is how many calls of one subject run at the same time; more are
// answered as not executed, so that one caller cannot fill the worker's memory.
const MaxCalls = 64

// The causes of a call's end, see [context.Cause]; a timeout is
// [context.DeadlineExceeded].
var (
	// ErrCallCancelled says that the caller cancelled the call.
	ErrCallCancelled = errors.New("cancelled by the caller")
	// ErrCallerSilent says that nothing was heard of the caller for too long.
	ErrCallerSilent = errors.New("the caller fell silent")
)

// CallHandler executes one call and returns the raw JSON of its result, of at
// most [callwire.MaxResult] bytes. Its context ends when the caller cancels, its
// timeout passes or nothing is heard of it any more ([callwire.SilenceLimit]).
// Send sends a progress or log frame to the caller, in order; it blocks until
// that is written, and does nothing once the call is over. Handlers of several
// calls run at the same time.
//
// An error that is a [*callwire.Error] is sent as it is. Any other means that
// the outcome is unknown, or cancelled where the call was; its text is sent too
// and so must hold no secret.
type CallHandler = func(ctx context.Context, r *callwire.Request, send func(callwire.FrameKind, []byte)) ([]byte, error)

// ServeCalls answers calls at a subject until the context ends, and then returns
// nil, or until the connection is closed, which is an error. Then it takes no
// more calls, but returns only when those that run have ended: it does not
// cancel them. A connection that breaks and is made again ends nothing.
//
// Requests that cannot be decoded, have the id of one that runs, or come when
// [MaxCalls] are running or after the end are answered with
// [callwire.NotExecuted]; those that name no inbox are only logged.
func (l *Log) ServeCalls(ctx context.Context, subject string, h CallHandler) error {
	s := &callServer{log: l, handle: h, calls: make(map[string]*call), arriving: make(map[sender]*arrival)}
	closed := l.nc.StatusChanged(nats.CLOSED)
	defer l.nc.RemoveStatusListener(closed)
	controls, err := l.nc.Subscribe(callwire.ControlSubject(subject), s.control)
	if err != nil {
		return errors.Wrapf(err, "serve calls at %s", subject)
	}
	defer func() { _ = controls.Unsubscribe() }() // fails only when the connection is closed
	drained := make(chan struct{})
	requests, err := l.nc.Subscribe(subject, func(m *nats.Msg) { s.request(context.WithoutCancel(ctx), m) })
	if err != nil {
		return errors.Wrapf(err, "serve calls at %s", subject)
	}
	requests.SetClosedHandler(func(string) { close(drained) })
	select {
	case <-ctx.Done():
	case <-closed:
		err = nats.ErrConnectionClosed
	}
	s.stop()
	// Calls that are on their way get their answer: not executed.
	if requests.Drain() == nil {
		<-drained
	}
	s.turnAway()
	s.running.Wait()
	return errors.Wrapf(err, "serve calls at %s", subject)
}

// callServer is one ServeCalls.
type callServer struct {
	log     *Log
	handle  CallHandler
	running sync.WaitGroup

	mu       sync.Mutex // guards what follows
	calls    map[string]*call
	arriving map[sender]*arrival
	stopping bool
}

func (s *callServer) stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stopping = true
}

// request takes a message to the call subject.
func (s *callServer) request(ctx context.Context, m *nats.Msg) {
	if callwire.IsPart(eventsMessage(m)) {
		s.part(ctx, m)
		return
	}
	if !isReply(m.Reply) {
		s.unanswered(m, errors.Newf("its reply subject %q is none that may be written to", m.Reply))
		return
	}
	r, err := callwire.DecodeRequest(eventsMessage(m))
	switch {
	case err != nil:
		s.refuse(m, m.Header.Get("tf-call"), events.OtherFailure, err.Error())
	case r.More:
		s.expect(r, m)
	default:
		s.begin(ctx, r, m)
	}
}

// begin begins the call that a message, or the first part of it, has asked for.
func (s *callServer) begin(ctx context.Context, r *callwire.Request, m *nats.Msg) {
	c := &call{log: s.log, request: r, reply: m.Reply}
	ctx, c.cancel = context.WithCancelCause(ctx)
	if why := s.admit(c); why != "" {
		c.cancel(nil)
		s.refuse(m, r.ID, events.OtherFailure, why)
		return
	}
	go func() {
		defer s.running.Done()
		c.run(ctx, s.handle)
		s.dismiss(c)
		c.cancel(nil)
	}()
}

// isReply says whether frames may be sent to a subject. A caller could name a
// subject that it must not write to itself, such as a chain's, and have the
// owner do it.
func isReply(subject string) bool {
	return subject != "" && !strings.HasPrefix(subject, "$") && !strings.HasPrefix(subject, "tf.")
}

// admit notes a new call, or says why it is refused.
func (s *callServer) admit(c *call) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.stopping:
		return "the instance is stopping"
	case len(s.calls) >= MaxCalls:
		return fmt.Sprintf("%d calls are running: try again later", MaxCalls)
	case s.calls[c.request.ID] != nil:
		return "a call of that id is running"
	}
	s.calls[c.request.ID] = c
	s.running.Add(1)
	return ""
}

func (s *callServer) dismiss(c *call) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.calls, c.request.ID)
}

// refuse answers a request that does not become a call.
func (s *callServer) refuse(m *nats.Msg, id string, code events.Code, why string) {
	if id == "" {
		s.unanswered(m, errors.New(why))
		return
	}
	e := &callwire.Error{Outcome: callwire.NotExecuted, Failure: events.NewFailure(code, events.PhaseRun, why)}
	f := callwire.Frame{Kind: callwire.Failure, Call: id, Data: callwire.EncodeError(e)}
	if err := m.RespondMsg(natsMessage(f.Encode(m.Reply))); err != nil {
		s.unanswered(m, err)
	}
}

func (s *callServer) unanswered(m *nats.Msg, err error) {
	s.log.o.Logger.Warn("call was not answered", "err", errors.Wrapf(err, "call at %s", m.Subject))
}

// control hands a caller's control to its call.
func (s *callServer) control(m *nats.Msg) {
	x, err := callwire.DecodeControl(eventsMessage(m))
	if err != nil {
		s.log.o.Logger.Debug("control of no call", "err", errors.Wrapf(err, "control at %s", m.Subject))
		return
	}
	s.mu.Lock()
	c := s.calls[x.Call]
	s.mu.Unlock()
	switch {
	case c == nil: // over
	case x.Kind == callwire.Cancel:
		c.cancel(ErrCallCancelled)
	case x.Kind == callwire.KeepAlive:
		c.heard()
	}
}

// call is one call that runs.
type call struct {
	log     *Log
	request *callwire.Request
	reply   string
	cancel  context.CancelCauseFunc

	mu    sync.Mutex // guards what follows, and keeps the frames in order
	seq   int        // of the next frame
	over  bool       // nothing but the last frame may be sent
	pulse pulse
	timer *time.Timer // of the next beat
}

type frame struct {
	kind callwire.FrameKind
	data []byte
}

// run executes the call and sends every frame of it, in order.
func (c *call) run(ctx context.Context, h CallHandler) {
	if d := c.request.Timeout; d > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, d)
		defer cancel()
	}
	c.begin()
	data, err := h(ctx, c.request, c.send)
	f := c.answer(ctx, data, err)
	c.finish()
	c.writeLast(context.WithoutCancel(ctx), f)
}

func (c *call) begin() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pulse.begin(time.Now())
	c.timer = time.AfterFunc(callwire.AcceptWithin, c.beat)
}

func (c *call) finish() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.over = true
	c.timer.Stop()
}

// beat tells the caller that the call is being executed, and cancels it when
// nothing is heard of the caller.
func (c *call) beat() {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	switch {
	case c.over:
		return
	case c.pulse.silent(now):
		c.cancel(ErrCallerSilent)
		c.pulse.heard = now // once is enough, but the call may go on
	case c.seq == 0:
		_ = c.write(callwire.Accepted, nil) // a keep-alive says the same later
		c.pulse.spoke = now
	case c.pulse.due(now):
		_ = c.write(callwire.KeepAlive, nil)
		c.pulse.spoke = now
	}
	c.timer.Reset(c.pulse.next(now))
}

func (c *call) heard() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pulse.heard = time.Now()
}

func (c *call) send(kind callwire.FrameKind, data []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.over {
		_ = c.write(kind, data) // logged; the next one may come through
	}
}

// answer is the frame that ends the call.
func (c *call) answer(ctx context.Context, data []byte, err error) frame {
	if err == nil && len(data) > callwire.MaxResult {
		err = failed(callwire.Failed, events.FrameTooLarge,
			fmt.Sprintf("the result has %d bytes, at most %d are allowed", len(data), callwire.MaxResult))
	}
	if err == nil {
		return frame{callwire.Result, data}
	}
	e := (*callwire.Error)(nil)
	if !errors.As(err, &e) {
		e = &callwire.Error{Outcome: callwire.Unknown, Failure: events.NewFailure(events.OtherFailure, events.PhaseRun, shorten(err.Error()))}
		switch cause := context.Cause(ctx); {
		case errors.Is(cause, ErrCallCancelled), errors.Is(cause, ErrCallerSilent):
			e.Outcome, e.Failure.Message = callwire.Cancelled, cause.Error()
		case cause != nil:
			e.Failure.Message = fmt.Sprintf("no answer within %s", c.request.Timeout)
		}
	}
	return frame{callwire.Failure, callwire.EncodeError(e)}
}

// write sends a frame, in parts where it is too large for one message. A frame
// that could not be sent at all has no number, so that the next one is no gap.
func (c *call) write(kind callwire.FrameKind, data []byte) error {
	for _, f := range callwire.Split(kind, c.request.ID, c.seq, data, c.log.bodyLimit()) {
		if err := c.log.nc.PublishMsg(natsMessage(f.Encode(c.reply))); err != nil {
			c.log.o.Logger.Debug("frame of a call was not sent", "kind", string(kind), "err", err)
			return err
		}
		c.seq++
	}
	return nil
}

// writeLast sends the last frame. While the connection is down it tries again,
// for as long as the caller still waits.
func (c *call) writeLast(ctx context.Context, f frame) {
	ctx, cancel := context.WithTimeout(ctx, callwire.SilenceLimit)
	defer cancel()
	for seq := c.seq; ; {
		err := c.write(f.kind, f.data)
		if err == nil || c.seq != seq || errors.Is(err, nats.ErrConnectionClosed) || pause(ctx, reconnectWait) != nil {
			return
		}
	}
}
