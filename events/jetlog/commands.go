package jetlog

import (
	"context"
	"iter"
	"time"

	"github.com/cockroachdb/errors"
	"github.com/google/uuid"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/toolfleet/toolfleet/events"
)

// PutCommand makes c the desired state of an address. Seen is the sequence of
// the address's last command as the caller knows it, or 0: when another one is
// there, nothing is stored and the error is marked [events.ErrConflict]. It
// tries until the context ends and returns the command's sequence; its other
// errors are those of [Log.Append].
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

// LastCommands returns the last command of every address, in no order.
// Commands that cannot be decoded are left out and logged.
func (l *Log) LastCommands(ctx context.Context) ([]events.CommandRecord, error) {
	all, err := l.lastCommands(ctx)
	return all, errors.Wrap(err, "read the last commands")
}

func (l *Log) lastCommands(ctx context.Context) (all []events.CommandRecord, err error) {
	c, err := consume(ctx, l, l.commands, lastOf(events.CommandPrefix(l.fleet)+">"), l.command)
	if err != nil {
		return nil, err
	}
	defer c.close()
	if c.pending == 0 {
		return nil, nil
	}
	silent := func() error { return errors.Newf("no answer for %s", stallLimit) }
	err = c.each(ctx, stallLimit, silent, func(x command) bool {
		if x.Command != nil {
			all = append(all, x.CommandRecord)
		}
		return x.pending > 0
	})
	return all, err
}

// PurgeCommands removes the commands of an address up to a sequence.
func (l *Log) PurgeCommands(ctx context.Context, a events.Address, upTo events.Seq) error {
	err := l.commands.Purge(ctx, jetstream.WithPurgeSubject(a.Subject(l.fleet)), jetstream.WithPurgeSequence(uint64(upTo)+1))
	return errors.Wrapf(l.explain(err), "purge the commands of %s/%s on %s", a.Server, a.Instance, a.Worker)
}

// commandsResync is how often a follower of commands asks again for the last of
// each address, so that one that was missed is not missed for long.
const commandsResync = 30 * time.Second

// FollowCommands returns the last command of each of the worker's addresses,
// then new ones as they come, until the context ends. Commands of one address
// come in order; some that another follows soon may be left out.
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
	c, err := consume(ctx, l, l.commands, lastOf(events.CommandPrefix(l.fleet)+string(w)+".>"), l.command)
	if err != nil {
		return true, err
	}
	defer c.close()
	err = c.each(ctx, commandsResync, func() error { return errIdle }, func(x command) bool {
		if x.Command == nil || x.Seq <= seen[x.Address] {
			return true
		}
		seen[x.Address] = x.Seq
		return yield(x.CommandRecord, nil)
	})
	if errors.Is(err, errIdle) {
		return true, nil
	}
	return err != nil, err
}

func lastOf(filter string) jetstream.ConsumerConfig {
	return jetstream.ConsumerConfig{FilterSubject: filter, DeliverPolicy: jetstream.DeliverLastPerSubjectPolicy}
}

// command is a message of the stream of commands; Command is nil if it cannot
// be decoded.
type command struct {
	events.CommandRecord
	// pending is how many messages followed when it was sent.
	pending uint64
}

func (l *Log) command(m jetstream.Msg) command {
	msg, seq, pending := place(m)
	x := command{pending: pending}
	x.Seq = seq
	var err error
	if _, x.Address, err = events.ParseCommandSubject(msg.Subject); err == nil {
		x.Command, err = events.DecodeCommand(msg.Data)
	}
	if err != nil {
		l.o.Logger.Warn("undecodable command", "subject", msg.Subject, "seq", uint64(seq), "err", err)
		return x
	}
	h := m.Headers()
	x.Command.Trace = events.Trace{Parent: h.Get(headerTraceParent), State: h.Get(headerTraceState)}
	return x
}
