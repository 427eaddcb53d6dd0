package eventstest

import (
	"bytes"
	"context"
	"iter"
	"slices"

	"github.com/cockroachdb/errors"

	"github.com/toolfleet/toolfleet/events"
)

// commandStore holds all commands that were not purged, in order.
type commandStore struct {
	last events.Seq
	kept []storedCommand
}

type storedCommand struct {
	address events.Address
	seq     events.Seq
	data    []byte
	trace   events.Trace
}

func (c *storedCommand) record() (events.CommandRecord, error) {
	command, err := events.DecodeCommand(c.data)
	if err != nil {
		return events.CommandRecord{}, err // unreachable unless it was encoded wrongly
	}
	command.Trace = c.trace
	return events.CommandRecord{Address: c.address, Command: command, Seq: c.seq}, nil
}

// lastOf returns the last command of each address that is wanted, in order.
func (s *commandStore) lastOf(wanted func(*storedCommand) bool) []storedCommand {
	var all []storedCommand
	seen := make(map[events.Address]bool)
	for _, c := range slices.Backward(s.kept) {
		if !seen[c.address] && wanted(&c) {
			seen[c.address] = true
			all = append(all, c)
		}
	}
	slices.Reverse(all)
	return all
}

// PutCommand is as that of package jetlog.
func (l *MemoryLog) PutCommand(ctx context.Context, a events.Address, c *events.Command, seen events.Seq) (seq events.Seq, err error) {
	data, err := events.EncodeCommand(c)
	if err != nil {
		return 0, err
	}
	var found events.Seq
	err = l.m.write(ctx, func() {
		s := &l.m.commands
		for _, x := range s.lastOf(func(x *storedCommand) bool { return x.address == a }) {
			found = x.seq
		}
		if found != seen {
			return
		}
		s.last++
		seq = s.last
		s.kept = append(s.kept, storedCommand{a, seq, data, c.Trace})
	})
	if err != nil {
		return 0, errors.Wrapf(errors.Mark(err, events.ErrUncertain), "command %s after %d", c.Want, seen)
	}
	if seq == 0 {
		return 0, errors.Mark(errors.Newf("command %s after %d: command %d is there", c.Want, seen, found), events.ErrConflict)
	}
	return seq, nil
}

// LastCommands is as that of package jetlog.
func (l *MemoryLog) LastCommands(ctx context.Context) ([]events.CommandRecord, error) {
	var last []storedCommand
	err := l.m.once(ctx, func() {
		last = l.m.commands.lastOf(func(*storedCommand) bool { return true })
	})
	if err != nil {
		return nil, errors.Wrap(err, "read the last commands")
	}
	all := make([]events.CommandRecord, 0, len(last))
	for _, c := range last {
		r, err := c.record()
		if err != nil {
			return nil, err
		}
		all = append(all, r)
	}
	return all, nil
}

// FollowCommands is as that of package jetlog.
func (l *MemoryLog) FollowCommands(ctx context.Context, w events.WorkerID) iter.Seq2[events.CommandRecord, error] {
	return func(yield func(events.CommandRecord, error) bool) {
		var seen events.Seq
		for ctx.Err() == nil {
			var fresh []storedCommand
			err := l.m.look(ctx, func() bool {
				fresh = l.m.commands.lastOf(func(c *storedCommand) bool { return c.address.Worker == w && c.seq > seen })
				return len(fresh) > 0
			})
			if err != nil {
				return // the context ended
			}
			for _, c := range fresh {
				seen = c.seq
				if r, err := c.record(); !yield(r, err) {
					return
				}
			}
		}
	}
}

// PurgeCommands is as that of package jetlog.
func (l *MemoryLog) PurgeCommands(ctx context.Context, a events.Address, upTo events.Seq) error {
	return l.m.write(ctx, func() {
		l.m.commands.kept = slices.DeleteFunc(l.m.commands.kept, func(c storedCommand) bool {
			return c.address == a && c.seq <= upTo
		})
	})
}

// PutBlob is as that of package jetlog.
func (l *MemoryLog) PutBlob(ctx context.Context, data []byte) (events.Digest, error) {
	d := events.DigestOf(data)
	err := l.m.write(ctx, func() { l.m.blobs[d] = bytes.Clone(data) })
	return d, errors.Wrapf(err, "put blob %s", d)
}

// GetBlob is as that of package jetlog.
func (l *MemoryLog) GetBlob(ctx context.Context, d events.Digest) ([]byte, error) {
	var data []byte
	var ok bool
	if err := l.m.once(ctx, func() { data, ok = l.m.blobs[d] }); err != nil {
		return nil, errors.Wrapf(err, "get blob %s", d)
	}
	if !ok {
		return nil, errors.Newf("get blob %s: there is none", d)
	}
	return bytes.Clone(data), nil
}
