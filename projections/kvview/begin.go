package kvview

import (
	"context"
	"time"

	"github.com/cockroachdb/errors"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/events/jetlog"
	"github.com/toolfleet/toolfleet/projections"
)

// retryPause is how long a writer or reader waits before it asks a broker that
// did not answer again.
const retryPause = 250 * time.Millisecond

// pause waits, or returns the context's error.
func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// isLasting says whether asking again cannot help.
func isLasting(err error) bool {
	return errors.IsAny(err, events.ErrHistoryRegressed, jetlog.ErrNotPermitted, jetlog.ErrNoJetStream,
		jetstream.ErrStreamNotFound, nats.ErrConnectionClosed, nats.ErrMaxPayload, ErrNoViews)
}

// begin makes the run ready to follow the history after the position that it
// returns. It waits out what passes.
func (p *projector) begin(ctx context.Context) (events.Seq, error) {
	for {
		after, newer, err := p.tryBegin(ctx)
		switch {
		case err == nil && !newer:
			return after, nil
		case newer:
			p.o.Logger.Warn("views are left to a newer version",
				"err", errors.Newf("they are of fold %d, this build has %d", p.bucket.position.Fold, projections.Version))
			err = pause(ctx, Heartbeat)
		case !isLasting(err) && ctx.Err() == nil:
			p.o.Logger.Debug("views cannot be read", "err", err)
			err = pause(ctx, retryPause)
		}
		if err != nil {
			return 0, err
		}
	}
}

// tryBegin decides from what is stored, and from the end of the history, how to
// begin. Newer says that a newer version of the folds owns the views.
func (p *projector) tryBegin(ctx context.Context) (after events.Seq, newer bool, err error) {
	stored := storedViews{ends: make(map[events.LogID]events.Seq)}
	damaged, err := p.bucket.readAll(ctx, stored.take)
	if err != nil {
		return 0, false, err
	}
	// Only now: entries may be as new as the moment they were read.
	head, err := p.log.Head(ctx)
	if err != nil {
		return 0, false, err
	}
	position := p.bucket.position
	if position.Fold > projections.Version {
		return 0, true, nil
	}
	p.id, p.source = stored.choose(position, &head, p.distrusted), head.Log
	p.resumed = p.id == position.Log && position.Fold == projections.Version && damaged+stored.damaged == 0 && !p.scratch
	switch {
	case p.id != position.Log && position.Log != "":
		p.o.Logger.Error("the stored views are of another history, or of one that lost its end",
			"seq", uint64(position.Seq), "err", events.ErrHistoryRegressed)
	case damaged+stored.damaged > 0:
		p.o.Logger.Error("stored views are damaged and folded anew")
	}
	p.history, p.dirty, p.behindSince = new(projections.History), make(map[events.Chain]struct{}), time.Time{}
	p.target, p.pass, p.beatRevision = head.Seq, position.Pass, p.bucket.positionRevision
	p.swept, p.scratch, p.distrusted = false, false, false
	p.folded = 0
	if p.resumed {
		p.history.Adopt(stored.of(p.id)...)
		p.history.AdvanceTo(position.Seq)
		p.folded = position.Seq
	}
	if p.folded == head.Seq || !p.resumed {
		p.behindSince, p.behindSeq = time.Now(), p.folded // there may be something to sweep
	}
	// The last event that was folded is read again: it proves that the history
	// still is the one that was.
	return max(p.folded, 1) - 1, false, nil
}

// storedViews are the states in the bucket that this version of the folds can
// go on with, and what is known of the others.
type storedViews struct {
	states []storedState
	// ends are the greatest positions of each history's entries.
	ends    map[events.LogID]events.Seq
	damaged int
}

type storedState struct {
	log   events.LogID
	state any
}

func (v *storedViews) take(k key, raw *projections.RawEntry) error {
	v.ends[raw.Log] = max(v.ends[raw.Log], raw.Seq)
	if raw.Fold != projections.Version || k.kind.isList() {
		return nil
	}
	s, err := decodeState(k, raw)
	if err != nil {
		v.damaged++
		return nil // begin tells how many
	}
	v.states = append(v.states, storedState{raw.Log, s})
	return nil
}

// trust takes no entry to be of another history because it claims to be ahead.
func (v *storedViews) trust(end events.Seq) {
	for id, seq := range v.ends {
		v.ends[id] = min(seq, end)
	}
}

// of returns the states of one history.
func (v *storedViews) of(id events.LogID) (states []any) {
	for _, s := range v.states {
		if s.log == id {
			states = append(states, s.state)
		}
	}
	return states
}

// choose returns the id under which the history is to be folded: that of the
// stored views if they can be of this history, or else one that is greater than
// all that are stored.
func (v *storedViews) choose(position Position, head *events.Head, distrusted bool) events.LogID {
	if position.source() == head.Log && position.Seq <= head.Seq && v.ends[position.Log] <= head.Seq && !distrusted {
		return position.Log
	}
	greatest := position.Log
	for id := range v.ends {
		greatest = max(greatest, id)
	}
	switch {
	case head.Log > greatest:
		return head.Log
	case greatest > position.Log && v.ends[greatest] <= head.Seq:
		return greatest // someone began with it, and did not come to an end
	default:
		return greatest.Regressed()
	}
}

// decodeState returns a pointer to the state in an entry.
func decodeState(k key, raw *projections.RawEntry) (any, error) {
	switch k.kind {
	case serverKey:
		return decodeAs[projections.Server](raw)
	case statusKey:
		return decodeAs[projections.Instance](raw)
	case workerKey:
		return decodeAs[projections.Worker](raw)
	default:
		return decodeAs[projections.Fleet](raw)
	}
}

func decodeAs[S any](raw *projections.RawEntry) (any, error) {
	e, err := projections.DecodeValue[S](raw)
	if err != nil {
		return nil, err
	}
	return &e.Value, nil
}
