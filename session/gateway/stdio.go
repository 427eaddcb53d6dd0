package gateway

import (
	"bufio"
	"context"
	"io"
	"time"

	"github.com/cockroachdb/errors"
)

// lastAnswers is how long requests in flight have at the end of the input.
const lastAnswers = 2 * time.Second

// errSlow is why a stream ends whose client does not read.
var errSlow = errors.New("the client does not read what it is sent")

// ServeStdio serves one client, a message per line, until the input ends, which is
// no error, or ctx or [Gateway.Run] does. It closes the input, and the output as
// well where that can be closed; a read or write that goes on nevertheless is left
// behind.
func (g *Gateway) ServeStdio(ctx context.Context, in io.ReadCloser, out io.Writer) error {
	q := newQueue()
	s := &stdio{client: newClient(g, q), queue: q, answers: make(chan []byte)}
	if !g.enter(s.client) {
		return errEnded
	}
	defer s.requests.Wait() // what was in flight has been cancelled
	defer g.leave(s.client)
	defer func() { _ = in.Close() }() // it was only read
	if c, ok := out.(io.Closer); ok {
		defer func() { _ = c.Close() }() // an error of the last write was seen
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() { cancel(s.read(ctx, in)) }()
	go func() { cancel(s.write(ctx, out)) }()
	select {
	case <-ctx.Done():
	case <-s.done:
		return nil
	case <-q.over:
		return s.over()
	}
	if err := context.Cause(ctx); !errors.Is(err, io.EOF) && !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// stdio is a client on standard streams.
type stdio struct {
	*client
	queue   *queue
	answers chan []byte
}

// over says why the queue is: the client's end is no error.
func (s *stdio) over() error {
	select {
	case <-s.done:
		return nil
	default:
		return errSlow
	}
}

// read takes messages until the input ends, and then waits for what is in flight.
func (s *stdio) read(ctx context.Context, in io.Reader) error {
	lines := bufio.NewReaderSize(in, 64<<10)
	for {
		line, err := nextLine(lines, s.gateway.options.MaxMessage)
		switch {
		case errors.Is(err, errTooLong):
			s.send(ctx, failure(nil, err))
			continue
		case errors.Is(err, io.EOF):
			s.settle()
			close(s.answers) // nobody sends any more
			select {
			case <-ctx.Done():
			case <-time.After(lastAnswers):
			}
			return err
		case err != nil:
			return err
		case len(line) == 0:
			continue
		}
		s.handle(ctx, line)
	}
}

// settle waits for requests in flight, within the limit.
func (s *stdio) settle() {
	idle := make(chan struct{})
	go func() {
		s.requests.Wait()
		close(idle)
	}()
	select {
	case <-idle:
	case <-time.After(lastAnswers):
		s.close()
		<-idle
	}
}

func (s *stdio) handle(ctx context.Context, line []byte) {
	m, bad := decode(line)
	switch {
	case bad != nil:
		s.send(ctx, failure(m.ID, bad))
	case m.isRequest():
		requestCtx, end, err := s.begin(ctx, m.ID)
		if err != nil {
			s.send(ctx, failure(m.ID, err))
			return
		}
		a := &asker{gateway: s.gateway, message: m, notify: s.queue.push}
		if !m.isModern("") { // the revisions may alternate
			a.client = s.client
		}
		answer := func() {
			defer end()
			frame, _ := s.request(requestCtx, a)
			s.send(ctx, frame)
		}
		switch m.Method {
		case "initialize", "ping", "logging/setLevel": // what follows stands on it
			answer()
		default:
			go answer()
		}
	case m.Method != "":
		s.notified(m)
	}
}

// send has a message written, if there is one, and waits for its turn.
func (s *stdio) send(ctx context.Context, frame []byte) {
	if frame == nil {
		return
	}
	select {
	case s.answers <- frame:
	case <-ctx.Done():
	}
}

// write writes what is to be sent: notifications before an answer that came after
// them.
func (s *stdio) write(ctx context.Context, out io.Writer) error {
	for {
		var last [][]byte
		select {
		case <-s.queue.wake:
		case frame, more := <-s.answers:
			if !more {
				return io.EOF
			}
			last = [][]byte{frame}
		case <-ctx.Done():
			return ctx.Err()
		}
		for _, frame := range append(s.queue.take(), last...) {
			if _, err := out.Write(append(frame, '\n')); err != nil {
				return errors.Wrap(err, "write to the client")
			}
		}
	}
}

// errTooLong is the error of a line above the limit.
var errTooLong = errors.New("the message is too long")

// nextLine returns the next line without its end. Of one that is too long nothing
// is kept. A last line without an end counts.
func nextLine(r *bufio.Reader, limit int) ([]byte, error) {
	var line []byte
	long := false
	for {
		part, err := r.ReadSlice('\n')
		if long = long || len(line)+len(part) > limit+1; long {
			line = nil
		} else {
			line = append(line, part...)
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case err != nil && (!errors.Is(err, io.EOF) || len(line) == 0 && !long):
			return nil, errors.Wrap(err, "read from the client")
		case long:
			return nil, errTooLong
		}
		return trimEnd(line), nil
	}
}

func trimEnd(line []byte) []byte {
	for len(line) > 0 && (line[len(line)-1] == '\n' || line[len(line)-1] == '\r') {
		line = line[:len(line)-1]
	}
	return line
}
