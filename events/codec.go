package events

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cockroachdb/errors"
	"github.com/go-json-experiment/json"
)

// Message is a NATS message without NATS.
type Message struct {
	Subject string
	Header  map[string][]string
	Data    []byte
}

// MaxSize bounds the body of an event, in bytes; the stream refuses messages a
// little above it.
const MaxSize = 500 << 10

// The headers of an event. NATS compares header names case-sensitively.
const (
	headerSpec        = "ce-specversion"
	headerID          = "ce-id"
	headerSource      = "ce-source"
	headerType        = "ce-type"
	headerSubject     = "ce-subject"
	headerTime        = "ce-time"
	headerContentType = "content-type"
	headerTraceParent = "traceparent"
	headerTraceState  = "tracestate"
	headerEpoch       = "tf-epoch"
	headerAttempt     = "tf-attempt"
	headerCause       = "tf-cause"
	headerCorrelation = "tf-correlation"
	headerActor       = "tf-actor"
	headerReason      = "tf-reason"
	headerPrev        = "tf-prev"

	specVersion = "1.0"
	contentType = "application/json"
)

// ErrTooLarge marks the error of an event above [MaxSize].
var ErrTooLarge = errors.New("event too large")

// Encode returns the event as the message that is stored. ID, Source and Time
// must be set.
func Encode(f FleetID, e *Event) (Message, error) {
	typ, data, err := encodeBody(e)
	if err != nil {
		return Message{}, errors.Wrapf(err, "encode %s on %s", e.Kind(), e.Chain)
	}
	if len(data) > MaxSize {
		return Message{}, errors.Mark(errors.Newf("encode %s on %s: %d bytes, at most %d are allowed",
			e.Kind(), e.Chain, len(data), MaxSize), ErrTooLarge)
	}
	if e.ID == "" || e.Source == "" || e.Time.IsZero() {
		return Message{}, errors.Newf("encode %s on %s: id, source and time are needed", e.Kind(), e.Chain)
	}
	h := make(map[string][]string, 12)
	set := func(name, value string) {
		if value != "" {
			h[name] = []string{value}
		}
	}
	set(headerSpec, specVersion)
	set(headerID, string(e.ID))
	set(headerSource, e.Source)
	set(headerType, typ)
	set(headerSubject, e.Chain.String())
	set(headerTime, e.Time.UTC().Format(time.RFC3339Nano))
	set(headerContentType, contentType)
	set(headerTraceParent, e.Trace.Parent)
	set(headerTraceState, e.Trace.State)
	if e.Epoch != 0 {
		set(headerEpoch, e.Epoch.String())
	}
	if e.Attempt != 0 {
		set(headerAttempt, strconv.Itoa(e.Attempt))
	}
	set(headerCause, e.Cause)
	set(headerCorrelation, escape(string(e.Correlation)))
	set(headerActor, escape(e.Actor))
	set(headerReason, escape(e.Reason))
	set(headerPrev, string(e.Prev))
	return Message{Subject: e.Chain.Subject(f), Header: h, Data: data}, nil
}

func encodeBody(e *Event) (typ string, data []byte, err error) {
	switch b := e.Body.(type) {
	case nil, Undecodable:
		return "", nil, errors.New("there is no body")
	case Unknown:
		return b.Type, e.Data, nil
	default:
		k := b.kind()
		if !k.BelongsOn(e.Chain.Kind()) {
			return "", nil, errors.Newf("not an event of a %s's chain", e.Chain.Kind())
		}
		if e.Data != nil {
			return k.Type(), e.Data, nil
		}
		data, err = json.Marshal(b, json.Deterministic(true))
		return k.Type(), data, err
	}
}

// Decode returns the event that a message holds. A kind or version that this
// build does not know is no error: its body is [Unknown].
func Decode(m Message) (Event, error) {
	_, chain, err := ParseEventSubject(m.Subject)
	if err != nil {
		return Event{}, err
	}
	e := Event{Chain: chain}
	err = e.decode(m)
	return e, errors.Wrapf(err, "decode event on %s", chain)
}

// Read returns the message at seq as a record and never fails: what cannot be
// decoded has an [Undecodable] body. The zero Chain is that of a message on no
// chain's subject.
func Read(m Message, seq Seq) Record {
	e, err := Decode(m)
	if err != nil {
		e.Body = Undecodable{Reason: err.Error()}
		e.Data = m.Data
		e.ID, e.Prev = EventID(first(m.Header, headerID)), Link(first(m.Header, headerPrev))
	}
	return Record{Event: e, Seq: seq, Link: LinkOf(m)}
}

func (e *Event) decode(m Message) (err error) {
	h := m.Header
	if v := first(h, headerSpec); v != specVersion {
		return errors.Newf("ce-specversion is %s, not %s", quote(v), specVersion)
	}
	e.ID, e.Source = EventID(first(h, headerID)), first(h, headerSource)
	if e.ID == "" || e.Source == "" {
		return errors.New("ce-id or ce-source is missing")
	}
	if s := first(h, headerSubject); s != e.Chain.String() {
		return errors.Newf("ce-subject is %s", quote(s))
	}
	if e.Time, err = time.Parse(time.RFC3339Nano, first(h, headerTime)); err != nil {
		return errors.New("ce-time is not RFC 3339")
	}
	if e.Epoch, err = parseUint[Epoch](h, headerEpoch); err != nil {
		return err
	}
	attempt, err := parseUint[uint32](h, headerAttempt)
	if err != nil {
		return err
	}
	e.Attempt = int(attempt)
	e.Cause = first(h, headerCause)
	e.Correlation = RequestID(unescape(first(h, headerCorrelation)))
	e.Actor, e.Reason = unescape(first(h, headerActor)), unescape(first(h, headerReason))
	e.Trace = Trace{Parent: first(h, headerTraceParent), State: first(h, headerTraceState)}
	e.Prev = Link(first(h, headerPrev))
	return e.decodeBody(first(h, headerType), m.Data)
}

func (e *Event) decodeBody(typ string, data []byte) error {
	kind, known, err := parseType(typ)
	if err != nil {
		return err
	}
	e.Data = data
	if !known {
		e.Body = Unknown{Type: typ}
		return nil
	}
	if !kind.BelongsOn(e.Chain.Kind()) {
		return errors.Newf("%s does not belong on a %s's chain", kind, e.Chain.Kind())
	}
	e.Body, err = catalogue[kind].decode(data)
	return errors.Wrap(err, string(kind))
}

func first(h map[string][]string, name string) string {
	if v := h[name]; len(v) > 0 {
		return v[0]
	}
	return ""
}

func parseUint[T ~uint32 | ~uint64](h map[string][]string, name string) (T, error) {
	s := first(h, name)
	if s == "" {
		return 0, nil
	}
	bits := 64
	if uint64(^T(0)) < 1<<33 {
		bits = 31
	}
	n, err := strconv.ParseUint(s, 10, bits)
	if err != nil {
		return 0, errors.Newf("%s is %s", name, quote(s))
	}
	return T(n), nil
}

// LinkOf returns the link of a stored message: what the next message of its
// chain has as tf-prev.
func LinkOf(m Message) Link {
	names := make([]string, 0, 16)
	for name := range m.Header {
		if isOurs(name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	buf := make([]byte, 0, 1024)
	for _, name := range names {
		buf = append(append(buf, name...), ':')
		buf = append(append(buf, first(m.Header, name)...), '\n')
	}
	buf = append(append(buf, m.Subject...), '\n')
	buf = append(buf, m.Data...)
	sum := sha256.Sum256(buf)
	return Link(hex.EncodeToString(sum[:]))
}

// isOurs says whether a header belongs to the format. Others are the broker's,
// which may add some.
func isOurs(name string) bool {
	switch name {
	case headerContentType, headerTraceParent, headerTraceState:
		return true
	}
	return strings.HasPrefix(name, "ce-") || strings.HasPrefix(name, "tf-")
}

const hexDigits = "0123456789ABCDEF"

// escape percent-encodes what a header cannot hold.
func escape(s string) string {
	plain := func(c byte) bool { return c >= ' ' && c <= '~' && c != '%' }
	n := 0
	for n < len(s) && plain(s[n]) {
		n++
	}
	// NATS trims the white space around a header's value.
	if n == len(s) && s == strings.TrimSpace(s) {
		return s
	}
	var b strings.Builder
	for i := range len(s) {
		if c := s[i]; plain(c) && c != ' ' {
			b.WriteByte(c)
		} else {
			b.WriteByte('%')
			b.WriteByte(hexDigits[c>>4])
			b.WriteByte(hexDigits[c&15])
		}
	}
	return b.String()
}

// unescape is the inverse of escape; what is no valid escape stays as it is.
func unescape(s string) string {
	if !strings.Contains(s, "%") {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '%' && i+2 < len(s) {
			if n, err := strconv.ParseUint(s[i+1:i+3], 16, 8); err == nil {
				b.WriteByte(byte(n))
				i += 2
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}
