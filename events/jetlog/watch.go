package jetlog

import (
	"context"
	"strings"
	"time"

	"github.com/cockroachdb/errors"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/toolfleet/toolfleet/events"
)

// watchSilence is how long no key is renewed before a watch is given up: the one
// who watches renews a key as well.
const watchSilence = 30 * time.Second

// workerKeys is what the keys of workers begin with.
const workerKeys = "worker."

// Now returns the time on the clock that leases are measured with.
func (l *Log) Now() time.Duration { return l.o.Clock() }

// WatchWorkers calls seen with the last message of every worker's key, and then
// with each message as it is stored: its sequence, and whether it is a renewal
// (there) or the end of the key. It leaves out no message that follows another
// one it told of: where it cannot tell, it ends with an error, as it does when
// the consumer behind it fails. It blocks until then or until the context ends.
//
// What it tells may be late; [Log.FindWorker] tells what is.
func (l *Log) WatchWorkers(ctx context.Context, seen func(w events.WorkerID, at events.Seq, there bool)) error {
	err := l.watchWorkers(ctx, seen)
	if ctx.Err() != nil {
		return nil
	}
	return errors.Wrap(l.explain(err), "watch the keys of workers")
}

// keyMessage is a message of the presence bucket.
type keyMessage struct {
	key   string
	seq   events.Seq
	there bool
}

func (l *Log) watchWorkers(ctx context.Context, seen func(w events.WorkerID, at events.Seq, there bool)) error {
	var s jetstream.Stream
	err := l.ask(ctx, func(ctx context.Context) (err error) {
		s, err = l.js.Stream(ctx, kvStream(l.fleet, "presence"))
		return err
	})
	if err != nil {
		return err
	}
	prefix := kvSubject(l.fleet, "presence", "")
	// Of all keys, because only then is every sequence expected.
	c, err := consume(ctx, l, s, jetstream.ConsumerConfig{
		FilterSubject: prefix + ">", DeliverPolicy: jetstream.DeliverLastPerSubjectPolicy,
	},
		func(m jetstream.Msg) keyMessage {
			msg, seq := place(m)
			return keyMessage{strings.TrimPrefix(msg.Subject, prefix), seq, !endsKey(m.Headers())}
		})
	if err != nil {
		return err
	}
	defer c.close()
	var info *jetstream.StreamInfo
	err = l.ask(ctx, func(ctx context.Context) (err error) {
		info, err = s.Info(ctx)
		return err
	})
	if err != nil {
		return err
	}
	// What was stored after this comes without a gap. Before it, only the last
	// message of each key does.
	last := events.Seq(info.State.LastSeq)
	var missed error
	err = c.each(ctx, watchSilence, func() error { return errors.Newf("no key was renewed for %s", watchSilence) },
		func(k keyMessage) bool {
			if k.seq > last {
				if k.seq != last+1 {
					missed = errors.Newf("message %d was gone before it was seen", last+1)
					return false
				}
				last = k.seq
			}
			if id, ok := strings.CutPrefix(k.key, workerKeys); ok {
				seen(events.WorkerID(id), k.seq, k.there)
			}
			return true
		})
	return errors.CombineErrors(missed, err)
}

// FindWorker reads a worker's key from the stream's leader: the sequence of its
// last message, 0 if there is none, and whether that is a renewal.
func (l *Log) FindWorker(ctx context.Context, w events.WorkerID) (at events.Seq, there bool, err error) {
	s, err := (&presenceKey{log: l, key: workerKeys + string(w)}).read(ctx)
	return events.Seq(s.seq), s.live, err
}
