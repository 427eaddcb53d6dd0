package jetlog

import (
	"strconv"
	"sync"

	"github.com/nats-io/nats.go"
)

// inbox receives the answers to all calls of a Log over one subscription: one
// for each call would cost the broker more than the call itself.
type inbox struct {
	mu sync.Mutex // guards what follows
	// root is what the reply subjects begin with; "" without a subscription.
	root  string
	count uint64
	boxes map[string]*mailbox // by reply subject
}

// mailbox holds what came for one call.
type mailbox struct {
	subject string
	// news has a token when there is something to take.
	news chan struct{}

	mu       sync.Mutex // guards what follows
	messages []*nats.Msg
	closed   bool
}

// open returns a new mailbox, whose subject nobody else has.
func (i *inbox) open(nc *nats.Conn) (*mailbox, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.root == "" {
		root := nc.NewInbox()
		sub, err := nc.Subscribe(root+".*", i.deliver)
		if err != nil {
			return nil, err
		}
		// A message is only handed on, so what waits here waits for no reader.
		_ = sub.SetPendingLimits(-1, -1) // fails only when the connection is closed
		sub.SetClosedHandler(func(string) { i.end() })
		i.root, i.boxes = root, make(map[string]*mailbox)
	}
	i.count++
	b := &mailbox{subject: i.root + "." + strconv.FormatUint(i.count, 36), news: make(chan struct{}, 1)}
	i.boxes[b.subject] = b
	return b, nil
}

func (i *inbox) close(b *mailbox) {
	i.mu.Lock()
	defer i.mu.Unlock()
	delete(i.boxes, b.subject)
}

// deliver puts a message into its mailbox; that of a call that is over has none.
func (i *inbox) deliver(m *nats.Msg) {
	i.mu.Lock()
	b := i.boxes[m.Subject]
	i.mu.Unlock()
	if b != nil {
		b.put(m)
	}
}

// end closes all mailboxes: the subscription is gone with its connection.
func (i *inbox) end() {
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, b := range i.boxes {
		b.put(nil)
	}
	i.root, i.boxes = "", nil
}

// put adds a message, or with nil closes the mailbox.
func (b *mailbox) put(m *nats.Msg) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if m == nil {
		b.closed = true
	} else {
		b.messages = append(b.messages, m)
	}
	select {
	case b.news <- struct{}{}:
	default: // it is known already
	}
}

// take returns what came since it was last called, and whether nothing more
// will.
func (b *mailbox) take() (messages []*nats.Msg, closed bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	messages, b.messages = b.messages, nil
	return messages, b.closed
}
