package kvview

import (
	"context"
	"strconv"
	"strings"

	"github.com/cockroachdb/errors"
	"github.com/go-json-experiment/json"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

const (
	// maxInFlight bounds writes that are not acknowledged, and maxBytesInFlight
	// their size.
	maxInFlight      = 256
	maxBytesInFlight = 8 << 20
)

// line sends writes without waiting for the answer to each. It is opened once:
// a subscription costs more than a write. (nats.go has such publishing as well;
// it leaves a goroutine behind when it is ended early.)
//
// Its answers come over a channel. Asked for the next message, a subscription
// makes an error of one that says "no responders", and keeps to itself which
// write that was: those of an outage, answered one attempt after the other, would
// end an attempt each when it is long over.
type line struct {
	nc      *nats.Conn
	inbox   string
	sub     *nats.Subscription
	answers chan *nats.Msg
	closed  chan nats.Status // has something when the connection is closed for good
	number  int
	// waiting are the writes without an answer, by the end of their reply subject.
	waiting map[string]sent
	bytes   int
}

// sent is a write on its way.
type sent struct {
	pending
	size int
}

func openLine(nc *nats.Conn) (*line, error) {
	l := &line{
		nc: nc, inbox: nc.NewInbox() + ".", waiting: make(map[string]sent),
		// There may be those of some attempts that were given up.
		answers: make(chan *nats.Msg, 8*maxInFlight),
		closed:  nc.StatusChanged(nats.CLOSED),
	}
	var err error
	l.sub, err = nc.ChanSubscribe(l.inbox+"*", l.answers)
	return l, err
}

func (l *line) close() {
	_ = l.sub.Unsubscribe() // fails only with its connection
	l.nc.RemoveStatusListener(l.closed)
}

// full says whether nothing of that size may be sent before an answer came.
func (l *line) full(size int) bool {
	return len(l.waiting) >= maxInFlight || len(l.waiting) > 0 && l.bytes+size > maxBytesInFlight
}

// send publishes a value for a key whose revision is to be the one given.
func (l *line) send(w pending, subject string, data []byte, revision uint64) error {
	l.number++
	id := strconv.Itoa(l.number)
	m := &nats.Msg{Subject: subject, Reply: l.inbox + id, Data: data, Header: nats.Header{}}
	m.Header.Set(jetstream.ExpectedLastSubjSeqHeader, strconv.FormatUint(revision, 10))
	if err := l.nc.PublishMsg(m); err != nil {
		return err
	}
	l.waiting[id], l.bytes = sent{w, len(data)}, l.bytes+len(data)
	return nil
}

// next waits for an answer. Its error is that of the line: no answer came.
func (l *line) next(ctx context.Context) (w pending, revision uint64, refused, err error) {
	ctx, cancel := context.WithTimeout(ctx, ackTimeout)
	defer cancel()
	for {
		var m *nats.Msg
		select {
		case m = <-l.answers:
		case <-l.closed:
			return pending{}, 0, nil, errors.Wrapf(nats.ErrConnectionClosed, "%d writes without an answer", len(l.waiting))
		case <-ctx.Done():
			return pending{}, 0, nil, errors.Wrapf(ctx.Err(), "%d writes without an answer", len(l.waiting))
		}
		id := strings.TrimPrefix(m.Subject, l.inbox)
		s, ok := l.waiting[id]
		if !ok {
			continue // to a write that was given up
		}
		delete(l.waiting, id)
		l.bytes -= s.size
		revision, refused = parseAnswer(m)
		return s.pending, revision, refused, nil
	}
}

// giveUp returns the writes that got no answer, and waits for none any more.
func (l *line) giveUp() (left []pending) {
	for _, s := range l.waiting {
		left = append(left, s.pending)
	}
	clear(l.waiting)
	l.bytes = 0
	return left
}

// parseAnswer reads the server's answer to a publish.
func parseAnswer(m *nats.Msg) (revision uint64, refused error) {
	if len(m.Data) == 0 {
		return 0, errors.New("no stream took the message") // status 503: no responders
	}
	var a struct {
		Error    *jetstream.APIError `json:"error"`
		Sequence uint64              `json:"seq"`
	}
	if err := json.Unmarshal(m.Data, &a); err != nil {
		return 0, errors.Wrap(err, "answer to a publish")
	}
	if a.Error != nil {
		return 0, a.Error
	}
	return a.Sequence, nil
}
