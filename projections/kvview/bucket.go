package kvview

import (
	"context"
	"time"

	"github.com/cockroachdb/errors"
	"github.com/go-json-experiment/json"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/projections"
)

const (
	// ackTimeout is how long a write may take before it is made again.
	ackTimeout = 5 * time.Second
	// readTimeout bounds one read.
	readTimeout = 5 * time.Second
)

// ErrNoViews says that the fleet has no bucket of views.
var ErrNoViews = errors.New("no views")

// bucket is the bucket of views as its writers use it. It knows what it last saw
// of each key; one goroutine uses it at a time.
type bucket struct {
	js     jetstream.JetStream
	stream jetstream.Stream
	prefix string
	// stored is what is known to be under each key.
	stored map[key]stored
	// position is the one last seen, at that revision.
	position         Position
	positionRevision uint64
}

// stored is an entry in the bucket: its revision, and its order. The zero Order
// is that of a deleted or damaged entry, which every other replaces.
type stored struct {
	revision uint64
	order    projections.Order
	damaged  bool
}

func openBucket(ctx context.Context, nc *nats.Conn, f events.FleetID) (*bucket, error) {
	js, err := jetstream.New(nc)
	if err != nil {
		return nil, errors.Wrap(err, "open views")
	}
	b := &bucket{js: js, prefix: subjectPrefix(f)}
	b.stream, err = openStream(ctx, js, f)
	return b, err
}

// openStream returns the stream behind the fleet's bucket.
func openStream(ctx context.Context, js jetstream.JetStream, f events.FleetID) (jetstream.Stream, error) {
	s, err := js.Stream(ctx, "KV_"+bucketName(f))
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		err = errors.Mark(err, ErrNoViews)
	}
	return s, errors.Wrapf(err, "open views of fleet %s", f)
}

// subjectPrefix is what the subjects of the bucket's keys begin with.
func subjectPrefix(f events.FleetID) string { return "$KV." + bucketName(f) + "." }

// readAll reads the whole bucket and calls take with each entry that is whole;
// it returns the number of those that are not.
func (b *bucket) readAll(ctx context.Context, take func(key, *projections.RawEntry) error) (damaged int, err error) {
	b.stored = make(map[key]stored)
	b.position, b.positionRevision = Position{}, 0
	w, err := openWatch(ctx, b.stream, b.prefix, 0)
	if err != nil {
		return 0, err
	}
	defer w.close()
	err = w.first(ctx, func(u update) error {
		whole, err := b.see(&u, take)
		if !whole {
			damaged++
		}
		return err
	})
	return damaged, err
}

// see notes one key; false if its entry is damaged.
func (b *bucket) see(u *update, take func(key, *projections.RawEntry) error) (whole bool, err error) {
	k, ok := parseKey(u.key)
	switch {
	case !ok:
		return true, nil // a stranger's
	case k.kind == positionKey:
		return b.seePosition(u.data, u.revision), nil
	}
	s := stored{revision: u.revision}
	if !u.deleted {
		raw, err := projections.DecodeRaw(u.data)
		if err != nil {
			s.damaged = true
			b.stored[k] = s
			return false, nil // counted by the caller
		}
		s.order = raw.Order()
		if err := take(k, raw); err != nil {
			return false, err
		}
	}
	b.stored[k] = s
	return true, nil
}

// seePosition notes the position; false if it is damaged.
func (b *bucket) seePosition(data []byte, revision uint64) bool {
	b.position, b.positionRevision = Position{}, revision
	if len(data) == 0 {
		return true // deleted
	}
	return json.Unmarshal(data, &b.position) == nil
}

// look reads one key again, as it is in the bucket now.
func (b *bucket) look(ctx context.Context, k key) error {
	data, revision, err := b.last(ctx, k)
	if err != nil {
		return errors.Wrapf(err, "read view %s", k)
	}
	if k.kind == positionKey {
		b.seePosition(data, revision)
		return nil
	}
	s := stored{revision: revision}
	if raw, err := projections.DecodeRaw(data); err == nil {
		s.order = raw.Order()
	}
	b.stored[k] = s
	return nil
}

// last returns the last message of a key; revision 0 if there is none. A
// deletion has no data.
func (b *bucket) last(ctx context.Context, k key) ([]byte, uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	m, err := b.stream.GetLastMsgForSubject(ctx, b.prefix+k.String())
	switch {
	case errors.Is(err, jetstream.ErrMsgNotFound):
		return nil, 0, nil
	case err != nil:
		return nil, 0, err
	}
	return m.Data, m.Sequence, nil
}

// lookAtPosition reads the position again.
func (b *bucket) lookAtPosition(ctx context.Context) error {
	return b.look(ctx, key{kind: positionKey})
}

// codes of JetStream's answer to a write whose expectation does not hold; the
// second is a replicated stream's.
const (
	codeWrongLastSequence         jetstream.ErrorCode = 10071
	codeWrongLastSequenceConstant jetstream.ErrorCode = 10164
)

func isConflict(err error) bool {
	var e *jetstream.APIError
	return errors.As(err, &e) && (e.ErrorCode == codeWrongLastSequence || e.ErrorCode == codeWrongLastSequenceConstant)
}
