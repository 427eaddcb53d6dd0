package jetlog

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/cockroachdb/errors"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/toolfleet/toolfleet/events"
)

const (
	// maxMsgSize is the stream's limit for a message; an event's body is a
	// little smaller, to leave room for headers.
	maxMsgSize = 512 << 10
	// leastMaxBytes is the smallest limit that a stream is created with instead of
	// a larger one.
	leastMaxBytes = 64 << 20
	// duplicateWindow must be longer than any retry of an append.
	duplicateWindow = 10 * time.Minute
	// commandsKept a subject: only the last counts, the others are for people.
	commandsKept = 16
)

func eventsConfig(f events.FleetID, o *Options) jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name:        StreamName(f, "events"),
		Description: "toolfleet: the history of fleet " + string(f),
		Subjects:    []string{events.EventPrefix(f) + ">"},
		Storage:     jetstream.FileStorage,
		Compression: jetstream.S2Compression,
		Replicas:    o.Replicas,
		MaxBytes:    o.MaxBytes,
		MaxMsgSize:  maxMsgSize,
		Discard:     jetstream.DiscardNew,
		DenyDelete:  true,
		DenyPurge:   true,
		Duplicates:  duplicateWindow,
	}
}

func commandsConfig(f events.FleetID, o *Options) jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name:              StreamName(f, "commands"),
		Description:       "toolfleet: the desired state of fleet " + string(f),
		Subjects:          []string{events.CommandPrefix(f) + ">"},
		Storage:           jetstream.FileStorage,
		Replicas:          o.Replicas,
		MaxMsgsPerSubject: commandsKept,
		Discard:           jetstream.DiscardOld,
	}
}

// openStreams creates what is absent and checks what is present, all side by
// side. Of several faults it returns the first in the order of the streams: they
// often have one cause.
func (l *Log) openStreams(ctx context.Context) error {
	configs := append([]jetstream.StreamConfig{eventsConfig(l.fleet, &l.o), commandsConfig(l.fleet, &l.o)},
		bucketConfigs(l.fleet, l.o.Replicas)...)
	opened := make([]openedStream, len(configs))
	var all sync.WaitGroup
	for i, c := range configs {
		all.Go(func() { opened[i] = l.ensure(ctx, c, i == 0) })
	}
	all.Wait()
	for i := range opened {
		if err := opened[i].err; err != nil {
			return err
		}
		l.deviations = append(l.deviations, opened[i].deviations...)
	}
	l.events, l.commands = opened[0].Stream, opened[1].Stream
	return nil
}

// openedStream is a stream that was ensured, or why it could not be.
type openedStream struct {
	jetstream.Stream
	deviations []Deviation
	err        error
}

// Deviation is a setting of a stream that is not the default. All are text for
// people; Stream is the stream's name, also where it is that of a bucket.
type Deviation struct{ Stream, Setting, Have, Want string }

// String returns "<stream> has <setting> <have> instead of <want>".
func (d Deviation) String() string {
	return fmt.Sprintf("%s has %s %s instead of %s", d.Stream, d.Setting, d.Have, d.Want)
}

// UnfitError names a setting that toolfleet cannot work with.
type UnfitError Deviation

// Error names the stream, the setting, what it must be, and what to do.
func (e *UnfitError) Error() string {
	return fmt.Sprintf("stream %s has %s %s, but it must be %s: correct it with `nats stream edit`, or move the stream away",
		e.Stream, e.Setting, e.Have, e.Want)
}

// Is makes every UnfitError an [ErrUnfit].
func (e *UnfitError) Is(target error) bool { return target == ErrUnfit }

// ensure returns the stream, created with the configuration if it is absent. A
// present one must agree in the settings that correctness rests on, which are
// more for one that keeps everything.
func (l *Log) ensure(ctx context.Context, want jetstream.StreamConfig, keepsAll bool) (o openedStream) {
	o.err = l.ask(ctx, func(ctx context.Context) (err error) {
		o.Stream, err = l.create(ctx, want)
		return err
	})
	if o.err != nil {
		o.err = errors.Wrapf(o.err, "stream %s", want.Name)
		return o
	}
	have := o.CachedInfo().Config
	required := essentials(&have, &want)
	if keepsAll {
		required = append(required, grows(&have, &want)...)
	}
	for _, x := range required {
		if x.have != x.want {
			o.err = errors.WithStack(&UnfitError{want.Name, x.name, x.have, x.want})
			return o
		}
	}
	for _, x := range choices(&have, &want) {
		if x.have != x.want {
			o.deviations = append(o.deviations, Deviation{want.Name, x.name, x.have, x.want})
		}
	}
	return o
}

// create returns the stream that is there, or else a new one. A stream reserves
// its limit of bytes: one that the store has no room for is halved, down to
// leastMaxBytes.
func (l *Log) create(ctx context.Context, want jetstream.StreamConfig) (jetstream.Stream, error) {
	s, err := l.js.Stream(ctx, want.Name)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		s, err = l.js.CreateStream(ctx, want)
		for isNoRoom(err) && want.MaxBytes/2 >= leastMaxBytes {
			want.MaxBytes /= 2
			s, err = l.js.CreateStream(ctx, want)
		}
		if errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) {
			s, err = l.js.Stream(ctx, want.Name) // someone else was faster
		}
	}
	switch {
	case errors.Is(err, nats.ErrNoResponders):
		return nil, l.noJetStream(err)
	case isNoRoom(err):
		return nil, errors.Mark(errors.Wrap(err,
			"the store has no room for the stream: raise the storage limit of the server or account, or make other streams smaller"),
			events.ErrHistoryFull)
	}
	return s, err
}

// isNoRoom says whether a stream was refused because its limit cannot be
// reserved.
func isNoRoom(err error) bool {
	code := apiCode(err)
	return code == codeStorageExceeded || code == codeInsufficientResources
}

// setting is one setting of a stream, as text for people.
type setting struct{ name, have, want string }

func compare(name string, have, want any) setting {
	return setting{name, fmt.Sprint(have), fmt.Sprint(want)}
}

// essentials are the settings that no part of toolfleet works without.
func essentials(have, want *jetstream.StreamConfig) []setting {
	return []setting{
		compare("subjects", sorted(have.Subjects), sorted(want.Subjects)),
		compare("retention", have.Retention, want.Retention),
		compare("discard", have.Discard, want.Discard),
		compare("max age", have.MaxAge, want.MaxAge),
		compare("max messages", unlimited(have.MaxMsgs), unlimited(want.MaxMsgs)),
		compare("max messages per subject", unlimited(have.MaxMsgsPerSubject), unlimited(want.MaxMsgsPerSubject)),
		compare("allow direct", have.AllowDirect, want.AllowDirect),
		compare("allow rollup", have.AllowRollup, want.AllowRollup),
		compare("allow message TTL", have.AllowMsgTTL, want.AllowMsgTTL),
		compare("subject delete marker TTL", have.SubjectDeleteMarkerTTL, want.SubjectDeleteMarkerTTL),
		compare("no ack", have.NoAck, want.NoAck),
		compare("sealed", have.Sealed, want.Sealed),
		compare("mirror", have.Mirror != nil, want.Mirror != nil),
		compare("sources", len(have.Sources), len(want.Sources)),
		compare("subject transform", have.SubjectTransform != nil, want.SubjectTransform != nil),
	}
}

// grows are the settings that keep a stream from losing anything, or from
// taking one event twice.
func grows(have, want *jetstream.StreamConfig) []setting {
	s := []setting{
		compare("storage", have.Storage, want.Storage),
		compare("deny delete", have.DenyDelete, want.DenyDelete),
		compare("deny purge", have.DenyPurge, want.DenyPurge),
	}
	if have.Duplicates < want.Duplicates {
		s = append(s, compare("duplicate window", have.Duplicates, "at least "+want.Duplicates.String()))
	}
	if have.MaxMsgSize > 0 && have.MaxMsgSize < want.MaxMsgSize {
		s = append(s, compare("max message size", have.MaxMsgSize, fmt.Sprintf("at least %d", want.MaxMsgSize)))
	}
	return s
}

// choices are the operator's.
func choices(have, want *jetstream.StreamConfig) []setting {
	return []setting{
		compare("replicas", have.Replicas, want.Replicas),
		compare("max bytes", unlimited(have.MaxBytes), unlimited(want.MaxBytes)),
		compare("compression", have.Compression, want.Compression),
	}
}

func sorted(s []string) string { return strings.Join(slices.Sorted(slices.Values(s)), " ") }

// unlimited makes the two forms of "no limit" one.
func unlimited(n int64) int64 {
	if n <= 0 {
		return -1
	}
	return n
}
