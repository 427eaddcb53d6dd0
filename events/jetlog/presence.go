package jetlog

import (
	"context"
	"strconv"
	"time"

	"github.com/cockroachdb/errors"
	"github.com/go-json-experiment/json"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/toolfleet/toolfleet/events"
)

// presenceKey is one key of the presence bucket. It is read from the stream's
// leader and written by compare-and-set only. It is written as a raw message,
// because the client's own update of a key drops its TTL.
type presenceKey struct {
	log    *Log
	key    string
	stream jetstream.Stream // nil until it is first read
}

func (k *presenceKey) subject() string { return kvSubject(k.log.fleet, "presence", k.key) }

// presenceValue is what a renewal stores.
type presenceValue struct {
	Folder      string             `json:"folder"`
	Incarnation events.Incarnation `json:"incarnation"`
	// Attempt counts the renewals that were sent, so that one whose answer was
	// lost can be told from the others.
	Attempt uint64 `json:"attempt"`
}

// presenceState is the last message of a key.
type presenceState struct {
	// seq is what a compare-and-set expects; 0 if there is no message.
	seq uint64
	// live says that somebody holds the key: the message is a value, and no
	// marker of its end.
	live   bool
	value  presenceValue
	stored time.Time // by the server's clock
	ttl    time.Duration
}

func (s *presenceState) owner() Holder {
	return Holder{Folder: s.value.Folder, Incarnation: s.value.Incarnation}
}

// read returns what the leader has. A value that cannot be decoded is live and
// nobody's.
func (k *presenceKey) read(ctx context.Context) (_ presenceState, err error) {
	if k.stream == nil {
		if k.stream, err = k.log.js.Stream(ctx, kvStream(k.log.fleet, "presence")); err != nil {
			return presenceState{}, errors.Wrapf(k.log.explain(err), "read %s", k.key)
		}
	}
	m, err := k.stream.GetLastMsgForSubject(ctx, k.subject())
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return presenceState{}, nil
	}
	if err != nil {
		return presenceState{}, errors.Wrapf(k.log.explain(err), "read %s", k.key)
	}
	s := presenceState{seq: m.Sequence, stored: m.Time}
	if endsKey(m.Header) {
		return s, nil
	}
	s.live = true
	s.ttl, _ = time.ParseDuration(m.Header.Get(jetstream.MsgTTLHeader))
	if json.Unmarshal(m.Data, &s.value) != nil {
		s.value = presenceValue{}
	}
	return s, nil
}

// endsKey says whether a message only says that its key has no value.
func endsKey(h nats.Header) bool {
	return h.Get(kvOperation) != "" || h.Get(jetstream.MarkerReasonHeader) != ""
}

// The header that makes a message the end of a key, and its value.
const (
	kvOperation = "KV-Operation"
	// kvPurge, unlike "DEL", is no message whose own expiry leaves a marker: a
	// marker on its way could end a lease taken meanwhile.
	kvPurge = "PURGE"
)

// put stores a value that lives for the TTL, if the key's last message is the
// expected one, and returns its sequence.
func (k *presenceKey) put(ctx context.Context, v presenceValue, expected uint64, ttl time.Duration) (uint64, error) {
	data, err := json.Marshal(&v)
	if err != nil {
		return 0, errors.Wrapf(err, "write %s", k.key) // unreachable unless an id holds invalid UTF-8
	}
	return k.publish(ctx, data, nats.Header{}, expected, ttl)
}

// remove ends the key, if its last message is the expected one.
func (k *presenceKey) remove(ctx context.Context, expected uint64) error {
	h := nats.Header{kvOperation: {kvPurge}, jetstream.MsgRollup: {jetstream.MsgRollupSubject}}
	_, err := k.publish(ctx, nil, h, expected, markerTTL)
	return err
}

func (k *presenceKey) publish(ctx context.Context, data []byte, h nats.Header, expected uint64, ttl time.Duration) (uint64, error) {
	h.Set(jetstream.ExpectedLastSubjSeqHeader, strconv.FormatUint(expected, 10))
	h.Set(jetstream.MsgTTLHeader, ttl.String())
	ack, err := k.log.js.PublishMsg(ctx, &nats.Msg{Subject: k.subject(), Header: h, Data: data}, jetstream.WithRetryAttempts(0))
	if err != nil {
		return 0, errors.Wrapf(k.log.explain(err), "write %s", k.key)
	}
	return ack.Sequence, nil
}
