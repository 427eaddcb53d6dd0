package eventstest

import (
	"context"
	"iter"

	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/events/jetlog"
)

// Log is all that toolfleet asks of a log, in one interface, so that
// [Conformance] can be run on any. What is built on a log declares the one to
// three methods that it uses.
type Log interface {
	Append(ctx context.Context, e events.Event, tip events.Tip) (events.Record, error)
	ReadChain(ctx context.Context, c events.Chain, after events.Tip) iter.Seq2[events.Record, error]
	Follow(ctx context.Context, after events.Seq, o *jetlog.FollowOptions) iter.Seq2[events.Record, error]
	Head(ctx context.Context) (events.Head, error)

	PutCommand(ctx context.Context, a events.Address, c *events.Command, seen events.Seq) (events.Seq, error)
	LastCommands(ctx context.Context) ([]events.CommandRecord, error)
	FollowCommands(ctx context.Context, w events.WorkerID) iter.Seq2[events.CommandRecord, error]
	PurgeCommands(ctx context.Context, a events.Address, upTo events.Seq) error

	PutBlob(ctx context.Context, data []byte) (events.Digest, error)
	GetBlob(ctx context.Context, d events.Digest) ([]byte, error)
}

var (
	_ Log = (*jetlog.Log)(nil)
	_ Log = (*MemoryLog)(nil)
)
