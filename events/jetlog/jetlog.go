// Package jetlog keeps a fleet's history on NATS JetStream, and what goes with
// it: commands, leases, blobs, secrets and calls.
//
// # The log
//
// All events of a fleet are in one stream, tf-<fleet>-events, that only grows:
// nothing is ever deleted from it and it has no age limit, so sequences have no
// gaps. Within it every chain (see package events) is a literal subject whose
// events are linked by hashes.
//
// [Log.Append] is a compare-and-set. It states the tip of the chain that the
// decision was made on and either stores the event there, or reports what is
// there instead ([events.ErrConflict]). Answers lost on the way are found
// again: an append that succeeded is reported as success, however often it had
// to be sent, and is stored once.
//
// [Log.Follow] reads stored events and then live ones in one sequence. It takes
// no silence for the end and no gap for an answer: every event is checked
// against its predecessor in the stream and in its chain, and a history that is
// not whole, or not the one read before, ends the sequence with an error.
//
// Reads on which something is decided go to the stream's leader.
//
// # Streams and buckets
//
// [Open] creates what is absent and checks what is present. A setting that the
// log's correctness rests on is refused with its name ([*UnfitError]); one that
// is the operator's choice, such as replicas or limits, is reported
// ([Log.Deviations]). Nothing is ever changed back, deleted or recreated.
//
//	events     the history: no age limit, deny delete and purge, discard new,
//	           8 GiB, duplicate window 10 min, messages up to 512 KiB
//	commands   the last 16 of each address
//	presence   bucket of leases, each key with a TTL of its own
//	sessions   bucket of agent sessions, in memory, keys live 1 min
//	views      bucket of what is folded from the history
//	blobs      object store, by digest
//	secrets    bucket of encrypted values
//
// Each is named tf-<fleet>-<name>; the stream behind a bucket has KV_ in front of
// that, the one behind the object store OBJ_.
//
// # Errors
//
// While a stream has no leader, or the connection is being made again, methods
// wait and try again until their context ends; where nothing else is said, the
// error is then the context's, and these marks end the waiting:
//
//   - [ErrNotPermitted]: the NATS user lacks a permission. NATS does not answer
//     such a request, so it takes up to 5 s to tell.
//   - [ErrNoJetStream]: JetStream is off, for the server or the account.
//   - [events.ErrHistoryRegressed]: the stream was deleted.
//   - [nats.ErrConnectionClosed]: the connection was closed for good.
//
// # Concurrency
//
// A Log may be used by many goroutines. Appends to one chain must be made one
// at a time; two in flight are not lost or mixed up, but one of them conflicts.
package jetlog

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/errors"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/toolfleet/toolfleet/events"
)

// Log is the history of one fleet and the buckets around it.
type Log struct {
	nc    *nats.Conn
	js    jetstream.JetStream
	fleet events.FleetID
	o     Options

	events   jetstream.Stream
	commands jetstream.Stream

	history    events.LogID // at the time of Open
	anchor     anchor
	denials    denials
	deviations []Deviation
	skipped    counter
	inbox      inbox
	blobs      atomic.Pointer[blobStore]
	told       *told
}

// Options of [Open].
type Options struct {
	// Writer is who appends, such as "worker/host-a"; it becomes part of the
	// ce-source of events. Default "client".
	Writer string
	// Replicas of streams and buckets that have to be created, 1 to 5. Default 1.
	Replicas int
	// MaxBytes limits an event stream that has to be created, in bytes. Default
	// [DefaultMaxBytes]; -1 is no limit. Where the store has no room for it, it is
	// halved, down to 64 MiB.
	MaxBytes int64
	// Logger for what is reported and not returned: deviations, undecodable
	// messages, trouble with a lease. Default none.
	Logger *slog.Logger
	// Clock is what leases are measured with: time since some fixed moment, also
	// while the host sleeps. Default [BootClock].
	Clock func() time.Duration
}

// DefaultMaxBytes limits the event stream where Options.MaxBytes does not, in
// bytes: a limit answers cleanly, a full disk does not.
const DefaultMaxBytes = 8 << 30

func (o *Options) withDefaults() Options {
	var d Options
	if o != nil {
		d = *o
	}
	if d.Writer == "" {
		d.Writer = "client"
	}
	if d.Replicas == 0 {
		d.Replicas = 1
	}
	if d.MaxBytes == 0 {
		d.MaxBytes = DefaultMaxBytes
	}
	if d.Logger == nil {
		d.Logger = slog.New(slog.DiscardHandler)
	}
	if d.Clock == nil {
		d.Clock = bootClock
	}
	return d
}

// Open returns the log of a fleet. Streams and buckets that are absent are
// created; those that are present are checked. It tries until the context ends.
//
// The connection stays the caller's: closing it ends the log, which needs no
// other end. It should be one of [Connect] or [Embedded.Connect]: a connection
// that keeps what is published during an outage, as nats.go does by itself,
// sends it later.
//
// Its errors are marked [ErrUnfit] (a setting that the log cannot work with),
// [ErrNoJetStream], [ErrNotPermitted], [events.ErrInvalidID] (the fleet's), or
// are NATS's own, such as that of a server without room for the limit.
func Open(ctx context.Context, nc *nats.Conn, fleet events.FleetID, o *Options) (*Log, error) {
	if _, err := events.ParseFleetID(string(fleet)); err != nil {
		return nil, err
	}
	js, err := jetstream.New(nc)
	if err != nil {
		return nil, errors.Wrap(err, "open log")
	}
	l := &Log{nc: nc, js: js, fleet: fleet, o: o.withDefaults()}
	l.told = newTold(l.o.Writer)
	l.denials.last = nc.LastError()
	if err := l.openStreams(ctx); err != nil {
		return nil, errors.Wrapf(err, "open log of fleet %s", fleet)
	}
	l.history = events.NewLogID(l.events.CachedInfo().Created, 0)
	for _, d := range l.deviations {
		l.o.Logger.Info("a setting is not the default", "stream", d.String())
	}
	return l, nil
}

// Fleet returns the fleet whose log it is.
func (l *Log) Fleet() events.FleetID { return l.fleet }

// Conn returns the connection that the log uses.
func (l *Log) Conn() *nats.Conn { return l.nc }

// Deviations returns the settings of streams and buckets that differed from what
// Open would have created, when it looked, and are the operator's to choose:
// replicas, max bytes and compression.
func (l *Log) Deviations() []Deviation { return l.deviations }

// Skipped returns how many undecodable events this Log has yielded so far, to
// all its readers together.
func (l *Log) Skipped() uint64 { return l.skipped.Load() }

// Head returns the end of the history, as the stream's leader has it. While
// there is no leader it waits for one, until the context ends. The history is
// that of the stream that is there now, which need not be the one that was there
// when the log was opened: see [events.Head.Check].
func (l *Log) Head(ctx context.Context) (events.Head, error) {
	var info *jetstream.StreamInfo
	err := l.ask(ctx, func(ctx context.Context) (err error) {
		info, err = l.events.Info(ctx)
		return err
	})
	if err != nil {
		return events.Head{}, errors.Wrapf(err, "read the head of %s", l.stream("events"))
	}
	h := events.Head{
		Log:   events.NewLogID(info.Created, 0),
		Seq:   events.Seq(info.State.LastSeq),
		Count: info.State.Msgs,
		Bytes: info.State.Bytes,
	}
	if info.Config.MaxBytes > 0 {
		h.MaxBytes = uint64(info.Config.MaxBytes)
	}
	return h, nil
}

// stream returns the name of one of the fleet's streams or buckets.
func (l *Log) stream(what string) string { return StreamName(l.fleet, what) }

// StreamName returns the name of a fleet's stream ("events", "commands") or
// bucket ("presence", "sessions", "views", "blobs", "secrets").
func StreamName(f events.FleetID, what string) string { return "tf-" + string(f) + "-" + what }
