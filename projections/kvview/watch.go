package kvview

import (
	"context"
	"strings"
	"time"

	"github.com/cockroachdb/errors"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

const (
	// pullBatch is how many messages a watch asks for at a time.
	pullBatch = 1000
	// pullHeartbeat is how often the server says that a quiet watch lives; after
	// two that are missing the watch fails.
	pullHeartbeat = 2 * time.Second
	// watchIdle is when the server forgets a watch that nobody pulls from.
	watchIdle = time.Minute
	// readAhead is how many updates wait for their reader.
	readAhead = 256
	// closeTimeout bounds the removal of a watch's consumer.
	closeTimeout = 2 * time.Second
)

// watch is one consumer of the bucket's stream. It heals nothing: whoever reads
// it opens another one when it failed.
//
// It is not the consumer of package jetlog, though it looks like it. That one
// belongs to a Log, which a reader of views has no rights to open; it waits for a
// leader for ever where a watch fails, so that Open can say so; and it leaves
// gaps to whoever reads it, who knows the sequences, while those of a bucket have
// gaps by nature and only the consumer's own count tells of a loss. What is left
// in common is two calls of the client.
type watch struct {
	// updates come in the order of their revisions, without a gap.
	updates chan update
	// failed has the first error; nothing comes after it.
	failed chan error
	// initial is how many updates there were at the start.
	initial uint64
	// head returns the revision of the bucket's last update.
	head  func(context.Context) (uint64, error)
	close func()
}

// update is what was written under a key.
type update struct {
	key      string
	data     []byte
	revision uint64
	created  time.Time
	deleted  bool
	// pending is how many updates follow at once.
	pending uint64
}

// openWatch watches the bucket: the last update of each key first, or, with a
// revision, only what was written after it.
func openWatch(ctx context.Context, s jetstream.Stream, prefix string, after uint64) (*watch, error) {
	cfg := jetstream.ConsumerConfig{
		AckPolicy:         jetstream.AckNonePolicy,
		DeliverPolicy:     jetstream.DeliverLastPerSubjectPolicy,
		FilterSubject:     prefix + ">",
		MemoryStorage:     true,
		Replicas:          1,
		MaxDeliver:        1,
		InactiveThreshold: watchIdle,
	}
	if after > 0 {
		cfg.DeliverPolicy, cfg.OptStartSeq = jetstream.DeliverByStartSequencePolicy, after+1
	}
	c, err := s.CreateConsumer(ctx, cfg)
	if err != nil {
		return nil, errors.Wrap(err, "watch views")
	}
	name := c.CachedInfo().Name
	w := &watch{
		updates: make(chan update, readAhead), failed: make(chan error, 1),
		initial: c.CachedInfo().NumPending,
		head: func(ctx context.Context) (uint64, error) {
			ctx, cancel := context.WithTimeout(ctx, readTimeout)
			defer cancel()
			info, err := s.Info(ctx)
			if err != nil {
				return 0, err
			}
			return info.State.LastSeq, nil
		},
	}
	running, stop := context.WithCancel(ctx)
	cc, err := c.Consume(w.receiver(running, prefix),
		jetstream.PullMaxMessages(pullBatch), jetstream.PullHeartbeat(pullHeartbeat),
		jetstream.ConsumeErrHandler(func(_ jetstream.ConsumeContext, err error) { w.fail(err) }))
	w.close = func() {
		stop()
		if cc != nil {
			cc.Stop()
			<-cc.Closed()
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
		defer cancel()
		// The server forgets an idle consumer by itself; this is only sooner.
		_ = s.DeleteConsumer(ctx, name)
	}
	if err != nil {
		w.close()
		return nil, errors.Wrap(err, "watch views")
	}
	return w, nil
}

// receiver returns the handler of the consumer's messages.
func (w *watch) receiver(ctx context.Context, prefix string) jetstream.MessageHandler {
	expected := uint64(1)
	return func(m jetstream.Msg) {
		meta, err := m.Metadata()
		if err != nil {
			w.fail(err) // unreachable unless the server's replies change their form
			return
		}
		if meta.Sequence.Consumer != expected {
			w.fail(errors.Newf("update %d of the watch is missing", expected))
			return
		}
		expected++
		u := update{
			key: strings.TrimPrefix(m.Subject(), prefix), data: m.Data(),
			revision: meta.Sequence.Stream, created: meta.Timestamp, pending: meta.NumPending,
			deleted: isDeletion(m.Headers()),
		}
		select {
		case w.updates <- u:
		case <-ctx.Done():
		}
	}
}

func (w *watch) fail(err error) {
	select {
	case w.failed <- err:
	default: // the first error is enough
	}
}

// isDeletion says whether a message only says that its key has no value.
func isDeletion(h nats.Header) bool {
	return h.Get("KV-Operation") != "" || h.Get("Nats-Marker-Reason") != ""
}

// first calls take with each update that there was at the start, and with those
// that came meanwhile. Where updates are replaced while they are being counted,
// fewer may come than were announced: then the bucket's last one is the end.
func (w *watch) first(ctx context.Context, take func(update) error) error {
	silence := time.NewTimer(readTimeout)
	defer silence.Stop()
	last := uint64(0)
	for more := w.initial > 0; more; {
		select {
		case u := <-w.updates:
			last = u.revision
			if err := take(u); err != nil {
				return err
			}
			more = u.pending > 0
			silence.Reset(readTimeout)
		case err := <-w.failed:
			return errors.Wrap(err, "read views")
		case <-silence.C:
			head, err := w.head(ctx)
			if err != nil {
				return errors.Wrap(err, "read views")
			}
			if last < head {
				return errors.Newf("read views: nothing comes after revision %d of %d", last, head)
			}
			more = false
		case <-ctx.Done():
			return errors.Wrap(context.Cause(ctx), "read views")
		}
	}
	return nil
}
