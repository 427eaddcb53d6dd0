package worker

import (
	"context"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/errors"
	"github.com/go-json-experiment/json/jsontext"
	jsonv1 "github.com/go-json-experiment/json/v1"
	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"

	"github.com/toolfleet/toolfleet/events"
)

const (
	// writeLimit bounds a write without a deadline of its own.
	writeLimit = 30 * time.Second
	// drainLimit is for what an ended process left in its pipes, while another
	// process may hold their other end.
	drainLimit = 100 * time.Millisecond
	// exitNotice is how long after the end of its stdout a process may exit for
	// that to be the cause.
	exitNotice = 250 * time.Millisecond
	// brokenGrace is what a process has whose connection broke.
	brokenGrace = time.Second
	// maxStrays is how many lines in a row may be no messages.
	maxStrays = 1000
	// askQueue bounds requests of the server that wait for their answer to be
	// written; a server that floods us is not answered.
	askQueue = 64
)

// stdio is a connection over a child's standard streams. It is the transport
// below the MCP library, and owns the child.
type stdio struct {
	*lifeline

	proc   *process
	roots  []string
	notify func(method string, params jsontext.Value)

	out    chan *outgoing
	asks   chan *frame
	broken chan ending // from reader and writer to the supervisor

	next    atomic.Int64
	mu      sync.Mutex // guards pending
	pending map[int64]chan *frame

	stderr  *tail
	stray   *strays
	readers sync.WaitGroup
}

var _ transport.Interface = (*stdio)(nil)

// outgoing is a line on its way to the writer.
type outgoing struct {
	line     []byte
	deadline time.Time
	exchange *exchange
	err      error
	done     chan struct{}
}

// newStdio takes over a process. Notify is called for each notification, in
// order, and must not block. A child that cannot be killed is given up when life
// ends.
func newStdio(life context.Context, p *process, stderr *tail, roots []string, notify func(string, jsontext.Value)) *stdio {
	t := &stdio{
		lifeline: newLifeline(), proc: p, roots: roots, notify: notify,
		out: make(chan *outgoing), asks: make(chan *frame, askQueue), broken: make(chan ending, 2),
		pending: make(map[int64]chan *frame), stderr: stderr, stray: &strays{},
	}
	t.readers.Go(t.read)
	t.readers.Go(func() { t.stderr.copy(p.stderr) })
	go t.write()
	go t.answer(context.WithoutCancel(life))
	go t.supervise(life.Done())
	return t
}

// supervise waits for the connection to be over, whoever ends it, and sees to
// it that nothing is left.
func (t *stdio) supervise(abandon <-chan struct{}) {
	end := newEnding(events.ConnectionLost, "closed")
	select {
	case <-t.proc.Exited():
		end = t.exit()
	case end = <-t.broken:
		// A process that exits closes its streams first.
		if await(t.proc.Exited(), t.shut, exitNotice) && end.code == events.ConnectionLost {
			end = t.exit()
		}
	case <-t.shut:
	}
	end.stderr = t.stderr.String()
	t.finish(end)
	how, gone := t.proc.stop(t.hard, t.period(brokenGrace))
	if !gone {
		close(t.hung)
		select {
		case <-t.proc.Ended():
		case <-abandon:
		}
	}
	t.proc.closePipes()
	t.readers.Wait()
	t.left(how)
}

// exit takes what the process left in its pipes and says how it ended.
func (t *stdio) exit() ending {
	soon := time.Now().Add(drainLimit)
	_ = t.proc.stdout.SetReadDeadline(soon)
	_ = t.proc.stderr.SetReadDeadline(soon)
	t.readers.Wait()
	return t.proc.ending()
}

// breaks reports why the connection cannot go on.
func (t *stdio) breaks(code events.Code, message string) {
	select {
	case t.broken <- newEnding(code, message):
	default: // there are reasons enough
	}
}

func (t *stdio) read() {
	for r := newLines(t.proc.stdout, maxFrame); ; {
		line, err := r.next()
		switch {
		case errors.Is(err, errFrameTooLarge):
			t.breaks(events.FrameTooLarge, "a message of the server has more than "+strconv.Itoa(maxFrame)+" bytes")
			return
		case errors.Is(err, os.ErrDeadlineExceeded):
			return // drained
		case err != nil:
			t.breaks(events.ConnectionLost, "the process closed its stdout")
			return
		case len(line) == 0:
			continue
		}
		f, ok := decodeFrame(line)
		if !ok {
			if t.stray.add(line) >= maxStrays {
				t.breaks(events.StdoutNotJSONRPC, t.stray.String())
				return
			}
			continue
		}
		t.stray.reset()
		t.beat()
		t.take(f)
	}
}

// take hands a message on without waiting for anybody.
func (t *stdio) take(f *frame) {
	switch {
	case f.Method != "" && f.ID == nil:
		t.notify(f.Method, f.Params)
	case f.Method != "":
		select {
		case t.asks <- f:
		default:
		}
	default:
		if n, ok := f.number(); ok {
			if answer := t.forget(n); answer != nil {
				answer <- f
			}
		}
	}
}

// forget removes a pending request and returns where its answer goes, or nil.
func (t *stdio) forget(n int64) chan *frame {
	t.mu.Lock()
	defer t.mu.Unlock()
	answer := t.pending[n]
	delete(t.pending, n)
	return answer
}

func (t *stdio) answer(ctx context.Context) {
	for {
		select {
		case f := <-t.asks:
			line, err := answer(f.ID, f.Method, t.roots).encode()
			if err != nil {
				continue // unreachable unless the id, which was decoded, is no JSON
			}
			_ = t.send(ctx, line, &exchange{}) // if the connection is over, so is the question
		case <-t.over:
			return
		}
	}
}

// write is the only writer, so that nobody holds a lock while the child does
// not read.
func (t *stdio) write() {
	for {
		select {
		case o := <-t.out:
			o.err = t.writeLine(o)
			close(o.done)
		case <-t.over:
			return
		}
	}
}

func (t *stdio) writeLine(o *outgoing) error {
	if err := o.exchange.allowed(); err != nil {
		return err
	}
	o.exchange.written.Store(true)
	_ = t.proc.stdin.SetWriteDeadline(o.deadline)
	n, err := t.proc.stdin.Write(o.line)
	switch {
	case err == nil:
		return nil
	case n == 0 && errors.Is(err, os.ErrDeadlineExceeded):
		// The pipe is full of what came before: nothing is torn.
		o.exchange.written.Store(false)
		return errors.Mark(errors.New("the process does not read its stdin"), errNotWritten)
	case errors.Is(err, os.ErrDeadlineExceeded):
		t.breaks(events.ConnectionLost, "the process stopped reading in the middle of a message")
		return errors.Wrap(err, "write to the process")
	}
	// Nobody reads any more. Mostly that is because the process exits, which says
	// more than a broken pipe: the supervisor knows soon, one way or the other.
	t.breaks(events.ConnectionLost, "the process closed its stdin")
	<-t.over
	err = errors.WithStack(t.End())
	if n == 0 {
		o.exchange.written.Store(false)
		err = errors.Mark(err, errNotWritten)
	}
	return err
}

// send writes a line. When the context ends first, the line may still be
// written.
func (t *stdio) send(ctx context.Context, line []byte, x *exchange) error {
	deadline, ok := ctx.Deadline()
	if !ok {
		deadline = time.Now().Add(writeLimit)
	}
	o := &outgoing{line: line, deadline: deadline, exchange: x, done: make(chan struct{})}
	select {
	case t.out <- o:
	case <-ctx.Done():
		return errors.Mark(ctx.Err(), errNotWritten)
	case <-t.over:
		return errors.Mark(errors.WithStack(t.End()), errNotWritten)
	}
	select {
	case <-o.done:
		return o.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Start does nothing: the process runs.
func (t *stdio) Start(context.Context) error { return nil }

// SendRequest sends a request of the MCP library's.
func (t *stdio) SendRequest(ctx context.Context, r transport.JSONRPCRequest) (*transport.JSONRPCResponse, error) {
	x := exchangeOf(ctx)
	params, err := encodeParams(x, r.Params)
	if err != nil {
		return nil, errors.Mark(errors.Wrapf(err, "encode %s", r.Method), errNotWritten)
	}
	f, err := t.exchange(ctx, r.Method, params, x)
	if err != nil {
		return nil, err
	}
	return respond(x, r, f), nil
}

// exchange sends a request under a number of its own, since several clients may
// count on one process, and returns the answer.
func (t *stdio) exchange(ctx context.Context, method string, params jsontext.Value, x *exchange) (*frame, error) {
	n := t.next.Add(1)
	answer := make(chan *frame, 1)
	t.mu.Lock()
	t.pending[n] = answer
	t.mu.Unlock()
	defer t.forget(n)
	if err := t.send(ctx, requestLine(n, method, params), x); err != nil {
		if ctx.Err() != nil && x.written.Load() {
			t.cancel(ctx, n, method)
		}
		return nil, err
	}
	select {
	case f := <-answer:
		return f, nil
	case <-t.over:
		select { // it may have come before the end
		case f := <-answer:
			return f, nil
		default:
			return nil, errors.WithStack(t.End())
		}
	case <-ctx.Done():
		t.cancel(ctx, n, method)
		return nil, ctx.Err()
	}
}

// respond records an answer, and gives it to the MCP library.
func respond(x *exchange, r transport.JSONRPCRequest, f *frame) *transport.JSONRPCResponse {
	resp := &transport.JSONRPCResponse{JSONRPC: mcp.JSONRPC_VERSION, ID: r.ID}
	if f.Error != nil {
		e := f.failure()
		x.answered(nil, e)
		resp.Error = &mcp.JSONRPCErrorDetails{Code: e.Code, Message: e.Message}
		if e.Data != nil {
			resp.Error.Data = e.Data
		}
		return resp
	}
	x.answered(f.Result, nil)
	resp.Result = []byte(digestible(r.Method, f.Result))
	return resp
}

// cancel tells the server, without waiting, that an answer is no longer needed.
// A handshake may not be cancelled.
func (t *stdio) cancel(ctx context.Context, n int64, method string) {
	if method == string(mcp.MethodInitialize) || method == string(mcp.MethodServerDiscover) {
		return
	}
	line, err := encodeMessage(&frame{Method: methodCancelled}, map[string]any{"requestId": n, "reason": ctx.Err().Error()})
	if err != nil {
		return // unreachable: a number and a text are JSON
	}
	ctx = context.WithoutCancel(ctx)
	go func() { _ = t.send(ctx, line, &exchange{}) }() // bounded by writeLimit, and a courtesy
}

// methodCancelled is what the MCP library sends as well, with a number that is
// not the one on the wire.
const methodCancelled = "notifications/cancelled"

// SendNotification sends a notification.
func (t *stdio) SendNotification(ctx context.Context, n mcp.JSONRPCNotification) error {
	if n.Method == methodCancelled {
		return nil
	}
	line, err := encodeMessage(&frame{Method: n.Method}, n.Params)
	if err != nil {
		return errors.Wrapf(err, "encode %s", n.Method)
	}
	return t.send(ctx, line, &exchange{})
}

// encodeParams encodes the MCP library's parameters, or the exchange's own.
func encodeParams(x *exchange, library any) (jsontext.Value, error) {
	switch {
	case x.params != nil:
		return x.parameters(library)
	case library == nil:
		return nil, nil
	default:
		return jsonv1.Marshal(library)
	}
}

// requestLine is a request as one line. Parameters have no line break.
func requestLine(n int64, method string, params jsontext.Value) []byte {
	line := make([]byte, 0, len(method)+len(params)+80)
	line = strconv.AppendInt(append(line, `{"jsonrpc":"2.0","id":`...), n, 10)
	line, _ = jsontext.AppendQuote(append(line, `,"method":`...), method) // methods are plain
	if params != nil {
		line = append(append(line, `,"params":`...), params...)
	}
	return append(line, "}\n"...)
}

// encodeMessage encodes the MCP library's parameters as that library means them:
// its types are written for encoding/json.
func encodeMessage(f *frame, params any) (line []byte, err error) {
	if params != nil {
		if f.Params, err = jsonv1.Marshal(params); err != nil {
			return nil, err
		}
	}
	return f.encode()
}

// SetNotificationHandler does nothing: notifications go to notify, as they are.
func (t *stdio) SetNotificationHandler(func(mcp.JSONRPCNotification)) {}

// Close begins to close in peace.
func (t *stdio) Close() error {
	t.Shut(events.DefaultGracePeriod)
	return nil
}

// GetSessionId returns "": a process is its own session.
//
//nolint:staticcheck // The MCP library's interface spells it so.
func (t *stdio) GetSessionId() string { return "" }
