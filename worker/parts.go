package worker

import (
	"context"
	"iter"
	"log/slog"
	"net"
	"os"
	"time"

	"github.com/cockroachdb/errors"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/events/callwire"
	"github.com/toolfleet/toolfleet/worker/keeper"
)

// Parts is what a worker stands on. All but Secrets and Spawner are needed.
type Parts struct {
	Journal Journal
	Inbox   Inbox
	Lease   Lease
	Blobs   Blobs
	// Secrets may be nil: then no reference to a secret has a value.
	Secrets Secrets
	Calls   Calls
	// Spawner starts the processes of stdio servers. Default [keeper.Direct],
	// which ends nothing when the worker dies.
	Spawner Spawner
}

// Spawner starts processes. A [*keeper.Keeper] is one.
type Spawner interface {
	// Spawn starts a program and waits for that until the context ends. An error
	// marked [keeper.ErrLapsed] says that the lease is over.
	Spawn(ctx context.Context, p *keeper.Program) (*keeper.Child, error)
}

// Journal is where a worker writes what happens, and reads its own chains.
type Journal interface {
	// Append stores an event after the tip of its chain. Its errors are marked
	// with those of package events.
	Append(ctx context.Context, e events.Event, tip events.Tip) (events.Record, error)
	// ReadChain returns a chain's events after a tip, up to the last there is.
	ReadChain(ctx context.Context, c events.Chain, after events.Tip) iter.Seq2[events.Record, error]
}

// Inbox is where commands come from.
type Inbox interface {
	// FollowCommands returns the last command of each of the worker's addresses,
	// then new ones as they come, until the context ends or an error is fatal.
	FollowCommands(ctx context.Context, w events.WorkerID) iter.Seq2[events.CommandRecord, error]
}

// Lease is the worker's right to run anything.
type Lease interface {
	// Remaining returns the time until its end; it is over at 0 and below.
	Remaining() time.Duration
}

// Blobs holds what is too large for an event, by digest.
type Blobs interface {
	PutBlob(ctx context.Context, data []byte) (events.Digest, error)
	GetBlob(ctx context.Context, d events.Digest) ([]byte, error)
}

// Secrets resolves references.
type Secrets interface {
	// Get returns the value of a whole reference, "${secret:server/key#1}".
	Get(ctx context.Context, ref string) (string, error)
}

// CallHandler answers one call. Its context ends when the caller cancels or
// falls silent, and with the call's time limit. What send is given, and the
// result, are raw JSON; an error is a [*callwire.Error].
type CallHandler = func(ctx context.Context, r *callwire.Request, send func(callwire.FrameKind, []byte)) ([]byte, error)

// Calls receives calls.
type Calls interface {
	// ServeCalls answers the calls to a subject until the context ends, then
	// waits for those that are running.
	ServeCalls(ctx context.Context, subject string, h CallHandler) error
}

// Options of [Run].
type Options struct {
	// Fleet. Default [events.DefaultFleet].
	Fleet events.FleetID
	// ID of the worker, and Incarnation of this run of it. Both are needed.
	ID          events.WorkerID
	Incarnation events.Incarnation
	// Host is the name of the host. Default what the system says.
	Host string
	// What the worker says of itself when it joins: see [events.Joined].
	Labels     map[string]string
	Versions   map[string]string
	Capacity   int
	Recipients []string

	// Env is the worker's environment: what variables are resolved with, and a
	// few are inherited from. Default [os.LookupEnv].
	Env func(name string) (string, bool)
	// Dial connects to the hosts of remote servers. Default a [net.Dialer].
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Logs is the folder for what servers write to stderr and send as log
	// messages, in two files of 1 MiB at most for each instance. Default "": that
	// is not kept.
	Logs string
	// Leave, if not nil, is closed when the worker is to go once its instances are
	// taken over; see [Run]. When the context ends it goes in any case.
	Leave <-chan struct{}
	// Limits of time and number.
	Limits Limits
	// Logger for what is not an event. Default none.
	Logger *slog.Logger
	// Tracer makes the spans of attempts, of the ends of connections, and of calls.
	// Default none.
	Tracer trace.Tracer
}

// Limits bound what a worker waits for, and how much it does at once.
type Limits struct {
	// Drain is how long calls in flight have to end before their instance is
	// closed. Default 30 s.
	Drain time.Duration
	// Handover is how long a worker that is to leave goes on with instances that
	// are not taken over. Default 30 s.
	Handover time.Duration
	// LastWords is how long a worker that goes tries to say so when everything
	// is stopped. Default 5 s.
	LastWords time.Duration
	// Calls is how many calls of one instance are in flight; others wait.
	// Default 64.
	Calls int
}

func (o *Options) withDefaults(p *Parts) (Options, error) {
	var d Options
	if o != nil {
		d = *o
	}
	if _, err := events.ParseWorkerID(string(d.ID)); err != nil {
		return d, err
	}
	if d.Incarnation == "" {
		return d, errors.New("worker needs an incarnation")
	}
	if p.Journal == nil || p.Inbox == nil || p.Lease == nil || p.Blobs == nil || p.Calls == nil {
		return d, errors.New("worker lacks one of its parts")
	}
	if p.Spawner == nil {
		p.Spawner = keeper.Direct{}
	}
	if d.Fleet == "" {
		d.Fleet = events.DefaultFleet
	}
	if d.Host == "" {
		d.Host, _ = os.Hostname() // unknown is ""
	}
	if d.Env == nil {
		d.Env = os.LookupEnv
	}
	if d.Dial == nil {
		d.Dial = (&net.Dialer{Timeout: dialLimit}).DialContext
	}
	if d.Limits.Drain == 0 {
		d.Limits.Drain = 30 * time.Second
	}
	if d.Limits.Handover == 0 {
		d.Limits.Handover = 30 * time.Second
	}
	if d.Limits.LastWords == 0 {
		d.Limits.LastWords = 5 * time.Second
	}
	if d.Limits.Calls == 0 {
		d.Limits.Calls = 64
	}
	if d.Logger == nil {
		d.Logger = slog.New(slog.DiscardHandler)
	}
	if d.Tracer == nil {
		d.Tracer = noop.NewTracerProvider().Tracer("")
	}
	return d, nil
}
