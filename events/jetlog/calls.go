package jetlog

import (
	"cmp"
	"context"
	"fmt"
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
// not nil, is called with each progress and log frame, in order, from the
// goroutine of Call; it must not block. ID, Timeout and Trace of the request are
// set where they are empty: to a new id, and to what the context says. Without a
// timeout or a deadline the call lasts for as long as its owner is heard of; see
// [callwire.SilenceLimit].
//
// A call is sent once and never again, whatever becomes of it.
//
// Every error is a [*callwire.Error], whose outcome says what is known of the
// execution. Nobody at the subject is [callwire.NotExecuted]; so is a call that
// could not be sent. An owner that falls silent, or a lost frame, is
// [callwire.Unknown]. When the context or the timeout ends, the call is
// cancelled, and the owner has 1 s to tell what became of it; the error is also
// marked with the context's. What the owner sends as an error is returned as it
// is.
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
	pulse    pulse
}

func (c *caller) call(ctx context.Context) ([]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, errors.Mark(notExecuted(events.OtherFailure, err.Error()), err)
	}
	if n := len(c.request.Arguments); n > callwire.MaxResult {
		return nil, notExecuted(events.FrameTooLarge, fmt.Sprintf("the arguments have %d bytes, at most %d are allowed", n, callwire.MaxResult))
	}
	frames, err := c.log.inbox.open(c.log.nc)
	if err != nil {
		return nil, notExecuted(events.ConnectionLost, err.Error())
	}
	defer c.log.inbox.close(frames)
	for _, part := range c.request.Messages(c.subject, c.log.bodyLimit()) {
		m := natsMessage(part)
		m.Reply = frames.subject
		if err := c.log.nc.PublishMsg(m); err != nil {
			return nil, c.unsent(err)
		}
	}
	if deadline, ok := ctx.Deadline(); c.request.Timeout > 0 && (!ok || time.Until(deadline) > c.request.Timeout) {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, c.request.Timeout)
		defer cancel()
	}
	return c.wait(ctx, frames)
}

// unsent is a call of which a part was not sent, if not all: nobody executes it.
func (c *caller) unsent(err error) error {
	if errors.Is(err, nats.ErrMaxPayload) {
		return notExecuted(events.FrameTooLarge, "what describes the call is larger than the bus takes in one message")
	}
	return notExecuted(events.ConnectionLost, err.Error())
}

// wait takes frames until the last one.
func (c *caller) wait(ctx context.Context, frames *mailbox) ([]byte, error) {
	c.pulse.begin(time.Now())
	beat := time.NewTimer(c.pulse.next(time.Now()))
	defer beat.Stop()
	var grace <-chan time.Time // from the end of the context
	done := ctx.Done()
	for {
		select {
		case <-frames.news:
			data, last, err := c.takeAll(frames)
			if last {
				if ended := endOf(ctx); err != nil && ended != nil {
					err = errors.Mark(err, ended)
				}
				return data, err
			}
		case now := <-beat.C:
			if c.pulse.silent(now) {
				return nil, unknown(events.ConnectionLost, "the owner of the instance fell silent")
			}
			if c.pulse.due(now) {
				c.control(callwire.KeepAlive)
				c.pulse.spoke = now
			}
			beat.Reset(c.pulse.next(now))
		case <-done:
			done = nil
			c.control(callwire.Cancel)
			grace = time.After(cancelGrace)
		case <-grace:
			return nil, errors.Mark(unknown(events.OtherFailure, "the caller stopped waiting, and the owner has not said what became of it"), ctx.Err())
		}
	}
}

// endOf returns the context's error, also where its deadline has just passed and
// it has not noticed: the owner, who has the same deadline, may be the first to.
func endOf(ctx context.Context) error {
	if deadline, ok := ctx.Deadline(); ok && !time.Now().Before(deadline) {
		return cmp.Or(ctx.Err(), context.DeadlineExceeded)
	}
	return ctx.Err()
}

// takeAll handles what has come; last says that the call is over.
func (c *caller) takeAll(frames *mailbox) (data []byte, last bool, err error) {
	messages, closed := frames.take()
	for _, m := range messages {
		if data, last, err = c.take(m); last {
			return data, true, err
		}
	}
	if closed {
		return nil, true, unknown(events.ConnectionLost, nats.ErrConnectionClosed.Error())
	}
	c.pulse.heard = time.Now()
	return nil, false, nil
}

// take handles one message; last says that the call is over.
func (c *caller) take(m *nats.Msg) (data []byte, last bool, err error) {
	if isNoResponders(m) {
		return nil, true, notExecuted(events.ConnectionLost, "nobody takes calls there: the instance has another owner, or none")
	}
	f, err := callwire.DecodeFrame(eventsMessage(m))
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

// bodyLimit is how much of a body goes into one message, in bytes.
func (l *Log) bodyLimit() int { return max(int(l.nc.MaxPayload())-frameRoom, 1) }

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
