package jetlog

import (
	"context"
	"time"

	"github.com/cockroachdb/errors"
	"github.com/google/uuid"
	"github.com/nats-io/nats.go"

	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/events/callwire"
)

const (
	// cancelGrace is how long a caller that cancelled waits for the last word,
	// which tells what became of the call.
	cancelGrace = time.Second
	// frameRoom is for the headers of a frame, within NATS's max_payload.
	frameRoom = 1 << 10
)

// Call sends a call to the owner of an instance, at its subject (see
// [events.CallSubject]), and returns the raw JSON of the result. Progress, if
// not nil, is called with each progress and log frame; it must not block. ID,
// Timeout and Trace of the request are set where they are empty: to a new id,
// and to what the context says.
//
// Every error is a [*callwire.Error], whose outcome says what is known of the
// execution. Nobody at the subject is [callwire.NotExecuted]; so is a call that
// could not be sent. An owner that falls silent, or a lost frame, is
// [callwire.Unknown]. When the context or the timeout ends, the call is
// cancelled, and the error is also marked with the context's.
func (l *Log) Call(ctx context.Context, subject string, r *callwire.Request, progress func(*callwire.Frame)) ([]byte, error) {
	q := *r
	if q.ID == "" {
		q.ID = uuid.NewString()
	}
	if deadline, ok := ctx.Deadline(); ok && q.Timeout == 0 {
		q.Timeout = max(time.Until(deadline), 1)
	}
	if q.Trace.Parent == "" {
		q.Trace = traceOf(ctx)
	}
	c := &caller{log: l, subject: subject, request: &q, progress: progress}
	data, err := c.call(ctx)
	return data, errors.Wrapf(err, "call %s at %s", q.Tool, subject)
}

// caller is one Call.
type caller struct {
	log      *Log
	subject  string
	request  *callwire.Request
	progress func(*callwire.Frame)
	joiner   callwire.Joiner
}

func (c *caller) call(ctx context.Context) ([]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, errors.Mark(notExecuted(events.OtherFailure, err.Error()), err)
	}
	inbox := c.log.nc.NewInbox()
	sub, err := c.log.nc.SubscribeSync(inbox)
	if err != nil {
		return nil, notExecuted(events.ConnectionLost, err.Error())
	}
	defer func() { _ = sub.Unsubscribe() }() // fails only when the connection is closed
	m := natsMessage(c.request.Encode(c.subject))
	m.Reply = inbox
	if err := c.log.nc.PublishMsg(m); err != nil {
		return nil, c.unsent(err)
	}
	waiting := ctx
	if c.request.Timeout > 0 {
		var cancel context.CancelFunc
		waiting, cancel = context.WithTimeout(ctx, c.request.Timeout)
		defer cancel()
	}
	// It is read from beyond the end of the context, until Call returns.
	reading, stop := context.WithCancel(context.WithoutCancel(ctx))
	messages := make(chan arrival)
	go receive(reading, sub, messages)
	defer func() {
		stop()
		for range messages { // until the receiver is gone
		}
	}()
	return c.wait(waiting, messages)
}

func (c *caller) unsent(err error) error {
	if errors.Is(err, nats.ErrMaxPayload) {
		return notExecuted(events.FrameTooLarge, "the arguments are larger than the bus takes in one message")
	}
	return notExecuted(events.ConnectionLost, err.Error())
}

// arrival is what came from a subscription.
type arrival struct {
	m   *nats.Msg
	err error
}

// receive hands on what a subscription receives, until the context ends.
func receive(ctx context.Context, sub *nats.Subscription, out chan<- arrival) {
	defer close(out)
	for {
		m, err := sub.NextMsgWithContext(ctx)
		select {
		case out <- arrival{m, err}:
		case <-ctx.Done():
			return
		}
		if err != nil {
			return
		}
	}
}

// wait takes frames until the last one.
func (c *caller) wait(ctx context.Context, messages <-chan arrival) ([]byte, error) {
	keepAlive := time.NewTicker(callwire.KeepAliveEvery)
	defer keepAlive.Stop()
	silence := time.NewTimer(callwire.SilenceLimit)
	defer silence.Stop()
	var grace <-chan time.Time // from the end of the context
	done := ctx.Done()
	for {
		select {
		case a := <-messages:
			data, last, err := c.take(a)
			if last {
				if err != nil && ctx.Err() != nil {
					err = errors.Mark(err, ctx.Err())
				}
				return data, err
			}
			silence.Reset(callwire.SilenceLimit)
		case <-keepAlive.C:
			c.control(callwire.KeepAlive)
		case <-done:
			done = nil
			c.control(callwire.Cancel)
			grace = time.After(cancelGrace)
		case <-grace:
			return nil, errors.Mark(unknown(events.OtherFailure, "the caller stopped waiting, and the owner has not said what became of it"), ctx.Err())
		case <-silence.C:
			return nil, unknown(events.ConnectionLost, "the owner of the instance fell silent")
		}
	}
}

// take handles one message; last says that the call is over.
func (c *caller) take(a arrival) (data []byte, last bool, err error) {
	switch {
	case errors.Is(a.err, nats.ErrNoResponders), a.err == nil && isNoResponders(a.m):
		return nil, true, notExecuted(events.ConnectionLost, "nobody takes calls there: the instance has another owner, or none")
	case a.err != nil:
		return nil, true, unknown(events.ConnectionLost, a.err.Error())
	}
	f, err := callwire.DecodeFrame(eventsMessage(a.m))
	if err == nil && f.Call != c.request.ID {
		return nil, false, nil // a stranger's
	}
	if err == nil {
		f, err = c.joiner.Add(f)
	}
	switch {
	case errors.Is(err, callwire.ErrResultTooLarge):
		c.control(callwire.Cancel)
		return nil, true, failed(callwire.Failed, events.FrameTooLarge, err.Error())
	case err != nil:
		c.control(callwire.Cancel)
		return nil, true, unknown(events.ConnectionLost, err.Error())
	case f == nil:
		return nil, false, nil
	}
	switch f.Kind {
	case callwire.Result:
		return f.Data, true, nil
	case callwire.Failure:
		e, err := callwire.DecodeError(f.Data)
		if err != nil {
			return nil, true, unknown(events.OtherFailure, err.Error())
		}
		return nil, true, errors.WithStack(e)
	case callwire.Progress, callwire.Log:
		if c.progress != nil {
			c.progress(f)
		}
	default:
		// Accepted and keep-alives say that the worker is there, as every frame does.
	}
	return nil, false, nil
}

// control sends a control. It may be lost like every message of a call.
func (c *caller) control(kind callwire.ControlKind) {
	m := callwire.Control{Kind: kind, Call: c.request.ID}
	if err := c.log.nc.PublishMsg(natsMessage(m.Encode(callwire.ControlSubject(c.subject)))); err != nil {
		c.log.o.Logger.Debug("control of a call was not sent", "kind", string(kind), "err", err)
	}
}

func isNoResponders(m *nats.Msg) bool {
	return len(m.Data) == 0 && m.Header.Get("Status") == "503"
}

func notExecuted(code events.Code, message string) error {
	return failed(callwire.NotExecuted, code, message)
}

func unknown(code events.Code, message string) error {
	return failed(callwire.Unknown, code, message)
}

func failed(outcome callwire.Outcome, code events.Code, message string) error {
	return errors.WithStackDepth(&callwire.Error{
		Outcome: outcome, Failure: events.NewFailure(code, events.PhaseRun, message),
	}, 1)
}

func natsMessage(m events.Message) *nats.Msg {
	return &nats.Msg{Subject: m.Subject, Header: m.Header, Data: m.Data}
}

func eventsMessage(m *nats.Msg) events.Message {
	return events.Message{Subject: m.Subject, Header: m.Header, Data: m.Data}
}
