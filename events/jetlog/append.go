package jetlog

import (
	"context"
	"strconv"
	"time"

	"github.com/cockroachdb/errors"
	"github.com/go-json-experiment/json"
	"github.com/google/uuid"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/otel"
)

const (
	// attemptTimeout bounds one publish. A stream without a leader does not
	// answer at all, so it is sent again, with the same id.
	attemptTimeout = 5 * time.Second
	// retryPause lies between two attempts.
	retryPause = 100 * time.Millisecond
	// maxReadBacks is how often a conflict is looked up that names nothing: a
	// new leader may answer before it has applied what the old one stored.
	maxReadBacks = 50
)

// Append stores an event after the tip of its chain and returns it as stored.
//
// ID, Source, Time and Trace are set where they are empty: the ID to a new
// UUIDv7, the trace to the context's. Prev is set to the tip's link. Where traces
// are on, the append is a span below that trace, and the event is stored with the
// trace of the span.
//
// It tries until the context ends, also while the stream has no leader. Its
// errors are marked:
//
//   - [events.ErrConflict]: the chain goes on after the tip, with another event.
//     This one was not stored: fold on and decide again, with a new ID.
//   - [events.ErrUncertain]: the context ended, or the connection was closed,
//     without an answer. Append the same event again, ID and all, to find out.
//   - [events.ErrHistoryFull]: the stream is full, and how to go on.
//   - [events.ErrTooLarge]: above [events.MaxSize], [events.MaxHeaderSize] or what
//     the server takes in one message.
//   - [events.ErrHistoryRegressed]: the tip is not in the stream, or the stream
//     was deleted or made anew.
//
// An event that cannot be encoded, or whose ID is used elsewhere in the stream,
// is refused with an error of no mark. If the context ends before anything could
// be sent, the error is the context's own, and nothing was stored.
func (l *Log) Append(ctx context.Context, e events.Event, tip events.Tip) (events.Record, error) {
	if l.told.listens() {
		return l.told.append(ctx, e, tip, l.append)
	}
	return l.append(ctx, e, tip)
}

func (l *Log) append(ctx context.Context, e events.Event, tip events.Tip) (events.Record, error) {
	l.complete(ctx, &e, tip)
	m, link, err := events.Seal(l.fleet, &e)
	if err != nil {
		return events.Record{}, err
	}
	if err := l.check(ctx, tip); err != nil {
		return events.Record{}, errors.Wrapf(err, "append %s to %s", e.Kind(), e.Chain)
	}
	o, err := l.publish(ctx, l.events, m, string(e.ID), tip.Seq)
	if err != nil {
		return events.Record{}, errors.Wrapf(err, "append %s to %s", e.Kind(), e.Chain)
	}
	var r events.Record
	switch {
	case o.found == nil:
		r = events.Record{Event: e, Seq: o.seq, Link: link}
		r.Data = m.Data
	case o.ours:
		r = read(o.found) // as an earlier attempt stored it
	default:
		return events.Record{}, errors.WithStack(&events.ConflictError{Chain: e.Chain, Expected: tip.Seq, Found: read(o.found)})
	}
	l.seen(r.Tip())
	return r, nil
}

// complete sets what the caller left to the log.
func (l *Log) complete(ctx context.Context, e *events.Event, tip events.Tip) {
	if e.ID == "" {
		e.ID = events.EventID(uuid.Must(uuid.NewV7()).String())
	}
	if e.Source == "" {
		e.Source = "toolfleet/" + string(l.fleet) + "/" + l.o.Writer
	}
	if e.Time.IsZero() {
		e.Time = time.Now()
	}
	if e.Trace.Parent == "" {
		e.Trace = traceOf(ctx)
	}
	e.Time = e.Time.UTC().Round(0)
	e.Prev = tip.Link
}

// traceOf returns the trace context of ctx as text.
func traceOf(ctx context.Context) events.Trace {
	parent, state := otel.Inject(ctx)
	return events.Trace{Parent: parent, State: state}
}

// outcome says where a message is, or what is there instead.
type outcome struct {
	seq events.Seq
	// found is what was read back, nil after an acknowledgement.
	found *jetstream.RawStreamMsg
	// ours says that the message is stored.
	ours bool
}

// publish stores a message whose subject must end at the expected sequence. The
// id is both its ce-id and its key in the duplicate window. Headers of the
// broker are added to the message.
func (l *Log) publish(ctx context.Context, s jetstream.Stream, m events.Message, id string, expected events.Seq) (outcome, error) {
	msg := &nats.Msg{Subject: m.Subject, Header: m.Header, Data: m.Data}
	msg.Header[jetstream.MsgIDHeader] = []string{id}
	msg.Header[jetstream.ExpectedLastSubjSeqHeader] = []string{strconv.FormatUint(uint64(expected), 10)}
	p := publication{log: l, stream: s, msg: msg, id: id, expected: expected}
	return p.run(ctx)
}

// publication is one message on its way.
type publication struct {
	log      *Log
	stream   jetstream.Stream
	msg      *nats.Msg
	id       string
	expected events.Seq

	// sent says that an attempt may have reached the stream without an answer.
	sent bool
	// readBacks is how many conflicts named nothing.
	readBacks int
}

func (p *publication) run(ctx context.Context) (outcome, error) {
	for {
		if p.log.nc.IsClosed() {
			return outcome{}, p.undecided(nats.ErrConnectionClosed)
		}
		ack, err := p.attempt(ctx)
		switch {
		case err == nil && !ack.Duplicate:
			return outcome{seq: ack.Seq, ours: true}, nil
		case err == nil, isConflict(err):
			// Either another writer was first, or an earlier attempt of ours was
			// stored and its answer lost: what is there tells.
			if o, err := p.readBack(ctx); err != nil || o.found != nil {
				return o, err
			}
		default:
			if err := p.fault(ctx, err); err != nil {
				return outcome{}, err
			}
		}
		if err := pause(ctx, retryPause); err != nil {
			return outcome{}, p.undecided(err)
		}
	}
}

// attempt publishes once.
func (p *publication) attempt(ctx context.Context) (ack, error) {
	ctx, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()
	answer, err := p.log.nc.RequestMsgWithContext(ctx, p.msg)
	if errors.Is(err, nats.ErrNoResponders) {
		return ack{}, jetstream.ErrNoStreamResponse
	}
	if err != nil {
		return ack{}, err
	}
	return readAck(answer.Data)
}

// ack is what a stream answers to a publish. It is read here because an append
// is as fast as its slowest part: that of nats.go takes several times as long.
type ack struct {
	Stream    string              `json:"stream"`
	Seq       events.Seq          `json:"seq"`
	Duplicate bool                `json:"duplicate"`
	Error     *jetstream.APIError `json:"error"`
}

func readAck(data []byte) (ack, error) {
	var a ack
	switch err := json.Unmarshal(data, &a); {
	case err != nil, a.Error == nil && a.Stream == "":
		return a, jetstream.ErrInvalidJSAck
	case a.Error != nil:
		return a, a.Error
	}
	return a, nil
}

// readBack looks up what stands where the message wants to be. It finds nothing
// where that is not known yet.
func (p *publication) readBack(ctx context.Context) (outcome, error) {
	m, err := p.log.get(ctx, p.stream, p.expected+1, p.msg.Subject)
	switch {
	case err == nil:
		return outcome{seq: events.Seq(m.Sequence), found: m, ours: m.Header.Get(headerID) == p.id}, nil
	case !errors.Is(err, jetstream.ErrMsgNotFound):
		return outcome{}, p.undecided(err)
	}
	if p.readBacks++; p.readBacks < maxReadBacks {
		return outcome{}, nil
	}
	return outcome{}, p.unplaced(ctx)
}

// fault returns nil if the attempt may be made again.
func (p *publication) fault(ctx context.Context, err error) error {
	code := apiCode(err)
	switch {
	case isFull(err):
		return errors.Mark(errors.Wrapf(err,
			"stream %s is full: raise its limit (`nats stream edit %[1]s --max-bytes=…`), or the storage limit of the server",
			p.stream.CachedInfo().Config.Name), events.ErrHistoryFull)
	case code == codeMessageTooLarge, errors.Is(err, nats.ErrMaxPayload):
		return errors.Mark(err, events.ErrTooLarge)
	case code == codeDuplicateInFlight, isTemporary(err):
		return nil
	case code != 0:
		return p.log.explain(err)
	case errors.Is(err, jetstream.ErrNoStreamResponse):
		// Nothing listens: no leader yet, or no stream any more.
		err := p.log.ask(ctx, func(ctx context.Context) error {
			_, err := p.stream.Info(ctx)
			return err
		})
		if errors.Is(err, events.ErrHistoryRegressed) {
			return err
		}
		return nil
	default:
		p.sent = p.sent || !errors.Is(err, nats.ErrReconnectBufExceeded)
		return nil
	}
}

// undecided is the error of an append that ends before an answer.
func (p *publication) undecided(err error) error {
	err = p.log.explain(err)
	if p.sent {
		return errors.Mark(errors.Wrap(err, "no answer"), events.ErrUncertain)
	}
	return errors.Wrap(err, "not sent")
}

// unplaced is the error of a conflict that names nothing: the subject ends
// before the expected sequence, or the id is used on another subject.
func (p *publication) unplaced(ctx context.Context) error {
	last, err := p.log.get(ctx, p.stream, 0, p.msg.Subject)
	switch {
	case err != nil && !errors.Is(err, jetstream.ErrMsgNotFound):
		return err
	case err == nil && events.Seq(last.Sequence) == p.expected, err != nil && p.expected == 0:
		return errors.Newf("id %s is already used elsewhere in the stream", p.id)
	}
	return errors.Mark(errors.Newf("the chain has no event at %d, which was read before", p.expected), events.ErrHistoryRegressed)
}

func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}

func read(m *jetstream.RawStreamMsg) events.Record {
	return events.Read(events.Message{Subject: m.Subject, Header: m.Header, Data: m.Data}, events.Seq(m.Sequence))
}
