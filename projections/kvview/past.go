package kvview

import (
	"context"
	"iter"
	"log/slog"
	"sync"
	"time"

	"github.com/cockroachdb/errors"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/toolfleet/toolfleet/events"
	"github.com/toolfleet/toolfleet/events/jetlog"
	"github.com/toolfleet/toolfleet/projections"
)

// PastOptions of [Past].
type PastOptions struct {
	// Chains, if any, are the only ones that are folded, as patterns of
	// [jetlog.Log.Select]. Default all, which also proves that the history up to
	// there is whole.
	Chains []string
	// Lists reads the lists as well, of tools, resources and prompts, each as a
	// whole. Default not.
	Lists bool
}

// Past returns a Reader with the views as they were at a position: the folds of
// the history up to it, which has to be from 1 to the end. The views that are
// stored are not read. Time in its [Reader.AsOf] is that of the last event that
// was folded.
//
// Its copy stays as it is: Run must not be called. A list that cannot be read any
// more is left out of its entry. The errors are those of the log.
func Past(ctx context.Context, log *jetlog.Log, seq events.Seq, o *PastOptions) (*Reader, error) {
	if o == nil {
		o = &PastOptions{}
	}
	head, err := log.Head(ctx)
	if err != nil {
		return nil, err
	}
	var h projections.History
	at := AsOf{Position: events.Position{Log: head.Log, Seq: seq}}
	for e, err := range past(ctx, log, seq, o) {
		if err != nil {
			return nil, errors.Wrapf(err, "fold the history up to %d", seq)
		}
		h.Apply(e)
		at.Time = e.Time
	}
	if ctx.Err() != nil {
		return nil, errors.Wrapf(context.Cause(ctx), "fold the history up to %d", seq)
	}
	r := &Reader{fleet: log.Fleet(), logger: slog.New(slog.DiscardHandler), copied: newContents()}
	r.copied.remember(&h, head.Log)
	if o.Lists {
		r.copied.readLists(ctx, log)
	}
	r.moments.Set(at, seq)
	return r, nil
}

func past(ctx context.Context, log *jetlog.Log, seq events.Seq, o *PastOptions) iter.Seq2[events.Record, error] {
	if len(o.Chains) > 0 {
		return log.Select(ctx, o.Chains, &jetlog.SelectOptions{Until: seq})
	}
	return log.Follow(ctx, 0, &jetlog.FollowOptions{Until: seq})
}

// remember takes the states of a history as entries.
func (c *contents) remember(h *projections.History, id events.LogID) {
	for s := range h.Servers() {
		c.servers[s.ID] = remembered(id, s)
	}
	for w := range h.Workers() {
		c.workers[w.ID] = remembered(id, w)
	}
	for i := range h.Instances() {
		within(c.instances, i.Server)[i.Instance] = remembered(id, i)
		for _, kind := range listKinds {
			if l := kind.catalogue(i); l.Changed > 0 {
				k := key{kind: kind, id: string(i.Server), instance: i.Instance}
				within(c.lists[kind], i.Server)[i.Instance] = &ListEntry{
					Log: id, Fold: projections.Version, Seq: l.Changed, Value: newList(k, l),
				}
			}
		}
	}
	if f := h.Fleet(); f.Seq > 0 {
		c.fleet = remembered(id, f)
	}
}

func remembered[S any, P interface {
	*S
	At() events.Tip
}](id events.LogID, s P) *projections.Entry[S] {
	at := s.At()
	return &projections.Entry[S]{Log: id, Fold: projections.Version, Seq: at.Seq, Link: at.Link, Value: *s}
}

const (
	// listsAtOnce is how many lists are read at the same time.
	listsAtOnce = 16
	// listWithin is how long a list is waited for: what is in the history was
	// stored before it.
	listWithin = 2 * time.Second
)

// readLists reads the lists that the entries tell of, each once.
func (c *contents) readLists(ctx context.Context, log *jetlog.Log) {
	of := make(map[events.Digest][]func(jsontext.Value))
	for kind, servers := range c.lists {
		for _, instances := range servers {
			for _, e := range instances {
				if d := e.Value.Digest; d != "" {
					of[d] = append(of[d], func(items jsontext.Value) { e.Value.fill(kind, items) })
				}
			}
		}
	}
	var all sync.WaitGroup
	slots := make(chan struct{}, listsAtOnce)
	for digest, fill := range of {
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			ctx, cancel := context.WithTimeout(ctx, listWithin)
			defer cancel()
			data, err := log.GetBlob(ctx, digest)
			if err != nil {
				return // it is told of by who lacks it
			}
			for _, f := range fill {
				f(data)
			}
		})
	}
	all.Wait()
}
