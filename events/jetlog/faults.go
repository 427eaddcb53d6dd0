package jetlog

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/errors"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/toolfleet/toolfleet/events"
)

type counter = atomic.Uint64

// What can be wrong with the broker. Errors are marked with them.
var (
	// ErrUnfit says that a stream or bucket has a setting that toolfleet cannot
	// work with. The error is an [*UnfitError].
	ErrUnfit = errors.New("unfit stream")
	// ErrNoJetStream says that JetStream is off, for the server or the account.
	ErrNoJetStream = errors.New("no JetStream")
	// ErrNotPermitted says that the NATS user lacks a permission.
	ErrNotPermitted = errors.New("not permitted")
)

// Codes of JetStream's API that nats.go has no name for.
const (
	codeWrongLastSequence         jetstream.ErrorCode = 10071
	codeWrongLastSequenceConstant jetstream.ErrorCode = 10164 // the same, on a replicated stream
	codeDuplicateInFlight         jetstream.ErrorCode = 10158
	codeStoreFailed               jetstream.ErrorCode = 10077
	codeInsufficientResources     jetstream.ErrorCode = 10023
	codeStorageExceeded           jetstream.ErrorCode = 10047
	codeMessageTooLarge           jetstream.ErrorCode = 10054
	codeStreamNotFound            jetstream.ErrorCode = 10059
)

func apiCode(err error) jetstream.ErrorCode {
	var e *jetstream.APIError
	if errors.As(err, &e) {
		return e.ErrorCode
	}
	// nats.go wraps some API errors in a type of its own.
	var js jetstream.JetStreamError
	if errors.As(err, &js) && js.APIError() != nil {
		return js.APIError().ErrorCode
	}
	return 0
}

// explain marks an error of the broker with what it means, where that is known.
func (l *Log) explain(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, jetstream.ErrJetStreamNotEnabled), errors.Is(err, jetstream.ErrJetStreamNotEnabledForAccount):
		return l.noJetStream(err)
	case apiCode(err) == codeStreamNotFound:
		return errors.Mark(errors.Wrap(err, "the stream was deleted"), events.ErrHistoryRegressed)
	case isTimeout(err):
		// NATS reports a missing permission apart from the request, which then
		// has no answer.
		if last := l.nc.LastError(); last != nil && isPermission(last) && l.denials.isNew(last) {
			return errors.Mark(errors.Wrapf(err, "%s", strings.TrimPrefix(last.Error(), "nats: ")), ErrNotPermitted)
		}
	}
	return err
}

// denials tells a new report of a missing permission from the last one, which a
// connection keeps for ever.
type denials struct {
	mu   sync.Mutex
	last error
}

func (d *denials) isNew(err error) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	known := d.last == err //nolint:errorlint // whether it is the same report, not the same kind
	d.last = err
	return !known
}

func (l *Log) noJetStream(err error) error {
	return errors.Mark(errors.Wrapf(err,
		"JetStream is off at %s: start nats-server with -js, or give the account a jetstream limit",
		l.nc.ConnectedUrlRedacted()), ErrNoJetStream)
}

const (
	// askTimeout bounds a question at first. One that comes while the replicas
	// elect a leader is never answered, and who asked should not be waiting for it
	// when they have.
	askTimeout = time.Second
	// shortAsks is how many questions are short: an election, of up to 9 s, is over
	// by then. Those after them have the time that a slow network needs.
	shortAsks = 10
)

// ask calls f, with a time limit, until there is an answer or the context ends:
// a stream gives none while its replicas elect a leader, or the connection is
// being made again.
func (l *Log) ask(ctx context.Context, f func(context.Context) error) error {
	for n := 0; ; n++ {
		limit := attemptTimeout
		if n < shortAsks {
			limit = askTimeout
		}
		attempt, cancel := context.WithTimeout(ctx, limit)
		err := l.explain(f(attempt))
		cancel()
		if err == nil || !passes(err) {
			return err
		}
		if ended := pause(ctx, retryPause); ended != nil {
			return errors.CombineErrors(ended, err)
		}
	}
}

// passes says whether there may be another answer later.
func passes(err error) bool {
	switch {
	case errors.IsAny(err, ErrNotPermitted, ErrNoJetStream, events.ErrHistoryRegressed), isFull(err):
		return false
	case errors.IsAny(err, nats.ErrNoResponders, nats.ErrReconnectBufExceeded, nats.ErrDisconnected, jetstream.ErrNoStreamResponse):
		return true
	}
	return isTimeout(err) || isTemporary(err)
}

// isTemporary says whether the API's answer may be another one later: it has
// codes in the range of HTTP's 503.
func isTemporary(err error) bool {
	var e *jetstream.APIError
	return errors.As(err, &e) && e.Code == 503
}

func isTimeout(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, nats.ErrTimeout)
}

func isPermission(err error) bool {
	return errors.Is(err, nats.ErrPermissionViolation) || strings.Contains(strings.ToLower(err.Error()), "permissions violation")
}

// isConflict says whether a compare-and-set found something else than it
// expected.
func isConflict(err error) bool {
	code := apiCode(err)
	return code == codeWrongLastSequence || code == codeWrongLastSequenceConstant
}

// isFull says whether the stream, or the storage behind it, has no room.
func isFull(err error) bool {
	switch apiCode(err) {
	case codeInsufficientResources, codeStorageExceeded:
		return true
	case codeStoreFailed:
		return strings.Contains(err.Error(), "maximum bytes")
	}
	return false
}
