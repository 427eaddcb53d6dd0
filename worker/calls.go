package worker

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/cockroachdb/errors"
	"github.com/mark3labs/mcp-go/client/transport"
	"go.opentelemetry.io/otel/attribute"

	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/events/callwire"
)

// service answers the calls to one connection.
type service struct {
	quit context.CancelFunc
	done chan struct{}
}

// serve begins to answer calls.
func (a *attempt) serve(life context.Context, c *conn) *service {
	ctx, quit := context.WithCancel(life)
	s := &service{quit: quit, done: make(chan struct{})}
	o := &a.host.options
	subject := events.CallSubject(o.Fleet, a.address.Server, a.address.Instance, a.ref.Epoch)
	desk := &desk{
		conn: c, address: a.address, definition: a.command.Definition, host: a.host,
		slots: make(chan struct{}, o.Limits.Calls), who: a.who(),
	}
	go func() {
		defer close(s.done)
		a.host.serve(ctx, subject, desk.answer)
	}()
	return s
}

// drain takes no more calls and lets those in flight end: until the limit, or
// until the connection is over or is to be closed by force, or life ends.
func (s *service) drain(life context.Context, hard, over <-chan struct{}, limit time.Duration) {
	s.quit()
	t := time.NewTimer(limit)
	defer t.Stop()
	select {
	case <-s.done:
	case <-over:
	case <-hard:
	case <-t.C:
	case <-life.Done():
	}
}

// desk turns calls of the bus into calls of the server.
type desk struct {
	conn       *conn
	address    events.Address
	definition *events.Definition
	host       *host
	slots      chan struct{} // one for each call in flight
	who        []attribute.KeyValue
}

// answer is a [CallHandler].
func (d *desk) answer(ctx context.Context, r *callwire.Request, send func(callwire.FrameKind, []byte)) ([]byte, error) {
	ctx, cancel := withLimit(ctx, d.host.callLimit(d.definition))
	defer cancel()
	ctx, witness := d.witness(ctx, r)
	f := &flight{desk: d, request: r, began: time.Now(), cancel: cancel}
	x := &f.exchange
	x.check = func() error { return d.mayWrite(ctx) }
	d.host.board.add(f)
	defer d.host.board.remove(f)
	err := d.call(ctx, f, send)
	if err == nil {
		witness.end(ctx, x, nil)
		return x.result, nil
	}
	e := d.outcome(ctx, f, err)
	witness.end(ctx, x, e)
	return nil, e
}

// mayWrite is asked immediately before a request is written: under an ended
// lease, or too late, nothing is begun.
func (d *desk) mayWrite(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if d.host.parts.Lease.Remaining() <= 0 {
		return events.NewFailure(events.LeaseLost, events.PhaseRun, "the worker's lease is over")
	}
	return nil
}

// call makes one call and passes on what the server tells meanwhile.
func (d *desk) call(ctx context.Context, f *flight, send func(callwire.FrameKind, []byte)) error {
	r := f.request
	if err := d.accepts(r); err != nil {
		return err
	}
	select {
	case d.slots <- struct{}{}:
		defer func() { <-d.slots }()
	case <-ctx.Done():
		return errors.Mark(ctx.Err(), errNotWritten)
	}
	f.sent.Store(true)
	forget := d.conn.notices.follow(r.ID, send)
	defer forget() // none comes after the answer
	d.conn.calls.Add(1)
	defer d.conn.calls.Add(-1)
	return d.conn.forward(ctx, r, traceFields(ctx), &f.exchange)
}

// outcome says what became of a call that has no result.
func (d *desk) outcome(ctx context.Context, f *flight, err error) *callwire.Error {
	x := &f.exchange
	fail := func(o callwire.Outcome, code events.Code, message string) *callwire.Error {
		return &callwire.Error{Outcome: o, Failure: events.NewFailure(code, events.PhaseRun, d.conn.scrub.text(message, maxMessage))}
	}
	over := closed(d.conn.over)
	var refusal *callwire.Error
	switch {
	case errors.As(err, &refusal):
		return refusal
	case x.failure != nil:
		e := fail(callwire.Failed, events.RPCError, x.failure.Message)
		e.RPCCode, e.RPCData = x.failure.Code, d.conn.scrub.json(x.failure.Data)
		return e
	case errors.Is(err, context.Canceled) && ctx.Err() != nil:
		e := fail(callwire.Cancelled, events.CallCancelled, f.cancelledBy())
		if !x.written.Load() {
			e.Outcome = callwire.NotExecuted
		}
		return e
	case errors.Is(err, errNotWritten):
		return d.notExecuted(err, fail)
	case errors.Is(err, transport.ErrSessionTerminated):
		return fail(callwire.NotExecuted, events.ConnectionLost, "the server has forgotten the session")
	case ctx.Err() != nil:
		return fail(callwire.Unknown, events.CallTimeout, "no answer in time")
	case over:
		end := d.conn.End()
		return fail(callwire.Unknown, events.CallInterrupted, strings.TrimSpace(end.message+"\n"+lastLine(end.stderr)))
	default:
		return d.refused(x, withoutURL(err), fail)
	}
}

// notExecuted is the outcome of a call of which nothing was sent.
func (d *desk) notExecuted(err error, fail func(callwire.Outcome, events.Code, string) *callwire.Error) *callwire.Error {
	var f events.Failure
	var end ending
	switch {
	case errors.As(err, &f):
		return &callwire.Error{Outcome: callwire.NotExecuted, Failure: f}
	case errors.As(err, &end):
		return fail(callwire.NotExecuted, end.code, end.message)
	case errors.Is(err, context.DeadlineExceeded):
		return fail(callwire.NotExecuted, events.CallTimeout, "not sent to the server in time")
	default:
		return fail(callwire.NotExecuted, networkCode(err, events.ConnectionLost), err.Error())
	}
}

// refused is the outcome of a call that an HTTP server did not take, or of
// which only the answer is lost.
func (d *desk) refused(x *exchange, err error, fail func(callwire.Outcome, events.Code, string) *callwire.Error) *callwire.Error {
	switch {
	case x.status == http.StatusUnauthorized, x.status == http.StatusForbidden:
		return fail(callwire.Failed, events.AuthenticationNeeded, "HTTP "+http.StatusText(x.status))
	case x.status >= http.StatusMultipleChoices && x.status < http.StatusInternalServerError:
		return fail(callwire.Failed, events.HTTPStatus(x.status), err.Error())
	case x.asksForInput():
		return fail(callwire.Failed, events.RPCError, "the server asked for input that no session offers")
	case x.status >= http.StatusInternalServerError:
		return fail(callwire.Unknown, events.HTTPStatus(x.status), err.Error())
	default:
		return fail(callwire.Unknown, networkCode(err, events.CallInterrupted), err.Error())
	}
}

// lastLine returns the last line of a stderr, which often names the cause.
func lastLine(stderr string) string {
	stderr = strings.TrimSpace(stderr)
	return stderr[strings.LastIndexByte(stderr, '\n')+1:]
}
