package eventstest

import (
	"bytes"
	"iter"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
)

// link is one connection through an [Outage].
type link struct {
	outage         *Outage
	client, server *end
	ready          atomic.Bool // whether the client is connected
}

// end is one side of a link, with what came from it and is to be sent on.
type end struct {
	net.Conn
	held queue
	gone chan struct{} // closed when nothing more comes from it
}

func newLink(o *Outage, client, server net.Conn) *link {
	side := func(c net.Conn) *end {
		return &end{Conn: c, held: queue{ready: make(chan struct{}, 1)}, gone: make(chan struct{})}
	}
	return &link{outage: o, client: side(client), server: side(server)}
}

// run starts the link. It ends when either side closes.
func (l *link) run() {
	var wg sync.WaitGroup
	wg.Go(func() { l.receive(l.client, l.outage.losesPublish) })
	wg.Go(func() { l.send(l.client, l.server) })
	wg.Go(func() { l.receive(l.server, l.outage.losesAnswer) })
	wg.Go(func() { l.send(l.server, l.client) })
	go func() {
		wg.Wait()
		l.outage.forget(l)
	}()
}

func (l *link) close() {
	l.client.Close()
	l.server.Close()
}

// receive takes what comes from one side until that side closes. It never makes
// that side wait: a client that waits holds a lock, which stops the clock of a
// bubble. After a frame that is lost, nothing is sent on.
func (l *link) receive(from *end, loses func(frame) bool) {
	var s scanner
	buf := make([]byte, 64<<10)
	lost := false
	end := sync.OnceFunc(func() {
		from.held.end()
		close(from.gone)
	})
	defer end()
	for {
		n, err := from.Read(buf)
		s.add(buf[:n])
		for f, ok := s.next(); ok && !lost; f, ok = s.next() {
			if lost = loses(f) || !from.held.add(f); lost {
				end()
			}
		}
		if err != nil {
			return
		}
	}
}

// send delivers what is held, while bytes may flow, and closes the link after
// the last of it.
func (l *link) send(from, to *end) {
	for f := range from.held.all() {
		select {
		case <-l.outage.flowing():
		case <-to.gone:
			return
		}
		if _, err := to.Write(f); err != nil {
			return // the other direction notices as well, and closes
		}
		if f.isPong() {
			l.ready.Store(true) // the server's answer to the last step of a client's connecting
		}
	}
	select {
	case <-l.outage.flowing(): // a frozen line does not tell of a close
	case <-to.gone:
	}
	l.close()
}

// maxHeld bounds what a link holds in one direction, in bytes. A line that is
// frozen for so long that it would hold more breaks.
const maxHeld = 64 << 20

// queue holds frames, in order.
type queue struct {
	ready chan struct{} // has an element when there may be something new

	mu     sync.Mutex // guards what follows
	frames []frame
	bytes  int
	ended  bool
}

// add returns false if the queue is full.
func (q *queue) add(f frame) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.bytes += len(f); q.bytes > maxHeld {
		return false
	}
	q.frames = append(q.frames, f)
	q.wake()
	return true
}

// end says that nothing more will be added.
func (q *queue) end() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.ended = true
	q.wake()
}

func (q *queue) wake() {
	select {
	case q.ready <- struct{}{}:
	default:
	}
}

func (q *queue) take() (frames []frame, ended bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	frames, q.frames, q.bytes = q.frames, nil, 0
	return frames, q.ended
}

// all returns the frames as they come, up to the end.
func (q *queue) all() iter.Seq[frame] {
	return func(yield func(frame) bool) {
		for {
			frames, ended := q.take()
			for _, f := range frames {
				if !yield(f) {
					return
				}
			}
			if ended {
				return
			}
			<-q.ready
		}
	}
}

// frame is one operation of the NATS protocol, whole.
type frame []byte

// scanner cuts a stream of the NATS protocol into frames.
type scanner struct{ buf []byte }

func (s *scanner) add(b []byte) { s.buf = append(s.buf, b...) }

// next returns the first whole frame, if there is one.
func (s *scanner) next() (frame, bool) {
	n := bytes.IndexByte(s.buf, '\n') + 1
	if n == 0 {
		return nil, false
	}
	op, args := frame(s.buf[:n]).fields()
	switch op {
	case "PUB", "HPUB", "MSG", "HMSG":
		size, err := strconv.Atoi(args[len(args)-1])
		if err != nil {
			break
		}
		if n += size + len("\r\n"); n > len(s.buf) {
			return nil, false
		}
	}
	f := frame(bytes.Clone(s.buf[:n]))
	s.buf = s.buf[n:]
	return f, true
}

// fields returns the words of the frame's first line.
func (f frame) fields() (op string, args []string) {
	line, _, _ := bytes.Cut(f, []byte("\n"))
	for i, w := range bytes.Fields(line) {
		if i == 0 {
			op = string(w)
		} else {
			args = append(args, string(w))
		}
	}
	if len(args) == 0 {
		args = []string{""}
	}
	return op, args
}

func (f frame) isPong() bool { return bytes.HasPrefix(f, []byte("PONG")) }

// publish returns the subject and reply subject of a client's publish.
func (f frame) publish() (subject, reply string, ok bool) {
	op, args := f.fields()
	switch {
	case op == "PUB" && len(args) == 3, op == "HPUB" && len(args) == 4:
		return args[0], args[1], true
	case op == "PUB", op == "HPUB":
		return args[0], "", true
	}
	return "", "", false
}

// delivery returns the subject of a message to a client.
func (f frame) delivery() (subject string, ok bool) {
	op, args := f.fields()
	return args[0], op == "MSG" || op == "HMSG"
}
