package jetlog

import (
	"context"
	"time"

	"github.com/cockroachdb/errors"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/toolfleet/toolfleet/events"
)

const (
	// pullBatch and pullHeartbeat suit rebuilds of long histories.
	pullBatch     = 5000
	pullHeartbeat = 2 * time.Second
	// consumerIdle is when the server removes a consumer that nobody pulls from.
	consumerIdle = time.Minute
	// readAhead is how many decoded messages wait for the reader.
	readAhead = 1024
	// closeTimeout bounds the removal of a consumer that is no longer read.
	closeTimeout = 2 * time.Second
)

// consumer is one ephemeral consumer of a stream, whose messages are decoded
// ahead of their reader. It heals nothing: whoever reads it checks what comes,
// and opens another one where that is not what it should be.
type consumer[T any] struct {
	// items are the decoded messages, in order.
	items chan T
	// failed has the first error; nothing comes after it.
	failed chan error
	// pending is how many messages there were to come when it was opened.
	pending uint64

	stop context.CancelFunc
	cc   jetstream.ConsumeContext
	drop func()
}

// consume opens a consumer: the policy, start and filter of the configuration
// are the caller's.
func consume[T any](ctx context.Context, l *Log, s jetstream.Stream, cfg jetstream.ConsumerConfig, decode func(jetstream.Msg) T) (*consumer[T], error) {
	cfg.AckPolicy = jetstream.AckNonePolicy
	cfg.MemoryStorage = true
	cfg.Replicas = 1
	cfg.MaxDeliver = 1
	cfg.InactiveThreshold = consumerIdle
	var jc jetstream.Consumer
	err := l.ask(ctx, func(ctx context.Context) (err error) {
		jc, err = s.CreateConsumer(ctx, cfg)
		return err
	})
	if err != nil {
		return nil, err
	}
	info := jc.CachedInfo()
	running, stop := context.WithCancel(ctx)
	c := &consumer[T]{
		items:   make(chan T, readAhead),
		failed:  make(chan error, 1),
		pending: info.NumPending,
		stop:    stop,
		drop: func() {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
			defer cancel()
			// The server removes an idle consumer by itself; this is only sooner.
			_ = s.DeleteConsumer(ctx, info.Name)
		},
	}
	c.cc, err = jc.Consume(func(m jetstream.Msg) {
		select {
		case c.items <- decode(m):
		case <-running.Done():
		}
	}, jetstream.PullMaxMessages(pullBatch), jetstream.PullHeartbeat(pullHeartbeat),
		jetstream.ConsumeErrHandler(func(_ jetstream.ConsumeContext, err error) {
			select {
			case c.failed <- l.explain(err):
			default: // the first error is enough
			}
		}))
	if err != nil {
		stop()
		c.drop()
		return nil, l.explain(err)
	}
	return c, nil
}

// close ends the consumer; nothing of it is left when it returns.
func (c *consumer[T]) close() {
	c.stop()
	c.cc.Stop()
	<-c.cc.Closed()
	c.drop()
}

// errIdle says that no message came for a while.
var errIdle = errors.New("idle")

// each calls f with the consumer's items until f wants no more (then the error
// is nil), the context ends or the consumer fails. Whenever nothing came for
// the idle time or a little longer it calls quiet, whose error ends it too.
func (c *consumer[T]) each(ctx context.Context, idle time.Duration, quiet func() error, f func(T) bool) error {
	tick := time.NewTicker(idle)
	defer tick.Stop()
	busy := false
	for {
		select {
		case item := <-c.items:
			busy = true
			if !f(item) {
				return nil
			}
		case <-tick.C:
			if !busy {
				if err := quiet(); err != nil {
					return err
				}
			}
			busy = false
		case err := <-c.failed:
			return err
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// place returns a message without the broker, and its sequence. The sequence is
// 0 for a message that no stream sent.
func place(m jetstream.Msg) (events.Message, events.Seq) {
	msg := events.Message{Subject: m.Subject(), Header: m.Headers(), Data: m.Data()}
	meta, err := m.Metadata()
	if err != nil {
		return msg, 0 // unreachable unless the server's replies change their form
	}
	return msg, events.Seq(meta.Sequence.Stream)
}
