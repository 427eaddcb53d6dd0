package jetlog

import (
	"context"
	"iter"
	"time"

	"github.com/cockroachdb/errors"
	"github.com/google/uuid"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/toolfleet/toolfleet/events"
)

// PutCommand makes c the desired state of an address. Seen is the sequence of
// the address's last command as the caller knows it, or 0: when another one is
// there, nothing is stored and the error is marked [events.ErrConflict]. The
// command's trace is set to the context's where it is empty, and as
// [Log.Append] says where traces are on. It tries until the
// context ends and returns the command's sequence in the stream of commands; its
// other errors are those of [Log.Append].
func (l *Log) PutCommand(ctx context.Context, a events.Address, c *events.Command, seen events.Seq) (events.Seq, error) {
	data, err := events.EncodeCommand(c)
	if err != nil {
		return 0, err
	}
	id := uuid.Must(uuid.NewV7()).String()
	m := events.Message{Subject: a.Subject(l.fleet), Header: map[string][]string{headerID: {id}}, Data: data}
	trace := c.Trace
	if trace.Parent == "" {
		trace = traceOf(ctx)
	}
	span := l.told.order(ctx, a, c, &trace)
	if trace.Parent != "" {
		m.Header[headerTraceParent] = []string{trace.Parent}
	}
	if trace.State != "" {
		m.Header[headerTraceState] = []string{trace.State}
	}
	o, err := l.publish(ctx, l.commands, m, id, seen)
	if err == nil && !o.ours {
		err = errors.Mark(errors.Newf("command %d is there", o.seq), events.ErrConflict)
	}
	l.told.ordered(ctx, span, err)
	if err != nil {
		return 0, errors.Wrapf(err, "command %s %s/%s on %s after %d", c.Want, a.Server, a.Instance, a.Worker, seen)
	}
	return o.seq, nil
}

const (
	headerID          = "ce-id"
	headerTraceParent = "traceparent"
	headerTraceState  = "tracestate"
)

// LastCommands returns the last command of every address, in no order, as the
// stream's leader has them: every command that was acknowledged before is one of
// them, or was replaced by one. Commands that cannot be decoded are left out and
// logged. Without a leader it tries until the context ends.
func (l *Log) LastCommands(ctx context.Context) ([]events.CommandRecord, error) {
	var info *jetstream.StreamInfo
	err := l.ask(ctx, func(ctx context.Context) (err error) {
		info, err = l.commands.Info(ctx, jetstream.WithSubjectFilter(events.CommandPrefix(l.fleet)+">"))
		return err
	})
	if err != nil {
		return nil, errors.Wrap(err, "read the last commands")
	}
	all := make([]events.CommandRecord, 0, len(info.State.Subjects))
	for subject := range info.State.Subjects {
		m, err := l.get(ctx, l.commands, 0, subject)
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			continue // purged meanwhile
		}
		if err != nil {
			return nil, errors.Wrapf(err, "read the last command on %s", subject)
		}
		if r, ok := l.command(m.Subject, m.Header, m.Data, m.Sequence); ok {
			all = append(all, r)
		}
	}
	return all, nil
}

// PurgeCommands removes the commands of an address up to and including a
// sequence. That there are none is no error. It needs no room, so it works on a
// full server too; without a leader it tries until the context ends, and its
// error is then the context's.
func (l *Log) PurgeCommands(ctx context.Context, a events.Address, upTo events.Seq) error {
	err := l.ask(ctx, func(ctx context.Context) error {
		return l.commands.Purge(ctx, jetstream.WithPurgeSubject(a.Subject(l.fleet)), jetstream.WithPurgeSequence(uint64(upTo)+1))
	})
	return errors.Wrapf(err, "purge the commands of %s/%s on %s", a.Server, a.Instance, a.Worker)
}

// commandsResync is how often a follower of commands asks again for the last of
// each address, so that one that was missed is not missed for long.
const commandsResync = 30 * time.Second

// FollowCommands returns the last command of each of the worker's addresses,
// then new ones as they come, until the context ends. Commands of one address
// come in order; some that another follows soon may be left out. Commands that
// cannot be decoded are left out and logged. One that was missed, because it was
// read from a replica that lacked it, comes when nothing else came for 30 s.
//
// Connections that break are made again and do not end the sequence, and it
// waits for a leader where there is none. An error marked
// [events.ErrHistoryRegressed] (the stream of commands was deleted) or
// [ErrNotPermitted] does, and is the last element. All else is waited out, even a
// connection that was closed: end the context.
func (l *Log) FollowCommands(ctx context.Context, w events.WorkerID) iter.Seq2[events.CommandRecord, error] {
	return func(yield func(events.CommandRecord, error) bool) {
		seen := make(map[events.Address]events.Seq)
		for ctx.Err() == nil {
			more, err := l.followCommands(ctx, w, seen, yield)
			if !more {
				return
			}
			if err == nil {
				continue
			}
			if err = l.explain(err); errors.Is(err, events.ErrHistoryRegressed) || errors.Is(err, ErrNotPermitted) {
				yield(events.CommandRecord{}, errors.Wrapf(err, "follow the commands of %s", w))
				return
			}
			_ = pause(ctx, retryPause) // the loop looks at the context
		}
	}
}

// followCommands yields commands from one consumer until it has been idle for
// commandsResync. More is false when yield wants no more.
func (l *Log) followCommands(ctx context.Context, w events.WorkerID, seen map[events.Address]events.Seq, yield func(events.CommandRecord, error) bool) (more bool, err error) {
	c, err := consume(ctx, l, l.commands, jetstream.ConsumerConfig{
		FilterSubject: events.CommandPrefix(l.fleet) + string(w) + ".>",
		DeliverPolicy: jetstream.DeliverLastPerSubjectPolicy,
	}, func(m jetstream.Msg) events.CommandRecord {
		msg, seq := place(m)
		r, _ := l.command(msg.Subject, msg.Header, msg.Data, uint64(seq))
		return r
	})
	if err != nil {
		return true, err
	}
	defer c.close()
	err = c.each(ctx, commandsResync, func() error { return errIdle }, func(r events.CommandRecord) bool {
		if r.Command == nil || r.Seq <= seen[r.Address] {
			return true
		}
		seen[r.Address] = r.Seq
		return yield(r, nil)
	})
	if errors.Is(err, errIdle) {
		return true, nil
	}
	return err != nil, err
}

// command decodes a message of the stream of commands, or says in the log that
// it cannot.
func (l *Log) command(subject string, h nats.Header, data []byte, seq uint64) (r events.CommandRecord, ok bool) {
	_, address, err := events.ParseCommandSubject(subject)
	if err == nil {
		r.Command, err = events.DecodeCommand(data)
	}
	if err != nil {
		l.o.Logger.Warn("undecodable command", "subject", subject, "seq", seq, "err", err)
		return events.CommandRecord{}, false
	}
	r.Address, r.Seq = address, events.Seq(seq)
	r.Command.Trace = events.Trace{Parent: h.Get(headerTraceParent), State: h.Get(headerTraceState)}
	return r, true
}
