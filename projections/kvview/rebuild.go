package kvview

import (
	"cmp"
	"context"
	"slices"
	"strconv"

	"github.com/cockroachdb/errors"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/events/jetlog"
	"github.com/toolfleet/toolfleet/otel"
	"github.com/toolfleet/toolfleet/projections"
)

// Difference is an entry that is not what the history says.
type Difference struct {
	// Key of the entry.
	Key string
	// Stored is the order of the entry; zero for one that is missing, deleted or
	// damaged.
	Stored projections.Order
	// Folded is what it should be; zero for one that should not be.
	Folded projections.Order
}

// Verify folds the whole history and compares the result with the bucket. Where
// an entry is ahead or behind, because a projector is at work, its own position
// counts; only entries that are not the fold of their events are differences.
func Verify(ctx context.Context, log *jetlog.Log, o *Options) ([]Difference, error) {
	ctx, told := startReplay(ctx, otel.SpanVerify)
	r, err := newRebuilder(ctx, log, o, told)
	told.end(ctx, r, err)
	if err != nil {
		return nil, err
	}
	return r.differences, nil
}

// Rebuild folds the whole history and makes the bucket equal to it: it writes
// what is different, also over entries that claim to be newer, and deletes what
// should not be. It returns what was different. Projectors may run meanwhile: the
// pass that it begins makes them start anew.
func Rebuild(ctx context.Context, log *jetlog.Log, o *Options) ([]Difference, error) {
	ctx, told := startReplay(ctx, otel.SpanRebuild)
	r, err := rebuild(ctx, log, o, told)
	told.end(ctx, r, err)
	if r == nil {
		return nil, err
	}
	return r.differences, err
}

func rebuild(ctx context.Context, log *jetlog.Log, o *Options, told *replay) (*rebuilder, error) {
	r, err := newRebuilder(ctx, log, o, nil)
	if err != nil {
		return nil, err
	}
	// From here on, no writer trusts what it had folded or read before.
	if err := r.raisePass(ctx); err != nil {
		return nil, errors.Wrap(err, "rebuild views")
	}
	if r, err = newRebuilder(ctx, log, o, told); err != nil {
		return nil, err
	}
	return r, errors.Wrap(r.apply(ctx), "rebuild views")
}

// rebuilder is a fold of the whole history, beside what is stored.
type rebuilder struct {
	*projector
	told        *replay // nil if this fold is none to tell of
	head        events.Head
	differences []Difference
	writes      []pending
	leftovers   []key
}

// newRebuilder reads the bucket, folds the history, and compares.
func newRebuilder(ctx context.Context, log *jetlog.Log, o *Options, told *replay) (*rebuilder, error) {
	b, err := openBucket(ctx, log.Conn(), log.Fleet())
	if err != nil {
		return nil, err
	}
	r := &rebuilder{told: told, projector: &projector{log: log, bucket: b, o: o.withDefaults(), blobs: newBlobCache(log)}}
	views := storedViews{ends: make(map[events.LogID]events.Seq)}
	digests := make(map[key]events.Digest)
	_, err = b.readAll(ctx, func(k key, raw *projections.RawEntry) error {
		digests[k] = raw.Digest
		return views.take(k, raw)
	})
	if err == nil {
		r.head, err = log.Head(ctx)
	}
	if err != nil {
		return nil, errors.Wrap(err, "read views")
	}
	position := b.position
	position.Seq = min(position.Seq, r.head.Seq)
	views.trust(r.head.Seq) // what claims too much is what is to be mended
	r.id, r.source, r.pass = views.choose(position, &r.head, false), r.head.Log, b.position.Pass
	r.history, r.dirty = new(projections.History), make(map[events.Chain]struct{})
	return r, r.compare(ctx, digests)
}

// compare folds the history and notes what is different. An entry behind the
// end of the history is compared with what it was at the entry's own position.
func (r *rebuilder) compare(ctx context.Context, stored map[key]events.Digest) error {
	due := make(map[events.Seq][]key)
	for k, s := range r.bucket.stored {
		if s.order.Log == r.id && s.order.Fold == projections.Version {
			due[s.order.Seq] = append(due[s.order.Seq], k)
		}
	}
	right := make(map[key]bool)
	check := func(seq events.Seq) error {
		for _, k := range due[seq] {
			same, err := r.same(ctx, k, seq, stored[k])
			if err != nil {
				return err
			}
			right[k] = same
		}
		return nil
	}
	if err := check(0); err != nil {
		return err
	}
	for e, err := range r.log.Follow(ctx, 0, &jetlog.FollowOptions{Log: r.source, Until: r.head.Seq}) {
		if err == nil {
			r.history.Apply(e)
			r.o.Seen(&e)
			r.told.saw(&e)
			err = check(e.Seq)
		}
		if err != nil {
			return errors.Wrap(err, "fold the history")
		}
	}
	if ctx.Err() != nil {
		return errors.Wrap(context.Cause(ctx), "fold the history")
	}
	r.judge(ctx, right)
	return nil
}

// same says whether an entry at seq, up to which the history is folded, is what
// it should be.
func (r *rebuilder) same(ctx context.Context, k key, seq events.Seq, stored events.Digest) (bool, error) {
	w := r.tombstone(k)
	if seq > 0 {
		w = r.entry(ctx, k)
	}
	if w.order.Seq != seq || w.encode == nil {
		return false, nil
	}
	data, err := w.encode()
	if err != nil {
		return false, err
	}
	raw, err := projections.DecodeRaw(data)
	if err != nil {
		return false, err // unreachable: it was just encoded
	}
	return raw.Digest == stored, nil
}

// entry returns the entry of a key as the history now has it; the zero pending if
// it has none.
func (r *rebuilder) entry(ctx context.Context, k key) pending {
	c := k.chain()
	if r.history.Tip(c).Seq == 0 {
		return pending{}
	}
	if k.kind.isList() {
		return r.listOf(ctx, k.kind, r.history.Instance(c.Server(), c.Instance()))
	}
	return r.stateOf(c)
}

// judge sorts all keys into those that are right, those that have to be written,
// and those that have to go.
func (r *rebuilder) judge(ctx context.Context, right map[key]bool) {
	for c := range r.history.Tips() {
		r.dirty[c] = struct{}{}
	}
	expected := make(map[key]bool)
	for _, w := range r.changed(ctx) {
		expected[w.key] = true
		s := r.bucket.stored[w.key]
		if right[w.key] && s.order == w.order {
			continue
		}
		r.writes = append(r.writes, w)
		if late := w.order.Seq > r.bucket.position.Seq; right[w.key] && late {
			continue // a projector will come to it
		}
		r.differences = append(r.differences, Difference{w.key.String(), s.order, w.order})
	}
	for k, s := range r.bucket.stored {
		if !expected[k] && !right[k] && (s.damaged || s.order != (projections.Order{})) {
			r.differences = append(r.differences, Difference{Key: k.String(), Stored: s.order})
			r.leftovers = append(r.leftovers, k)
		}
	}
	slices.SortFunc(r.differences, func(a, b Difference) int { return cmp.Compare(a.Key, b.Key) })
}

// raisePass begins a pass.
func (r *rebuilder) raisePass(ctx context.Context) error {
	for {
		at := r.bucket.position
		at.Pass++
		err := r.bucket.putPosition(ctx, at)
		if err == nil || !isConflict(err) {
			return err
		}
		if err := r.bucket.lookAtPosition(ctx); err != nil {
			return err
		}
	}
}

// apply writes what is different, deletes what should not be, and sets the
// position.
func (r *rebuilder) apply(ctx context.Context) (err error) {
	if r.line, err = openLine(r.log.Conn()); err != nil {
		return err
	}
	defer r.line.close()
	for _, w := range r.writes {
		s := r.bucket.stored[w.key]
		s.order = projections.Order{} // whatever it claims
		r.bucket.stored[w.key] = s
	}
	if err := r.store(ctx, r.writes); err != nil {
		return err
	}
	for _, k := range slices.SortedFunc(slices.Values(r.leftovers), func(a, b key) int { return cmp.Compare(a.String(), b.String()) }) {
		if err := r.bucket.remove(ctx, k); err != nil && !isConflict(err) {
			return errors.Wrapf(err, "delete view %s", k)
		}
	}
	if r.bucket.position == r.position() {
		return nil
	}
	if err := r.bucket.putPosition(ctx, r.position()); err != nil && !isConflict(err) {
		return err // a conflict is a projector's, which came further
	}
	return nil
}

// remove deletes a key if it still is what was last seen.
func (b *bucket) remove(ctx context.Context, k key) error {
	ctx, cancel := context.WithTimeout(ctx, ackTimeout)
	defer cancel()
	m := &nats.Msg{Subject: b.prefix + k.String(), Header: nats.Header{"KV-Operation": {"DEL"}}}
	m.Header.Set(jetstream.ExpectedLastSubjSeqHeader, strconv.FormatUint(b.stored[k].revision, 10))
	_, err := b.js.PublishMsg(ctx, m)
	return err
}
