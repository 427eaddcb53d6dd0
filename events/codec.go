package events

import (
	"crypto/sha256"
	"encoding/hex"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/cockroachdb/errors"
)

// Message is a NATS message without NATS. Names of headers are case-sensitive.
type Message struct {
	Subject string
	Header  map[string][]string
	Data    []byte
}

// MaxSize bounds the body of an event, in bytes; the stream refuses messages a
// little above it.
const MaxSize = 500 << 10

const (
	specVersion = "1.0"
	contentType = "application/json"
)

// ErrTooLarge marks the error of an event above [MaxSize] or [MaxHeaderSize], and
// that of whatever else is larger than the log takes.
var ErrTooLarge = errors.New("event too large")

// Encode returns the event as the message that is stored. ID, Source and Time
// must be set. Where Data is set, it is written as it is: clear it to write a
// Body that was changed.
//
// What [Decode] would refuse is an error, marked [ErrTooLarge] where that is the
// reason, so that nothing unreadable gets into a history.
func Encode(f FleetID, e *Event) (Message, error) {
	m, _, err := encodeMessage(f, e)
	return m, err
}

// Seal is [Encode] for who also needs the link that the next event of the chain
// has as Prev.
func Seal(f FleetID, e *Event) (Message, Link, error) {
	m, h, err := encodeMessage(f, e)
	if err != nil {
		return Message{}, "", err
	}
	return m, h.link(m), nil
}

func encodeMessage(f FleetID, e *Event) (Message, *header, error) {
	typ, data, err := encodeBody(e)
	if err != nil {
		return Message{}, nil, errors.Wrapf(err, "encode %s on %s", e.Kind(), e.Chain)
	}
	h := e.header(typ)
	m := Message{Subject: e.Chain.Subject(f), Header: h.message(), Data: data}
	check := decodeMessage
	if _, unknown := e.Body.(Unknown); !unknown && e.Data == nil {
		check = decodeEnvelope // what was marshalled just now need not be read again
	}
	if _, err := check(m, &h); err != nil {
		return Message{}, nil, errors.Wrapf(err, "encode %s on %s", e.Kind(), e.Chain)
	}
	return m, &h, nil
}

func encodeBody(e *Event) (typ string, data []byte, err error) {
	switch b := e.Body.(type) {
	case nil, Undecodable:
		return "", nil, errors.New("there is no body")
	case Unknown:
		return b.Type, e.Data, nil
	default:
		if reflect.TypeOf(b).Kind() == reflect.Pointer {
			return "", nil, errors.New("the body is a pointer, which no reader's switch expects")
		}
		if e.Data != nil {
			return b.kind().Type(), e.Data, nil
		}
		typ = b.kind().Type()
		known := types[typ]
		if known.chains&on(e.Chain.Kind()) == 0 {
			return "", nil, errors.Newf("it does not belong on a %s's chain", e.Chain.Kind())
		}
		data, err = known.encode(b)
		return typ, data, err
	}
}

// header returns the headers of the event.
func (e *Event) header(typ string) (h header) {
	h.value = [fields]string{
		fieldID:          string(e.ID),
		fieldSource:      e.Source,
		fieldSpec:        specVersion,
		fieldSubject:     e.Chain.String(),
		fieldTime:        e.Time.UTC().Format(time.RFC3339Nano),
		fieldType:        typ,
		fieldContentType: contentType,
		fieldActor:       EscapeHeader(e.Actor),
		fieldCause:       EscapeHeader(e.Cause),
		fieldCorrelation: EscapeHeader(string(e.Correlation)),
		fieldPrev:        string(e.Prev),
		fieldReason:      EscapeHeader(e.Reason),
		fieldTraceParent: e.Trace.Parent,
		fieldTraceState:  e.Trace.State,
	}
	for name, value := range e.Extra {
		h.extra = append(h.extra, extra{name, value})
	}
	if e.Time.IsZero() {
		h.value[fieldTime] = ""
	}
	if e.Epoch != 0 {
		h.value[fieldEpoch] = e.Epoch.String()
	}
	if e.Attempt != 0 {
		h.value[fieldAttempt] = strconv.Itoa(e.Attempt)
	}
	return h
}

// Decode returns the event that a message holds. A kind or version that this
// build does not know is no error: its body is [Unknown]. A message on no
// chain's subject, or not in the one form that the package documentation
// describes, is one.
//
// Decoding loses nothing: [Encode] returns the message again, but for headers
// that do not belong to the format. The event shares the message's memory.
func Decode(m Message) (Event, error) {
	h := readHeader(m.Header)
	e, err := decodeMessage(m, &h)
	if err != nil {
		return Event{}, errors.Wrapf(err, "decode event on %s", quote(m.Subject))
	}
	return e, nil
}

// Read returns the message at seq as a record and never fails: what cannot be
// decoded has an [Undecodable] body. The zero Chain is that of a message on no
// chain's subject.
func Read(m Message, seq Seq) Record {
	h := readHeader(m.Header)
	e, err := decodeMessage(m, &h)
	if err != nil {
		e = Event{Body: Undecodable{Reason: cut(err.Error(), maxReason)}, Data: m.Data}
		if _, c, err := ParseEventSubject(m.Subject); err == nil {
			e.Chain = c
		}
		if id := h.value[fieldID]; isPlain(id) {
			e.ID = EventID(id)
		}
	}
	return Record{Event: e, Seq: seq, Link: h.link(m)}
}

// maxReason bounds [Undecodable.Reason], in bytes: a decoder's error may repeat
// long names.
const maxReason = 512

func decodeMessage(m Message, h *header) (e Event, err error) {
	if e, err = decodeEnvelope(m, h); err != nil {
		return e, err
	}
	return e, e.decodeBody(h.value[fieldType], m.Data)
}

// decodeEnvelope decodes all but the body.
func decodeEnvelope(m Message, h *header) (e Event, err error) {
	if len(m.Data) > MaxSize {
		return e, errors.Mark(errors.Newf("%d bytes, at most %d are allowed", len(m.Data), MaxSize), ErrTooLarge)
	}
	if err := h.check(); err != nil {
		return e, err
	}
	_, chain, err := splitEventSubject(m.Subject)
	if err != nil {
		return e, err
	}
	if s := h.value[fieldSubject]; s != chain {
		return e, errors.Newf("%s is %s", fieldSubject, quote(s))
	}
	if e.Chain, err = ParseChain(chain); err != nil {
		return e, err
	}
	return e, e.decodeHeader(h)
}

func (e *Event) decodeHeader(h *header) (err error) {
	e.ID, e.Source = EventID(h.value[fieldID]), h.value[fieldSource]
	e.Trace = Trace{Parent: h.value[fieldTraceParent], State: h.value[fieldTraceState]}
	e.Prev = Link(h.value[fieldPrev])
	switch {
	case e.ID == "" || e.Source == "":
		return errors.Newf("%s or %s is missing", fieldID, fieldSource)
	case h.value[fieldSpec] != specVersion:
		return errors.Newf("%s is %s, not %s", fieldSpec, quote(h.value[fieldSpec]), specVersion)
	case h.value[fieldContentType] != contentType:
		return errors.Newf("%s is %s, not %s", fieldContentType, quote(h.value[fieldContentType]), contentType)
	}
	if e.Time, err = parseTime(h.value[fieldTime]); err != nil {
		return err
	}
	epoch, err := parseCount(h, fieldEpoch, 64)
	if err != nil {
		return err
	}
	attempt, err := parseCount(h, fieldAttempt, 31)
	if err != nil {
		return err
	}
	e.Epoch, e.Attempt = Epoch(epoch), int(attempt)
	return e.decodeText(h)
}

func (e *Event) decodeText(h *header) (err error) {
	if e.Cause, err = UnescapeHeader(h.value[fieldCause]); err != nil {
		return err
	}
	if e.Actor, err = UnescapeHeader(h.value[fieldActor]); err != nil {
		return err
	}
	if e.Reason, err = UnescapeHeader(h.value[fieldReason]); err != nil {
		return err
	}
	correlation, err := UnescapeHeader(h.value[fieldCorrelation])
	e.Correlation = RequestID(correlation)
	for _, x := range h.extra {
		if e.Extra == nil {
			e.Extra = make(map[string]string, len(h.extra))
		}
		e.Extra[x.name] = x.value
	}
	return err
}

func (e *Event) decodeBody(typ string, data []byte) error {
	e.Data = data
	known := types[typ]
	if known == nil {
		e.Body = Unknown{Type: typ}
		_, err := parseType(typ)
		return err
	}
	if known.chains&on(e.Chain.Kind()) == 0 {
		return errors.Newf("%s does not belong on a %s's chain", known.kind, e.Chain.Kind())
	}
	if e.Data.Kind() != '{' {
		return errors.Newf("%s: the body is no JSON object", known.kind)
	}
	var err error
	e.Body, err = known.decode(data)
	return errors.Wrap(err, string(known.kind))
}

// parseTime accepts what Encode writes, and no other form of the same time.
func parseTime(s string) (time.Time, error) {
	t, err := time.Parse(time.RFC3339Nano, s)
	var b [len(time.RFC3339Nano)]byte
	if err != nil || string(t.UTC().AppendFormat(b[:0], time.RFC3339Nano)) != s {
		return t, errors.Newf("%s %s is not RFC 3339 in UTC", fieldTime, quote(s))
	}
	return t, nil
}

// parseCount returns the number in a header, from 1; 0 stands for none.
func parseCount(h *header, f field, bits int) (uint64, error) {
	s := h.value[f]
	if s == "" {
		return 0, nil
	}
	n, err := strconv.ParseUint(s, 10, bits)
	if err != nil || s[0] == '0' {
		return 0, errors.Newf("%s %s is no number from 1", f, quote(s))
	}
	return n, nil
}

// LinkOf returns the link of a stored message: what the next message of its
// chain has as tf-prev.
func LinkOf(m Message) Link {
	h := readHeader(m.Header)
	return h.link(m)
}

func (h *header) link(m Message) Link {
	buf := h.appendTo(make([]byte, 0, 1024))
	buf = append(append(buf, m.Subject...), '\n')
	buf = append(buf, m.Data...)
	sum := sha256.Sum256(buf)
	var text [2 * sha256.Size]byte
	hex.Encode(text[:], sum[:])
	return Link(text[:])
}

// quote shows untrusted text in a message: quoted, and cut where it is long.
func quote(s string) string { return strconv.Quote(cut(s, 80)) }

// cut returns s, or about its first n bytes and "…".
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "") + "…"
}
