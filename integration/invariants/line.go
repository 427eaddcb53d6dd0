package invariants

import (
	"io"
	"net"
	"strings"
	"sync"

	"github.com/go-json-experiment/json"

	"github.com/toolfleet/toolfleet/events"
)

// Line is the way of one process to its NATS server: dial through it with Wrap,
// or listen with Serve. TLS is not supported: it reads the protocol.
type Line struct {
	ledger *Ledger

	mu     sync.Mutex // guards what follows; never held over I/O
	waited map[string]waiting
	trap   *Trap
	shut   bool
}

// waiting is a publish whose answer has not come.
type waiting struct {
	id   events.EventID // of an event
	trap *Trap
}

// NewLine returns a line whose acknowledgements go to the ledger.
func NewLine(l *Ledger) *Line { return &Line{ledger: l, waited: make(map[string]waiting)} }

// Trap is a message that something happens at.
type Trap struct {
	// At says whether it is this message. It is asked about each one, in order.
	At func(p *Publish) bool
	// Stored lets the message through and springs when the server has
	// acknowledged it, before the process is told. Otherwise the server never
	// sees the message.
	Stored bool
	// Then is what happens, such as a kill. Nothing passes the line afterwards.
	Then func()

	sprung chan struct{}
}

// Set sets a trap, in the place of the one before. The channel is closed when
// it has sprung.
func (l *Line) Set(t Trap) <-chan struct{} {
	t.sprung = make(chan struct{})
	l.mu.Lock()
	defer l.mu.Unlock()
	l.trap, l.shut = &t, false
	return t.sprung
}

// Open lets a process through again, after a trap.
func (l *Line) Open() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.trap, l.shut = nil, false
}

// Wrap returns a connection to the server as the process sees it.
func (l *Line) Wrap(server net.Conn) net.Conn { return &watched{Conn: server, line: l} }

// Serve accepts connections and passes them on to a server, until the listener
// is closed.
func (l *Line) Serve(from net.Listener, server string) {
	for {
		client, err := from.Accept()
		if err != nil {
			return
		}
		go l.pass(client, server)
	}
}

func (l *Line) pass(client net.Conn, server string) {
	defer client.Close()
	c, err := net.Dial("tcp", server)
	if err != nil {
		return
	}
	w := l.Wrap(c)
	defer w.Close()
	go func() {
		_, _ = io.Copy(w, client) // either end closes
		w.Close()
	}()
	_, _ = io.Copy(client, w)
}

// sends looks at a frame of the process and says whether it passes.
func (l *Line) sends(f frame) bool {
	p, err := f.publish()
	l.mu.Lock()
	switch {
	case l.shut:
		l.mu.Unlock()
		return false
	case err != nil || p == nil:
		l.mu.Unlock()
		return true
	}
	t := l.trap
	if t != nil && !t.At(p) {
		t = nil
	}
	if t != nil {
		l.trap = nil
		l.shut = !t.Stored
	}
	if p.Reply != "" && (t != nil && t.Stored || strings.HasPrefix(p.Subject, "tf.evt.")) {
		l.waited[p.Reply] = waiting{id: events.EventID(p.Header.Get("ce-id")), trap: t}
	}
	l.mu.Unlock()
	if t != nil && !t.Stored {
		t.spring()
		return false
	}
	return true
}

// gets looks at a frame of the server and says whether it passes.
func (l *Line) gets(f frame) bool {
	subject, data, ok := f.delivery()
	l.mu.Lock()
	shut := l.shut
	w, waited := l.waited[subject]
	if ok && waited {
		delete(l.waited, subject)
	}
	l.shut = shut || ok && waited && w.trap != nil
	l.mu.Unlock()
	switch {
	case shut:
		return false
	case !ok || !waited:
		return true
	case w.trap != nil:
		w.trap.spring()
		return false
	}
	var ack struct {
		Seq   events.Seq `json:"seq"`
		Error any        `json:"error"`
	}
	if json.Unmarshal(data, &ack) == nil && ack.Error == nil && ack.Seq > 0 {
		l.ledger.note(ack.Seq, w.id)
	}
	return true
}

func (t *Trap) spring() {
	t.Then()
	close(t.sprung)
}

// watched is a connection to the server whose frames the line looks at.
type watched struct {
	net.Conn
	line *Line

	// Each is used by one goroutine: that which writes, and that which reads.
	out, in frames
	rest    []byte
}

// Write passes on whole frames.
func (w *watched) Write(p []byte) (int, error) {
	w.out.add(p)
	for f := w.out.next(); f != nil; f = w.out.next() {
		if !w.line.sends(f) {
			w.Conn.Close()
			return 0, io.ErrClosedPipe
		}
		if _, err := w.Conn.Write(f); err != nil {
			return 0, err
		}
	}
	return len(p), nil
}

// Read returns whole frames, perhaps in parts.
func (w *watched) Read(p []byte) (int, error) {
	buf := make([]byte, 32<<10)
	for len(w.rest) == 0 {
		n, err := w.Conn.Read(buf)
		w.in.add(buf[:n])
		for f := w.in.next(); f != nil; f = w.in.next() {
			if !w.line.gets(f) {
				w.Conn.Close()
				return 0, io.EOF
			}
			w.rest = append(w.rest, f...)
		}
		if err != nil && len(w.rest) == 0 {
			return 0, err
		}
	}
	n := copy(p, w.rest)
	w.rest = w.rest[n:]
	return n, nil
}
