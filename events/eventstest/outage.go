package eventstest

import (
	"net"
	"slices"
	"strings"
	"sync"

	"github.com/cockroachdb/errors"
)

// Outage is a switch between NATS clients and a server. Connect through it with
// [nats.InProcessServer] or, over TCP, with [nats.SetCustomDialer]; it works in
// bubbles. TLS is not supported: the switch reads the protocol.
//
// The zero Outage does not work; see [NewOutage]. Its methods may be called at
// any time, and take effect before they return.
type Outage struct {
	dial func(network, address string) (net.Conn, error)

	mu     sync.Mutex // guards what follows; never held over I/O
	down   bool
	gate   chan struct{} // closed while bytes flow
	links  map[*link]struct{}
	losses []*loss
}

// loss is one publish, or the answer to one, that is going to be lost.
type loss struct {
	prefix  string
	answer  bool
	replies []string // of publishes that passed, whose answer is to be lost
	done    chan struct{}
}

// NewOutage returns a switch in front of what dial connects to; nil is
// [net.Dial].
func NewOutage(dial func(network, address string) (net.Conn, error)) *Outage {
	if dial == nil {
		dial = net.Dial
	}
	o := &Outage{dial: dial, gate: make(chan struct{}), links: make(map[*link]struct{})}
	close(o.gate)
	return o
}

// The errors of connecting through an [Outage].
var (
	ErrCut    = errors.New("the line is cut")
	ErrFrozen = errors.New("the line is frozen")
)

// InProcessConn makes an Outage a [nats.InProcessConnProvider].
func (o *Outage) InProcessConn() (net.Conn, error) { return o.Dial("", "") }

// Dial makes an Outage a [nats.CustomDialer].
func (o *Outage) Dial(network, address string) (net.Conn, error) {
	o.mu.Lock()
	err := o.closed()
	o.mu.Unlock()
	if err != nil {
		return nil, err
	}
	server, err := o.dial(network, address)
	if err != nil {
		return nil, err
	}
	near, client := net.Pipe()
	l := newLink(o, client, server)
	o.mu.Lock()
	defer o.mu.Unlock()
	if err := o.closed(); err != nil {
		l.close()
		return nil, err
	}
	o.links[l] = struct{}{}
	l.run()
	return near, nil
}

// closed returns why there can be no new connection. The lock is held.
func (o *Outage) closed() error {
	if o.down {
		return ErrCut
	}
	select {
	case <-o.gate:
		return nil
	default:
		return ErrFrozen
	}
}

// Cut closes every connection, and refuses new ones until [Outage.Restore].
// Both ends see it at once.
func (o *Outage) Cut() {
	o.mu.Lock()
	o.down = true
	o.mu.Unlock()
	o.Break()
}

// Break closes every connection. New ones are accepted.
func (o *Outage) Break() {
	o.mu.Lock()
	defer o.mu.Unlock()
	for l := range o.links {
		l.close()
	}
	clear(o.links)
}

// Freeze holds all bytes in both directions. Neither end sees anything but
// silence until [Outage.Restore], which lets what was held through.
//
// New connections fail at once, and so do those that are being made: a client
// holds a lock while it connects, and whoever waits for that stops the clock of
// a bubble.
func (o *Outage) Freeze() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed() != nil {
		return
	}
	o.gate = make(chan struct{})
	for l := range o.links {
		if !l.ready.Load() {
			l.close()
		}
	}
}

// Restore ends [Outage.Cut] and [Outage.Freeze].
func (o *Outage) Restore() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.down = false
	select {
	case <-o.gate:
	default:
		close(o.gate)
	}
}

// LoseAck loses the answer to the next publish on a subject that begins with
// prefix: it reaches the server, the server's answer is dropped, and its
// connection closes. New connections are accepted at once. The channel is
// closed when it has happened.
func (o *Outage) LoseAck(prefix string) <-chan struct{} { return o.lose(prefix, true) }

// LosePublish loses the next publish, with reply, on a subject that begins with
// prefix: it is dropped and its connection closes.
func (o *Outage) LosePublish(prefix string) <-chan struct{} { return o.lose(prefix, false) }

func (o *Outage) lose(prefix string, answer bool) <-chan struct{} {
	x := &loss{prefix: prefix, answer: answer, done: make(chan struct{})}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.losses = append(o.losses, x)
	return x.done
}

// losesPublish says whether a client's frame is to be lost, and remembers those
// whose answer is.
func (o *Outage) losesPublish(f frame) bool {
	subject, reply, ok := f.publish()
	if !ok || reply == "" {
		return false
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	i := slices.IndexFunc(o.losses, func(x *loss) bool { return strings.HasPrefix(subject, x.prefix) })
	if i < 0 {
		return false
	}
	if x := o.losses[i]; x.answer {
		x.replies = append(x.replies, reply)
		return false
	}
	o.happened(i)
	return true
}

// losesAnswer says whether a server's frame is to be lost.
func (o *Outage) losesAnswer(f frame) bool {
	subject, ok := f.delivery()
	if !ok {
		return false
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	i := slices.IndexFunc(o.losses, func(x *loss) bool { return slices.Contains(x.replies, subject) })
	if i < 0 {
		return false
	}
	o.happened(i)
	return true
}

// happened ends the loss at an index. The lock is held.
func (o *Outage) happened(i int) {
	close(o.losses[i].done)
	o.losses = slices.Delete(o.losses, i, i+1)
}

// flowing returns a channel that is closed while bytes may flow.
func (o *Outage) flowing() <-chan struct{} {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.gate
}

func (o *Outage) forget(l *link) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.links, l)
}
